# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The playbook mesh: one file says everything, one run makes it so, and what goes from the file goes from the clusters."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import PRUNE_WAVES
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.policy_waves import ALLOW
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from tests.integration import credentials
from tests.integration.everything import everything
from tests.integration.labs import OTHER_THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import EXPOSURE, INTENT, NAMESPACE, SERVICE, Object, furnish
from tests.lab.api import LabApi
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for


def file_of(lab: MeshLab, *, services: Any = (SERVICE,), intents: Any = (INTENT,), exposures: Any = (EXPOSURE,)) -> Object:
    lists = {"globalServices": services, "connectivityIntents": intents, "exposedServices": exposures}
    return {**lab.mesh(), **{key: list(value) for key, value in lists.items() if value is not None}}


def phases(run: PlaybookRun) -> dict[str, str]:
    status = run.result["status"]
    rows = {key: status[key] for key in ("globalServices", "connectivityIntents", "exposedServices")}
    return {f"{key}/{row['name']}": row["phase"] for key, listed in rows.items() for row in listed}


def made_for(run: PlaybookRun, item: str) -> list[tuple[str, str]]:
    return [(step["verb"], step["object"]) for step in run.result["plan"]["steps"] if step.get("item") == item]


def accepted(run: PlaybookRun, kind: str, name: str) -> str:
    row = next(row for row in run.result["status"][kind] if row["name"] == name)
    return str(next(c["status"] for c in row["conditions"] if c["type"] == "Accepted"))


ALL_GOOD = {
    "globalServices/nginx": "Exported",
    "connectivityIntents/frontend-to-nginx": "Applied",
    "exposedServices/shop": "Exposed",
}


@pytest.mark.lab(OTHER_THREE_120, use=2)
def test_one_file_makes_the_mesh_and_takes_it_away(lab: MeshLab) -> None:
    furnish(lab)
    before = everything(lab)
    whole = file_of(lab)

    # Check mode promises one plan of links and items, with one hash, and writes nothing.
    promised = lab.play("mesh", mesh=whole, arguments=["--check"], own_process=True)
    assert promised.rc == 0, promised.output
    assert promised.changed and everything(lab) == before
    digest = promised.result["plan"]["hash"]
    assert len(digest) == 64 and digest in promised.output

    # Another plan than the approved one is refused as a whole, whichever part of it differs; so is a hash from before there was one plan.
    links = lab.play("plan", mesh=whole).result["plan"]["hash"]
    for wrong in ("0" * 12, links, f"{links[:12]}.{digest[:12]}"):
        refused = lab.play("mesh", mesh=whole, cilium_mesh_hash=wrong)
        assert refused.rc != 0 and everything(lab) == before, refused.output
        assert not refused.result["changed"]
        assert ("CM-PLAN-01" in refused.finding_codes()) == ("." not in wrong), refused.output
        assert ("hash has two parts" in refused.output) == ("." in wrong), refused.output

    first = lab.play("mesh", mesh=whole, cilium_mesh_hash=digest[:12], own_process=True)
    assert first.rc == 0, first.output
    assert first.result["plan"]["steps"] == promised.result["plan"]["steps"] and first.result["plan"]["hash"] == digest
    assert first.result["status"]["binding"]["phase"] == "Connected"
    for cluster in lab.names:
        wait_for(partial(address_of_shop, lab.api(cluster)), what=f"the Service in {cluster} has an address")

    second = lab.play("mesh", mesh=whole)
    assert (second.rc, second.changed, second.result["plan"]["steps"]) == (0, 0, []), second.output
    assert phases(second) == ALL_GOOD, second.output
    made = everything(lab)

    # One item is wrong, another is gone from the file: the first keeps what it made, the second goes, the third does not notice.
    bad = {**INTENT, "ports": [{"protocol": "TCP", "port": 70000}]}
    third = lab.play("mesh", mesh=file_of(lab, intents=[bad], exposures=[]))
    assert third.rc != 0 and "1 refused (connectivityIntents/frontend-to-nginx)" in third.output
    assert accepted(third, "connectivityIntents", "frontend-to-nginx") == "False"
    assert phases(third) == {"globalServices/nginx": "Exported", "connectivityIntents/frontend-to-nginx": "Error"}
    assert [verb for verb, _object in made_for(third, "exposedServices/shop")] == ["delete", "delete"]
    gone = set(made) - set(now := everything(lab))
    assert len(gone) == 2 and all("/services/production/shop-" in path for path in gone)
    assert now == {path: made[path] for path in now}

    # A list that is not in the file says nothing about its kind; connect takes the same file and leaves the items alone.
    for playbook, given in (("mesh", file_of(lab, services=None, intents=None, exposures=None)), ("connect", whole)):
        untouched = lab.play(playbook, mesh=given)
        assert (untouched.rc, untouched.changed) == (0, 0) and everything(lab) == now, untouched.output

    # Links whose status is given are left alone, and the items go by it. That is no way to approve or to take away.
    status = second.result["status"]["binding"]
    quick = lab.play("mesh", mesh=file_of(lab, intents=[], exposures=[]), cilium_mesh_binding_status=status)
    assert quick.rc == 0 and phases(quick) == {"globalServices/nginx": "Exported"}, quick.output
    assert quick.result["status"]["binding"] is None and {step["verb"] for step in quick.result["plan"]["steps"]} == {"delete"}
    assert {path.split("/")[-3] for path in set(now) - set(everything(lab))} == {"ciliumnetworkpolicies"}
    held = everything(lab)
    not_ready = lab.play("mesh", mesh=file_of(lab, exposures=[]), cilium_mesh_binding_status={"phase": "Error"})
    assert phases(not_ready)["connectivityIntents/frontend-to-nginx"] == "Pending" and everything(lab) == held, not_ready.output
    for wrong_with in ({"cilium_mesh_state": "absent"}, {"cilium_mesh_hash": digest}):
        meant = lab.play("mesh", mesh=whole, cilium_mesh_binding_status=status, **wrong_with)
        assert meant.rc != 0 and "leaves the links alone" in meant.output and everything(lab) == held, meant.output
    back = lab.play("mesh", mesh=file_of(lab, exposures=[]), cilium_mesh_binding_status=status)
    assert back.rc == 0 and phases(back)["connectivityIntents/frontend-to-nginx"] == "Applied", back.output

    warned = lab.play("disconnect", mesh=whole, arguments=["--check"])
    assert warned.rc == 0 and "CM-ITEM-20" in warned.finding_codes() and "CM-ITEM-20" in warned.output

    # Away with everything: the items first, then the links, and nothing is left of either.
    absent = lab.play("mesh", mesh=whole, cilium_mesh_state="absent", own_process=True)
    assert absent.rc == 0, absent.output
    waves = [step["wave"] for step in absent.result["plan"]["steps"]]
    policies, services = ALLOW.cease, PRUNE_WAVES[ItemKind.GLOBAL_SERVICE]
    assert waves == [policies, policies, services, services, *sorted(wave for wave in waves if wave < 10)]
    assert everything(lab) == before
    again = lab.play("mesh", mesh=whole, cilium_mesh_state="absent")
    assert (again.rc, again.changed) == (0, 0), again.output


