# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The rights that docs/rbac.md asks for are enough, and a missing one is named at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.collection_path import CHECKOUT
from tests.integration import credentials
from tests.integration.labs import THREE_119
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import EXPOSURE, INTENT, SERVICE, furnish
from tests.lab.api import path_of

pytestmark = pytest.mark.lab(THREE_119, use=2)

ITEMS: dict[str, list[dict[str, Any]]] = {
    "globalServices": [SERVICE],
    "connectivityIntents": [
        INTENT,
        {**INTENT, "name": "frontend-anywhere", "policyMode": "Clusterwide"},
    ],
    "exposedServices": [EXPOSURE],
}

DOCUMENT = CHECKOUT / "docs" / "rbac.md"
ACCOUNT = "cilium-mesh"


def documented_objects() -> list[dict[str, Any]]:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return [item for block in blocks for item in yaml.safe_load_all(block) if item]


def grant(lab: MeshLab, place: Path, *, without: str = "") -> dict[str, dict[str, Any]]:
    """Give the documented rights, less those on one resource, in both clusters; returns the hosts that use them."""
    hosts: dict[str, dict[str, Any]] = {}
    for cluster in lab.names:
        api = lab.api(cluster)
        for item in documented_objects():
            if "rules" in item:
                item["rules"] = [rule for rule in item["rules"] if without not in rule["resources"]]
            if api.get(path_of(item)) is None:
                api.create(item)
            elif "rules" in item:
                api.replace(path_of(item), item)
        hosts |= credentials.service_account(lab, cluster, place / cluster, ACCOUNT)
    return hosts


def test_the_documented_rights_are_enough_for_everything(lab: MeshLab, tmp_path: Path) -> None:
    hosts = grant(lab, tmp_path)
    before = lab.snapshot()
    approved = lab.play("plan", hosts=hosts).result["plan"]["hash"]
    assert lab.play("apply", hosts=hosts, cilium_mesh_plan_hash=approved).rc == 0
    for playbook in ("verify", "connect", "identity", "status", "disconnect"):
        run = lab.play(playbook, hosts=hosts)
        assert run.rc == 0, run.output
    assert lab.snapshot() == before


def test_the_documented_rights_are_enough_for_services_policies_and_exposures(lab: MeshLab, tmp_path: Path) -> None:
    hosts = grant(lab, tmp_path)
    furnish(lab)
    whole = {**lab.mesh(), **ITEMS}
    made = lab.play("mesh", mesh=whole, hosts=hosts)
    assert made.rc == 0, made.output
    assert {step["verb"] for step in made.result["plan"]["steps"] if step.get("item")} == {"create", "patch"}
    gone = lab.play("mesh", mesh=whole, hosts=hosts, cilium_mesh_state="absent")
    assert gone.rc == 0, gone.output
    assert {step["item"] for step in gone.result["plan"]["steps"] if step.get("item")} == {
        f"{kind}/{item['name']}" for kind, items in ITEMS.items() for item in items
    }


def test_a_right_that_items_need_and_that_is_missing_stops_them_before_the_first_write(lab: MeshLab, tmp_path: Path) -> None:
    hosts = grant(lab, tmp_path, without="endpointslices")
    run = lab.play("services", mesh={**lab.mesh(), "globalServices": ITEMS["globalServices"]}, hosts=hosts)
    assert run.rc != 0 and "CM-API-03" in run.finding_codes(), run.output
    assert "list endpointslices" in run.output and not run.result["changed"]


def test_without_the_right_to_ask_the_readers_connect_does_not_wait_in_vain(lab: MeshLab, tmp_path: Path) -> None:
    hosts = grant(lab, tmp_path, without="pods/exec")
    run = lab.play("connect", hosts=hosts, mesh_connect_wait_timeout=3600)
    assert run.rc != 0
    assert "pods/exec" in run.output, run.output
    assert {row["stage"] for row in run.result["status"]["binding"]["links"]} == {"unknown"}
