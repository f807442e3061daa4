# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A workload with a global service runs in one of two connected clusters; the cluster dies, and clients reach it where it went.

Karmada, its members, the mesh and the agents are real; what agents use is read off `cilium service list`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace, member_name
from tests.integration.agent_lists import backends
from tests.integration.fleet_lab import SHOP, FleetLab, status, web
from tests.integration.labs import KARMADA_FAILOVER
from tests.integration.mesh_lab import MeshLab
from tests.testing.karmada_members import CLUSTERS
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = [pytest.mark.lab(KARMADA_FAILOVER), pytest.mark.usefixtures("karmada_programs")]

SERVICE = f"/api/v1/namespaces/{karmada_namespace(SHOP)}/services/web"
POLICY = {
    "name": "one",
    "strategy": "Spread",
    "spread": {"by": "cluster", "min": 1, "max": 1},
    "migration": {"auto": True, "dwellSeconds": 10},
    "requireConnected": {"meshRef": {"name": "edge"}},
}


@pytest.fixture(scope="module")
def fleet(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetLab]:
    yield FleetLab(module_lab, tmp_path_factory.mktemp("kubeconfigs"))


def placed(run: PlaybookRun) -> list[str]:
    return [row["clusterName"] for row in status(run)["placements"]]


def services(lab: MeshLab, run: PlaybookRun, **hosts: Any) -> PlaybookRun:
    """The playbook of the mesh with the global services that the run of the workloads asks for."""
    assert run.mesh_result is not None
    mesh = {**lab.mesh(), "globalServices": run.mesh_result["global_services"]}
    return lab.play("services", mesh=mesh, **hosts)


def test_a_global_service_answers_from_where_its_workload_went(fleet: FleetLab) -> None:
    lab, names = fleet.lab, fleet.lab.names
    binding = str(lab.mesh()["binding"]["name"])
    global_service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": binding}}
    workload = web("1", placementRef={"name": "one"}, service=global_service)
    policy = {**POLICY, "requireConnected": {"meshRef": {"name": binding}}}

    def play(connected: Sequence[str]) -> PlaybookRun:
        return fleet.play([workload], policies=[policy], connected={binding: list(connected)})

    early = play([])
    assert "has none of the clusters" in status(early)["conditions"][0]["message"], early.output
    assert lab.play("connect").rc == 0

    run = play(names)
    assert (run.rc, status(run)["phase"], len(placed(run))) == (0, "Available", 1), run.output
    (home,) = placed(run)
    (other,) = set(names) - {home}
    exported = services(lab, run)
    assert exported.rc == 0, exported.output
    for cluster in names:
        wait_for(
            partial(backends, lab, cluster, SERVICE, affinity=False),
            equals({home: 2}),
            what=f"clients in {cluster} reach the workload in {home}",
        )
    again = play(names)
    assert (again.rc, again.changed, services(lab, again).changed) == (0, False, 0), "Karmada and the mesh share the Service"

    lab.lab.kill(home)
    # Its mesh endpoint is dead, and for Karmada its API server too: what is at this address does not answer.
    fleet.karmada.patch(f"{CLUSTERS}/{member_name(SHOP, home)}", {"spec": {"apiEndpoint": "https://127.0.0.1:1"}})
    wait_for(partial(play, names), lambda found: placed(found) == [other], what=f"the workload moves to {other}", every=1)
    wait_for(
        partial(backends, lab, other, SERVICE, affinity=False),
        lambda found: found.get(other) == 2,
        what=f"clients in {other} reach the workload there",
    )
    lab.lab.restart(home)
