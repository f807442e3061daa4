# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What tests of labs with real agents have in common: a Service with a server in each cluster, a client, and what agents print."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tests.demo_traffic.evidence import Agent
from tests.demo_traffic.scene import CLIENT, SPACE, scene
from tests.integration.mesh_lab import MeshLab
from tests.lab import workloads
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

TEXTS: Final = {"c1": "hello from c1", "c2": "hello from c2"}
REFUSED: Final = "refused"


def furnish(lab: MeshLab, *, packets: bool = True) -> None:
    """Connect the clusters, and make their Service global; it ends when both answer to the client of each, where there are packets."""
    for cluster in lab.names:
        for body in scene(TEXTS[cluster]):
            lab.api(cluster).create(body)
    run = lab.play("connect")
    assert run.rc == 0, run.output
    run = services(lab)
    assert run.rc == 0, run.output
    for cluster in lab.names if packets else ():
        workloads.wait_ready(lab.api(cluster), SPACE, CLIENT)
        wait_for(partial(answers, lab, cluster), equals(set(TEXTS.values())), what=f"both clusters answer to {cluster}")


def services(lab: MeshLab, **more: Any) -> PlaybookRun:
    """Play ``services`` with the Service as a global one."""
    return lab.play(
        "services", mesh={**lab.mesh(), "globalServices": [{"name": "web", "selector": {"namespace": SPACE, "name": "web"}, **more}]}
    )


def ask(lab: MeshLab, cluster: str) -> str:
    """One request of the client to the Service: who answered, or `REFUSED`."""
    answer = workloads.curl(lab.lab.clusters[cluster].kubeconfig, SPACE, CLIENT, "http://web/", seconds=1)
    return answer.text.strip() if answer.code == 0 else REFUSED


def answers(lab: MeshLab, cluster: str, count: int = 8) -> set[str]:
    return {ask(lab, cluster) for _ in range(count)}


def agent(lab: MeshLab, cluster: str, *command: str) -> str:
    """Return what a command in the container of a cluster's only agent prints."""
    answer = Agent(lab.lab.clusters[cluster]).run(*command)
    assert answer.code == 0, answer.errors
    return answer.text
