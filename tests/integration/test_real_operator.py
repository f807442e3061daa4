# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator with real agents: what the status of each resource says is held against what a client gets, packet by packet."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from mesh_operator.base.kinds import BINDING, INTENT, SERVICE
from tests.demo_traffic.scene import CLIENT, NAME, SPACE, scene
from tests.integration.everything import everything
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import CHECK, NamespaceWorkspace
from tests.integration.real_mesh import REFUSED, TEXTS, answers
from tests.lab import workloads
from tests.lab.options import LabOptions
from tests.testing.management_plane import ManagementPlane
from tests.testing.namespace_world import HOME, open_namespaces
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals, wait_for

NODES: Final = "NodesReachable"
TUNNEL: Final = "UDP 8472"
OWN: Final = TEXTS["c1"]
BOTH: Final = set(TEXTS.values())
IN_MESH: Final[dict[str, Any]] = {"meshRef": {"name": "edge"}}
WEB: Final = {"namespace": SPACE, "name": NAME}
DENY: Final[dict[str, Any]] = {
    "action": "Deny",
    "source": {"namespace": SPACE, "name": CLIENT, "clusters": ["c1"]},
    "destination": WEB,
}
OF_AGENTS: Final = ("ciliumendpoints", "ciliumidentities", "ciliumnodes")


class Meshed:
    """A tenant's resources, the operator that serves them, and the client that shows what has become of them."""

    def __init__(self, tenant: NamespaceWorkspace, operator: OperatorProcess) -> None:
        self.tenant, self.operator, self.lab = tenant, operator, tenant.lab

    def phase(self, kind: str, name: str, wanted: str) -> None:
        self.operator.wait(partial(self.tenant.phase, kind, name), f"{kind} {name} is {wanted}", until=equals(wanted))

    def gone(self, kind: str, name: str) -> None:
        self.tenant.delete(kind, name)
        self.operator.wait(lambda: self.tenant.get(kind, name) is None, f"{kind} {name} is gone")

    def answered(self, by: set[str], when: str) -> float:
        """Wait until these and no others answer to the client of c1; return how long that took."""
        began = time.monotonic()
        wait_for(partial(answers, self.lab, "c1"), equals(by), what=f"{sorted(by)} answer {when}")
        return time.monotonic() - began

    def nodes(self, status: str) -> None:
        def said() -> str:
            return str(self.tenant.condition(BINDING, "edge", NODES).get("status"))

        self.operator.wait(said, f"{NODES} is {status}", until=equals(status))

    def reached(self, number: int) -> None:
        """Wait until so many of the only path of each pair of clusters are reached, of one that was asked."""

        def paths() -> dict[str, tuple[int, int]]:
            rows = self.tenant.status(BINDING, "edge")["links"]
            return {f"{row['cluster']} -> {row['peer']}": (row["nodePaths"]["reached"], row["nodePaths"]["asked"]) for row in rows}

        wanted = {"c1 -> c2": (number, 1), "c2 -> c1": (number, 1)}
        self.operator.wait(paths, f"{number} of each path is reached", until=equals(wanted))


@contextmanager
def meshed(folder: Path) -> Iterator[Meshed]:
    """An operator that watches namespaces of an ordinary cluster, and a tenant there with two clusters of real agents, not connected."""
    with (
        MeshLab(LabOptions(name=unused_name(), clusters=2, agents="real")) as lab,
        ManagementPlane() as management,
    ):
        management.install()
        for cluster in lab.names:
            for body in scene(TEXTS[cluster]):
                lab.api(cluster).create(body)
            workloads.wait_ready(lab.api(cluster), SPACE, CLIENT)
        with open_namespaces(management) as namespaces:
            tenant = NamespaceWorkspace(namespaces.tenant("shop"), management, lab, {})
            for cluster in lab.names:
                tenant.add(cluster)
            kubeconfig = folder / "operator.kubeconfig"
            kubeconfig.write_text(json.dumps(namespaces.operator().kubeconfig()), encoding="utf-8")
            places = ("--mgmt-namespace", HOME, "--namespace", HOME, "--no-leader-elect")
            intervals = ("--mesh-check-interval", f"{CHECK}s", "--reconcile-interval", "2s")
            with OperatorProcess(folder, None, kubeconfig, *places, *intervals) as operator:
                yield Meshed(tenant, operator)


def of_administrators(lab: MeshLab) -> dict[str, Any]:
    """Every object in the clusters but those in which agents write their own state."""
    return {place: entry for place, entry in everything(lab).items() if place.split("/")[1] not in OF_AGENTS}


def test_what_the_operator_says_of_real_agents_is_what_a_client_gets(real_agents: None, tmp_path: Path, record_property: Any) -> None:
    with meshed(tmp_path) as mesh:
        tenant, lab = mesh.tenant, mesh.lab
        mesh.answered({OWN}, "before there is a mesh")
        untouched, late = of_administrators(lab), {}

        tenant.create(BINDING, "edge", clusterRefs=tenant.refs("c1", "c2"))
        tenant.create(SERVICE, NAME, **IN_MESH, selector=WEB)
        mesh.phase(BINDING, "edge", "Connected")
        mesh.phase(SERVICE, NAME, "Exported")
        late["Exported"] = mesh.answered(BOTH, "as the service is exported")
        mesh.nodes("True")
        mesh.reached(1)

        tenant.create(INTENT, "no-client", **IN_MESH, **DENY)
        mesh.phase(INTENT, "no-client", "Applied")
        late["Applied"] = mesh.answered({REFUSED}, "as the Deny is applied")
        mesh.gone(INTENT, "no-client")
        late["taken back"] = mesh.answered(BOTH, "as the Deny is gone")

        lab.lab.block("c1", "c2", "udp/8472")
        try:
            late["blocked"] = mesh.answered({OWN, REFUSED}, "while the tunnel is blocked")
            mesh.nodes("False")
            mesh.reached(0)  # each agent finds out by its own probe
            mesh.phase(BINDING, "edge", "Degraded")
            broken, ready = tenant.condition(BINDING, "edge", NODES), tenant.condition(BINDING, "edge")
            assert (broken["reason"], ready["reason"]) == ("PodNetworkBlocked", "PacketsLost")
            assert all(part in broken["message"] for part in (TUNNEL, "c1 -> c2", "c2 -> c1")), broken
            found = [row for row in tenant.status(BINDING, "edge")["findings"] if row["code"] == "CM-NET-08"]
            assert {(row["cluster"], row["peer"]) for row in found} == {("c1", "c2"), ("c2", "c1")}
            assert all(TUNNEL in row["summary"] and TUNNEL in row["fix"][0] for row in found), found
        finally:
            lab.lab.heal("c1", "c2")
        late["healed"] = mesh.answered(BOTH, "as the tunnel is healed")
        mesh.nodes("True")
        mesh.reached(1)
        mesh.phase(BINDING, "edge", "Connected")

        for place in tenant.resources():
            tenant.delete(*place.split("/"))
        mesh.operator.wait(lambda: not tenant.resources(), "no resource is left")
        late["deleted"] = mesh.answered({OWN}, "as the mesh is gone")
        assert tenant.record("edge") is None
        assert of_administrators(lab) == untouched
        shown = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in late.items())
        record_property("packets", shown)
        print(f"seconds until packets did what the status said, eight requests included: {shown}")
