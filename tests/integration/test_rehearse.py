# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a rehearsal says is held against what then happens: a link is cut, and a member dies.

Clients are no processes of the lab: the backends to which they would be sent are those that agents list. c1 lists as agents up to 1.17 do.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.integration.agent_lists import NAME, backends, demo, ready, scale, wait_for_backends
from tests.integration.labs import LISTS
from tests.integration.mesh_lab import MeshLab
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

SERVICE = {
    "name": "nginx",
    "selector": {"namespace": "default", "name": NAME},
    "affinity": "None",
    "failover": {"detectWithin": "60s", "minLocalReady": 2},
}
EXPOSURE = {
    "name": "shop",
    "service": {"namespace": "default", "name": NAME},
    "port": {"number": 80},
    "class": "LoadBalancer",
    "sourceRanges": ["192.0.2.0/24"],
    "clusters": {"primary": "c2", "standby": ["c1"]},
}


def with_items(lab: MeshLab) -> dict[str, Any]:
    return {**lab.mesh(), "globalServices": [SERVICE], "exposedServices": [EXPOSURE]}


def losses(run: PlaybookRun) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in run.result["rehearsal"]["losses"]}


def clients(loss: dict[str, Any], cluster: str) -> dict[str, Any]:
    """What the rehearsal says of the clients of a cluster, for the one service."""
    (service,) = loss["services"]
    found: dict[str, Any] = next(row for row in service["clients"] if cluster in row["clusters"])
    return found


def listed(use: dict[str, int], *, mark: str = "") -> dict[str, int]:
    """Backends that agents of c1 list when they are sent to these: all live ones are its own, the others are those of c2."""
    other = use["frozen"] + use["dead"]
    return {f"c1{mark}": use["live"], **({"c2": other} if other else {})}


def served(lab: MeshLab, dead: dict[str, dict[str, str]] | None = None) -> list[str]:
    """Clusters whose address of the exposure serves; a load balancer has one some time after it was made."""
    (row,) = lab.play("exposures", mesh=with_items(lab), hosts=dead).result["status"]["exposedServices"]
    return [place["clusterName"] for place in row["addresses"] if place["serving"]]


@pytest.mark.lab(LISTS)
def test_what_is_rehearsed_is_what_happens_when_a_link_is_cut_and_a_member_dies(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    demo(lab)
    for cluster in lab.names:
        wait_for(partial(ready, lab, cluster), equals(2), what=f"{cluster} has 2 ready endpoints")
    made = lab.play("mesh", mesh=with_items(lab))
    assert made.rc == 0, made.output
    wait_for(partial(served, lab), equals(["c2"]), what="the load balancer in c2 has its address")
    wait_for_backends(lab, "c1", {"c1": 2, "c2": 2})

    before = lab.snapshot(volatile=True)
    said = lab.play("rehearse", mesh=with_items(lab), cilium_mesh_fail_on=["service-without-backend", "dead-backends"])
    assert said.rc == 2
    assert "would do what fail_on names: c1 is gone: dead-backends (1); c2 is gone: dead-backends (1)" in said.output
    assert "default/nginx-deployment: 2 of 4 ready: 2 in c1" in said.output
    assert lab.snapshot(volatile=True) == before, "a rehearsal writes nothing"

    cut, gone = losses(said)["links c1 - c2 are cut"], losses(said)["c2 is gone"]
    assert (cut["verdict"], gone["verdict"]) == ("degraded", "degraded")
    lab.lab.cut("c1", "c2")
    scale(lab, "c2", 3)
    assert backends(lab, "c1") == listed(clients(cut, "c1")["atOnce"]), "the third backend of c2 arrived over a cut link"
    lab.lab.heal("c1", "c2")
    wait_for_backends(lab, "c1", {"c1": 2, "c2": 3})
    scale(lab, "c2", 2)
    wait_for_backends(lab, "c1", {"c1": 2, "c2": 2})

    lab.lab.kill("c2")
    assert lab.kvstoremesh_status("c1")["c2"].get("ready"), "it is noticed at once, so that nothing is shown"
    wait_for(
        lambda: bool(lab.kvstoremesh_status("c1")["c2"].get("ready")), equals(False), what="kvstoremesh of c1 has noticed it", every=1.5
    )
    forecast = clients(gone, "c1")
    assert (forecast["keptForSeconds"], backends(lab, "c1")) == (None, listed(forecast["atOnce"])), "kept for ever, also once it is noticed"
    dead = {"c2": {"cilium_mesh_unavailable": "it is dead"}}
    lab.play("services", mesh=with_items(lab), hosts=dead)
    assert backends(lab, "c1") == {**listed(forecast["contracted"], mark=" preferred"), "c2": 2}, "the contract brings clients of c1 home"
    (exposed,) = gone["exposures"]
    assert (exposed["fate"], exposed["servedByAfterwards"]) == ("moves", ["c1"])
    wait_for(partial(served, lab, dead), equals(["c1"]), what="it is served where the rehearsal says")
    assert "leases-without-majority" in gone["harms"], "one of two has no majority"
