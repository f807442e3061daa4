# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.demo``: preflight, connect, status and disconnect on two real control planes, and a verdict as the last line.

Exit status 0 only if the real kvstoremesh of both clusters said that its peer is ready, and the mesh was taken down again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.demo.evidence import ask_kvstoremesh
from tests.demo.play import Desk
from tests.demo.stages import Demo, StageFailed, find_servers, say
from tests.demo.verdict import Verdict, judge
from tests.lab.lab import Lab
from tests.lab.options import LabOptions

BINDING = "edge-mesh-eu"
CLUSTERS = ("cluster-ffm-1", "cluster-ber-2")
CILIUM = "1.20"


class MeshDemo(Demo):
    """The five stages, and what they found out so far."""

    STAGES = 5

    def __init__(self) -> None:
        super().__init__()
        self.taken_down = False
        self.said: dict[str, list[dict[str, Any]]] = {}
        self.phase = ""

    def verdict(self) -> Verdict:
        verdict = judge(BINDING, CLUSTERS, self.said, self.phase)
        return verdict if self.taken_down or not verdict.good else Verdict(good=False, text=f"{verdict.text}, but not taken down again")

    def run(self) -> None:
        """All stages. Raises StageFailed."""
        self.begin("Servers", "kube-apiserver, controller-manager, scheduler, etcd and clustermesh-apiserver, found or built once")
        find_servers(CILIUM)
        self.begin(
            "Clusters", f"{' and '.join(CLUSTERS)} with what the chart of Cilium {CILIUM} leaves in a cluster, each with a CA of its own"
        )
        with self.lab() as lab, self.desk(lab) as desk:
            self.begin("Preflight", "playbook verify: may these clusters be meshed? Nothing is written")
            self.play(desk, "verify", "The findings above name each cause and its fix.")
            self.begin("Connect", "playbook connect, then status; after that the demo asks every kvstoremesh process itself")
            self.connect(desk, lab)
            self.begin("Disconnect", "playbook disconnect: everything that connect wrote goes away again")
            self.play(desk, "disconnect", "The output above names what could not be removed.")
            self.taken_down = True

    @contextmanager
    def lab(self) -> Iterator[Lab]:
        say("      starting, usually 10 s")
        started = time.monotonic()
        with Lab(LabOptions(name="demo", clusters=len(CLUSTERS), names=CLUSTERS, cilium=CILIUM, ca="own")) as lab:
            say(f"      ready after {time.monotonic() - started:.0f} s")
            yield lab

    def desk(self, lab: Lab) -> Desk:
        binding = {"name": BINDING, "clusterRefs": [{"name": name} for name in CLUSTERS]}
        return Desk({name: lab.clusters[name].kubeconfig for name in CLUSTERS}, {"cilium_mesh": {"binding": binding}})

    def play(self, desk: Desk, playbook: str, remedy: str) -> Mapping[str, Any]:
        say(f"      $ ansible-playbook edge_portal.cilium_mesh.{playbook}")
        run = desk.run(playbook)
        if run.status != 0:
            raise StageFailed(f"ansible-playbook edge_portal.cilium_mesh.{playbook} ended with status {run.status}. {remedy}")
        return run.mesh_result or {}

    def connect(self, desk: Desk, lab: Lab) -> None:
        self.play(desk, "connect", "The output above names the link that is not ready, and the stage it is in.")
        result = self.play(desk, "status", "The output above names the cluster that could not be asked.")
        binding = (result.get("status") or {}).get("binding") or {}
        self.phase = str(binding.get("phase", ""))
        for name in CLUSTERS:
            self.said[name] = ask_kvstoremesh(lab.clusters[name].kubeconfig)
            for row in self.said[name]:
                state = "ready" if row.get("ready") else "NOT ready"
                say(f"      kvstoremesh of {name} says: {row.get('name')} is {state} ({row.get('status', '')})")
        if not judge(BINDING, CLUSTERS, self.said, self.phase).good:
            raise StageFailed(
                "The two clusters are not connected, whatever the playbooks said; this is a defect. Please report the output above."
            )


def main() -> int:
    return MeshDemo().perform(f"Demo of edge_portal.cilium_mesh: binding {BINDING} connects {' and '.join(CLUSTERS)}.")


if __name__ == "__main__":
    sys.exit(main())