def shop(api: LabApi) -> Object:
    """The Service that the exposure made."""
    every = api.list(f"/api/v1/namespaces/{NAMESPACE}/services")
    return next(item for item in every if item["metadata"]["name"].startswith("shop-"))


def address_of_shop(api: LabApi) -> Object:
    """What the load balancer of that Service has; empty as long as it has nothing."""
    found: Object = shop(api)["status"]["loadBalancer"] or {}
    return found


@pytest.mark.lab(OTHER_THREE_120, use=2)
def test_items_wait_for_links_and_go_without_a_dead_member(lab: MeshLab, tmp_path: Path) -> None:
    furnish(lab)
    whole = file_of(lab, exposures=None)
    before = everything(lab)
    lab.lab.cut("c1", "c2")

    waiting = lab.play("mesh", mesh=whole, mesh_connect_wait_timeout=5, mesh_connect_proof="readers")
    assert waiting.rc != 0
    assert waiting.result["status"]["binding"]["phase"] in ("Connecting", "Degraded")
    assert set(phases(waiting).values()) == {"Pending"}, waiting.output
    assert waiting.finding_codes().count("CM-ITEM-03") == 2
    steps = waiting.result["plan"]["steps"]
    assert steps and all(step.get("item") is None for step in steps)
    lab.lab.heal("c1", "c2")

    done = lab.play("mesh", mesh=whole)
    assert done.rc == 0 and set(phases(done).values()) == {"Exported", "Applied"}, done.output

    # Of a fabric, one binding is measured and of the other the status is known.
    held = lab.snapshot(volatile=True)
    far = {"phase": "Degraded", "lastSyncTime": "2026-01-01T00:00:00Z", "meshStatus": [], "links": [], "conditions": []}
    fabric: Object = {"name": "europe", "bindings": [lab.mesh()["binding"], {"name": "far"}]}
    rolled = lab.play("fabric", cilium_mesh_fabric=fabric, cilium_mesh_statuses={"far": far}, own_process=True)
    assert rolled.rc != 0 and rolled.result["status"]["binding"] is None and rolled.finding_codes() == ["CM-FAB-02"], rolled.output
    rows = {row["name"]: row["phase"] for row in rolled.result["status"]["fabric"]["bindings"]}
    assert rows == {"edge-mesh-eu": "Connected", "far": "Degraded"} and "europe: Degraded (1/2 bindings" in rolled.output
    alone = lab.play("fabric", cilium_mesh_fabric={**fabric, "bindings": fabric["bindings"][:1]})
    assert alone.rc == 0 and alone.result["status"]["fabric"]["lastProof"]["missing"] == 0, alone.output
    assert lab.snapshot(volatile=True) == held

    # What of c2 cannot be asked stays, and everything in c1 goes.
    dead = credentials.unreachable(lab, "c2", tmp_path / "c2.yaml")
    parted = lab.play("mesh", mesh=whole, hosts=dead, cilium_mesh_state="absent", own_process=True)
    assert parted.rc == 2, parted.output
    left, whole_before = everything(lab), {path: entry for path, entry in before.items() if path.startswith("c1/")}
    assert {path: entry for path, entry in left.items() if path.startswith("c1/")} == whole_before
    assert any("/ciliumnetworkpolicies/production/frontend-to-nginx-" in path for path in left if path.startswith("c2/"))

    assert lab.play("mesh", mesh=whole, cilium_mesh_state="absent").rc == 0
    assert everything(lab) == before
