# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What tests of labs with real agents have in common: a Service with a server in each cluster, a client, and what agents print."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab import workloads
from tests.lab.pods import RUN
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

SPACE: Final = "default"
WEB: Final = f"/apis/apps/v1/namespaces/{SPACE}/deployments/web"
TEXTS: Final = {"c1": "hello from c1", "c2": "hello from c2"}
REFUSED: Final = "refused"
CLIENT: Final = "client"
SERVICE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": SPACE},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}


def furnish(lab: MeshLab) -> None:
    """Connect the clusters, and make their Service global; it ends when both answer to the client of each."""
    for cluster in lab.names:
        for body in (_deployment(cluster), SERVICE, workloads.pod(CLIENT, {"app": CLIENT}, workloads.PAUSE)):
            lab.api(cluster).create(body)
    run = lab.play("connect")
    assert run.rc == 0, run.output
    run = services(lab)
    assert run.rc == 0, run.output
    for cluster in lab.names:
        workloads.wait_ready(lab.api(cluster), SPACE, CLIENT)
        wait_for(partial(answers, lab, cluster), equals(set(TEXTS.values())), what=f"both clusters answer to {cluster}")


def _deployment(cluster: str) -> dict[str, Any]:
    labels = {"app": "web"}
    container = workloads.pod("web", labels, ["serve", TEXTS[cluster]])["spec"]["containers"][0]
    template = {
        "metadata": {"labels": labels, "annotations": {RUN: "true"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": SPACE}, "spec": spec}


def services(lab: MeshLab, **more: Any) -> PlaybookRun:
    """Play ``services`` with the Service as a global one."""
    return lab.play(
        "services", mesh={**lab.mesh(), "globalServices": [{"name": "web", "selector": {"namespace": SPACE, "name": "web"}, **more}]}
    )


def ask(lab: MeshLab, cluster: str) -> str:
    """One request of the client to the Service: who answered, or `REFUSED`."""
    handle = lab.lab.clusters[cluster]
    answer = workloads.curl(handle.api, handle.kubeconfig, SPACE, CLIENT, "http://web/", seconds=1)
    return answer.text.strip() if answer.code == 0 else REFUSED


def answers(lab: MeshLab, cluster: str, count: int = 8) -> set[str]:
    return {ask(lab, cluster) for _ in range(count)}


def agent(lab: MeshLab, cluster: str, *command: str) -> str:
    """Return what a command in the container of a cluster's only agent prints."""
    handle = lab.lab.clusters[cluster]
    (pod,) = handle.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=cilium")
    answer = workloads.execute(handle.kubeconfig, NAMESPACE, pod["metadata"]["name"], command, limit=90)
    assert answer.code == 0, answer.errors
    return answer.text
