# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A changed global Service comes to clusters that have it for their clients alone when every cluster with the workload has it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace
from tests.integration.fleet_lab import SHOP, FleetLab, status, web
from tests.integration.labs import KARMADA_CLIENTS
from tests.integration.mesh_lab import MeshLab
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = [pytest.mark.lab(KARMADA_CLIENTS), pytest.mark.usefixtures("karmada_programs")]

SERVICE = f"/api/v1/namespaces/{karmada_namespace(SHOP)}/services/web"


@pytest.fixture(scope="module")
def fleet(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> FleetLab:
    return FleetLab(module_lab, tmp_path_factory.mktemp("kubeconfigs"))


def ports(fleet: FleetLab) -> list[int]:
    found = [fleet.lab.api(cluster).get(SERVICE) for cluster in fleet.lab.names]
    return [entry["spec"]["ports"][0]["port"] if entry else 0 for entry in found]


def test_clients_get_a_changed_global_service_with_the_last_wave(fleet: FleetLab) -> None:
    *homes, clients = fleet.lab.names
    near = {"key": "tier", "operator": "In", "values": [f"tier-{name}" for name in homes]}
    policy = {"name": "near", "strategy": "FixedReplicas", "requirements": [near]}

    def play(port: int, **more: Any) -> PlaybookRun:
        service = {"ports": [{"port": port}], "global": True, "meshRef": {"name": "edge"}}
        workload = web("1", placementRef={"name": "near"}, service=service, rollout={"batchSize": 1})
        return fleet.play([workload], policies=[policy], **more)

    first = play(80)
    assert (first.rc, {row["clusterName"] for row in status(first)["placements"]}) == (0, set(homes)), first.output
    wait_for(partial(ports, fleet), equals([80, 80, 80]), what=f"the Service is in {clients} too")
    run, seen = first, dict[int, list[list[int]]]()
    while status(run)["phase"] != "Available" or status(run)["rollout"]["revision"] == 1:
        run = play(81, fleet_workload_wait=False)
        assert run.rc == 0, run.output
        rollout = status(run)["rollout"]
        seen.setdefault(rollout["wave"] if rollout["phase"] != "Complete" else 3, []).append(ports(fleet))
    assert [81, 80, 80] in seen[1] and all(found[1:] == [80, 80] for found in (*seen.get(0, ()), *seen[1])), seen
    wait_for(partial(ports, fleet), equals([81, 81, 81]), what=f"{clients} has it in the end")
