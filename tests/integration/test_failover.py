# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Local backends first, remote ones when there are none or too few, a dead cluster's last; and back again, without swinging.

What agents use is read off `cilium service list`. Endpoints come from the real controllers and are exported by the real
clustermesh-apiserver; c1 lists as agents up to 1.17 do, c2 as those from 1.18 on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.agent_lists import NAME, agent, backends, demo, scale, wait_for_backends
from tests.integration.labs import LISTS
from tests.integration.mesh_lab import MeshLab
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.lab(LISTS)


@pytest.fixture(scope="module")
def lab(module_lab: MeshLab) -> MeshLab:
    """Two connected clusters with the Deployment and the Service of the walk-through."""
    run = module_lab.play("connect")
    assert run.rc == 0, run.output
    demo(module_lab)
    return module_lab


def taken_back(lab: MeshLab) -> PlaybookRun:
    """One run of the playbook without an item: the Service is as its owner made it."""
    return lab.play("services", mesh={**lab.mesh(), "globalServices": []})


def services(lab: MeshLab, *, affinity: str = "Local", **failover: Any) -> PlaybookRun:
    """One run of the playbook, as AWX or the operator would make it every detectWithin/2."""
    item = {"name": "nginx", "selector": {"namespace": "default", "name": NAME}, "affinity": affinity}
    item |= {"failover": failover} if failover else {}
    return lab.play("services", mesh={**lab.mesh(), "globalServices": [item]})


def rows(run: PlaybookRun) -> dict[str, tuple[Any, ...]]:
    """Ready endpoints, affinity, shared; by cluster."""
    (status,) = run.result["status"]["globalServices"]
    return {row["clusterName"]: (row["readyEndpoints"], row["affinity"], row["shared"]) for row in status["endpointSummary"]}


def test_local_backends_first_then_few_of_all_then_remote_ones_and_back(lab: MeshLab) -> None:
    assert taken_back(lab).rc == 0
    for cluster in lab.names:
        scale(lab, cluster, 2)
    wait_for_backends(lab, "c1", {"c1": 2})  # a Service that is not global has its own backends only

    contract: dict[str, Any] = {"detectWithin": "60s", "minLocalReady": 2, "hysteresis": 1}
    well = services(lab, **contract)
    assert (well.rc, rows(well)) == (0, {"c1": (2, "Local", True), "c2": (2, "Local", True)}), well.output
    assert well.result["requeueSeconds"] <= 30
    assert "CM-GS-31" in well.finding_codes(), "neither cluster has clustermesh-cache-ttl"
    wait_for_backends(lab, "c1", {"c1 preferred": 2, "c2": 2})
    assert backends(lab, "c2") == {"c2 preferred": 2}

    scale(lab, "c1", 0)  # Cilium's own failover: no tool has to write anything
    wait_for_backends(lab, "c1", {"c2": 2})

    scale(lab, "c1", 1)
    few = services(lab, **contract)
    assert (few.rc, rows(few)) == (0, {"c1": (1, "None", False), "c2": (2, "Local", True)}), few.output
    wait_for_backends(lab, "c1", {"c1": 1, "c2": 2})
    wait_for(lambda: shared_by(lab, "c1", seen_in="c2"), equals(0), what="c1 no longer offers its last backend")

    scale(lab, "c1", 2)
    between = services(lab, **contract)
    assert (between.changed, rows(between)) == (0, {"c1": (2, "None", False), "c2": (2, "Local", True)})

    scale(lab, "c1", 3)
    back = services(lab, **contract)
    assert rows(back) == {"c1": (3, "Local", True), "c2": (2, "Local", True)}
    wait_for_backends(lab, "c1", {"c1 preferred": 3, "c2": 2})
    wait_for(lambda: shared_by(lab, "c1", seen_in="c2"), equals(1), what="c1 offers its backends again")


def shared_by(lab: MeshLab, peer: str, *, seen_in: str) -> int:
    """Services that an agent has from the peer."""
    clusters = json.loads(agent(lab, seen_in, "status", "-o", "json"))["cluster-mesh"]["clusters"]
    return next(int(row.get("num-shared-services", 0)) for row in clusters if row["name"] == peer)


def test_clients_are_kept_from_a_dead_cluster_and_sent_there_again_when_it_lives(lab: MeshLab) -> None:
    contract: dict[str, Any] = {"affinity": "None", "detectWithin": "60s", "minLocalReady": 2}
    for cluster, replicas in (("c1", 3), ("c2", 2)):
        scale(lab, cluster, replicas)
    assert services(lab, **contract).rc == 0
    wait_for_backends(lab, "c1", {"c1": 3, "c2": 2})

    lab.lab.kill("c2")
    assert lab.kvstoremesh_status("c1")["c2"]["ready"], "kvstoremesh has noticed it, so that this test proves nothing"
    dead = services(lab, **contract)
    assert rows(dead)["c1"] == (3, "Local", True), dead.output
    (found,) = [f for f in dead.result["findings"] if f["code"] == "CM-GS-32" and f["cluster"] == "c2"]
    assert "c2 cannot be reached by c1, and with it 2 backends; clients of c1 are kept to backends there" in found["summary"]
    assert backends(lab, "c1") == {"c1 preferred": 3, "c2": 2}, "Cilium itself keeps the dead ones"

    lab.lab.restart("c2")
    wait_for(lambda: connected(lab), what="the mesh is connected again")
    alive = services(lab, **contract)
    assert rows(alive) == {"c1": (3, "None", True), "c2": (2, "None", True)}, alive.output
    wait_for_backends(lab, "c1", {"c1": 3, "c2": 2})


def connected(lab: MeshLab) -> bool:
    """By the agents, who open new connections."""
    shown = [json.loads(agent(lab, cluster, "status", "-o", "json"))["cluster-mesh"]["clusters"] for cluster in lab.names]
    return all(row.get("ready") for clusters in shown for row in clusters) and lab.kvstoremesh_status("c1")["c2"].get("ready", False)
