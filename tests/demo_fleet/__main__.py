# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.demo_fleet``: two clusters join a real Karmada, a workload runs in both, changes wave by wave, returns, and leaves.

Exit status 0 only if the clusters themselves had the copies that the last line names, and nothing is left in them and in Karmada.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.demo.play import Desk
from tests.demo.stages import Demo, StageFailed, find_servers, say
from tests.demo.verdict import Verdict
from tests.demo_fleet.evidence import Watcher, left_in_cluster, left_in_karmada
from tests.demo_fleet.verdict import Seen, Snapshot, Story
from tests.lab import tools
from tests.lab.api import LabApi
from tests.lab.lab import Lab
from tests.lab.options import LabOptions
from tests.testing.karmada_members import deployer_kubeconfig
from tests.testing.waiting import NeverCame, wait_for

CLUSTERS: Final = ("cluster-ffm-1", "cluster-ber-2")
WORKSPACE: Final = "shop"
NAME: Final = "web"
STORY: Final = Story(workload=f"{WORKSPACE}/{NAME}", waves=CLUSTERS, old="1", new="2")
CILIUM: Final = "1.20"


class FleetDemo(Demo):
    """The stages, and what was seen so far."""

    STAGES = 7

    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen()

    def verdict(self) -> Verdict:
        return STORY.judge(self.seen)

    def run(self) -> None:
        """All stages. Raises StageFailed."""
        self.begin("Servers", "kube-apiserver, etcd, clustermesh-apiserver and a Karmada with its scheduler, found or built once")
        find_servers(CILIUM, tools.KARMADA)
        self.begin("Clusters", f"{' and '.join(CLUSTERS)}, and a Karmada beside them that knows none of them yet")
        with self.lab() as lab, tempfile.TemporaryDirectory(prefix="fleet-demo-") as folder:
            kubeconfigs = {name: lab.clusters[name].kubeconfig for name in CLUSTERS}
            deployer = deployer_kubeconfig(LabApi.from_kubeconfig(lab.karmada), lab.karmada, Path(folder))
            with Desk({"karmada": lab.karmada, **kubeconfigs}, {"fleet": FLEET}) as admin, Desk({"karmada": deployer}, {}) as tenant:
                self.begin("Join", "playbook fleet_clusters: both become members of Karmada, by tokens that end")
                self.play(admin, "fleet_clusters")
                with Watcher(kubeconfigs, NAME) as watcher:
                    self.workload(tenant, watcher)
                self.begin("Leave", "the workload is removed, and then both clusters leave Karmada")
                self.play(tenant, "fleet", fleet={**FLEET, "workloads": []})
                self.play(admin, "fleet_clusters", fleet=FLEET, fleet_cluster_state="absent", fleet_cluster_clusters=list(CLUSTERS))
                self.left(kubeconfigs, lab.karmada)

    def workload(self, desk: Desk, watcher: Watcher) -> None:
        self.begin(
            "Deploy", f"playbook fleet: {NAME}:{STORY.old} with two pods in each cluster, written with the rights of the deployer only"
        )
        self.play(desk, "fleet", fleet=fleet(STORY.old))
        self.seen.deployed = self.show(watcher)
        self.begin("Roll out", f"{NAME}:{STORY.new} in two waves: {CLUSTERS[1]} follows when all pods in {CLUSTERS[0]} are new and ready")
        already = len(watcher.snapshots)
        self.play(desk, "fleet", fleet=fleet(STORY.new))
        self.seen.updated = self.show(watcher)
        self.seen.rollout = watcher.snapshots[already:]
        self.begin("Roll back", "playbook fleet_rollout: the first revision again, in the same waves")
        back = {"fleet_workload_name": NAME, "fleet_workload_operation": "rollback", "fleet_workload_operation_id": "demo"}
        self.play(desk, "fleet_rollout", fleet=fleet(STORY.new), fleet_workload_to_revision=1, **back)
        self.seen.returned = self.show(watcher)

    @contextmanager
    def lab(self) -> Iterator[Lab]:
        say("      starting, usually 30 s")
        started = time.monotonic()
        with Lab(LabOptions(name="demo-fleet", clusters=len(CLUSTERS), names=CLUSTERS, cilium=CILIUM, karmada=True)) as lab:
            say(f"      ready after {time.monotonic() - started:.0f} s")
            yield lab

    def play(self, desk: Desk, playbook: str, **variables: Any) -> None:
        say(f"      $ ansible-playbook edge_portal.cilium_mesh.{playbook}")
        if variables:
            desk.write("mesh.json", variables)
        run = desk.run(playbook)
        if run.status != 0:
            raise StageFailed(f"ansible-playbook edge_portal.cilium_mesh.{playbook} ended with status {run.status}. Its output says why.")

    def show(self, watcher: Watcher) -> Snapshot:
        """What the clusters themselves have now."""
        snapshot = watcher.now()
        for name, copy in snapshot.items():
            ready = f"{copy.ready} pods ready" if copy.whole else f"{copy.ready} pods ready, not all of them new"
            say(f"      API server of {name} says: {NAME}:{copy.tag or 'none'}, {ready}")
        return snapshot

    def left(self, kubeconfigs: Mapping[str, Path], karmada: Path) -> None:
        def found() -> list[str]:
            rows = [line for name, path in kubeconfigs.items() for line in left_in_cluster(name, path)]
            return rows + left_in_karmada(karmada)

        try:
            self.seen.left = wait_for(found, lambda lines: not lines, what="nothing is left", every=1)
        except NeverCame:
            self.seen.left = found()
        for line in self.seen.left:
            say(f"      LEFT: {line}")


def fleet(tag: str) -> dict[str, Any]:
    """The variable ``fleet`` with the workload."""
    workload = {
        "name": NAME,
        "fleetRef": {"name": "all"},
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": NAME, "image": f"registry.example/{NAME}:{tag}"}]}},
        "service": {"ports": [{"port": 80}]},
        "rollout": {"waves": [{"clusters": [name]} for name in CLUSTERS]},
    }
    return {**FLEET, "workloads": [workload]}


FLEET: Final = {
    "workspace": WORKSPACE,
    "karmada": "karmada",
    "clusters": [{"name": name} for name in CLUSTERS],
    "fleets": [{"name": "all", "clusterRefs": [{"name": name} for name in CLUSTERS]}],
}


def main() -> int:
    return FleetDemo().perform(f"Demo of edge_portal.cilium_mesh: a workload of the tenant {WORKSPACE} in {' and '.join(CLUSTERS)}.")


if __name__ == "__main__":
    sys.exit(main())
