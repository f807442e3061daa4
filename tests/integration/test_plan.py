# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan is shown, approved by its hash, and carried out as it was approved or not at all."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.labs import OTHER_THREE_120, THREE_120
from tests.integration.mesh_lab import NAMESPACE, MeshLab

SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver"
KVSTOREMESH = f"/api/v1/namespaces/{NAMESPACE}/secrets/cilium-kvstoremesh"


def step_keys(plan: dict[str, object]) -> list[tuple[object, ...]]:
    return [(step["wave"], step["cluster"], step["verb"], step["object"], step["digest"]) for step in plan["steps"]]  # type: ignore[attr-defined]  # a plan as it was read from JSON


def secrets_of(lab: MeshLab) -> set[str]:
    """Base64 of every private key in the lab's clusters."""
    found = set()
    for name in lab.names:
        for item in lab.api(name).list(f"/api/v1/namespaces/{NAMESPACE}/secrets"):
            found |= {value for key, value in (item.get("data") or {}).items() if key.endswith(".key")}
    return found


@pytest.mark.lab(OTHER_THREE_120, use=2, gate=THREE_120)
def test_a_plan_is_applied_exactly_or_refused_with_what_has_changed(lab: MeshLab, tmp_path: Path) -> None:
    files: dict[str, Any] = {form: str(tmp_path / f"plan.{form}") for form in ("text", "json", "markdown")}
    before = lab.snapshot(volatile=True)

    wanted: dict[str, Any] = {f"cilium_mesh_plan_{form}": path for form, path in files.items()}
    planned = lab.play("plan", **wanted, own_process=True)
    assert planned.rc == 0, planned.output
    assert planned.changed == 0
    plan = planned.result["plan"]
    assert 6 <= len(plan["steps"]) <= 10
    assert {step["cluster"] for step in plan["steps"]} == {"c1", "c2"}
    assert f"hash {plan['hash'][:12]}" in planned.output
    assert "  undo: " not in planned.output and "  sum: " in planned.output, "the undo is in the file, and on the screen with -v"
    assert Path(files["text"]).read_text().count("  undo: ") == len({step["undo"] for step in plan["steps"]})
    assert lab.snapshot(volatile=True) == before, "plan wrote something"
    stored = json.loads(Path(files["json"]).read_text())
    assert stored["hash"] == plan["hash"]
    assert stored["reliedOn"]["c2"].keys() >= {"identity", "cilium", "service", "certificates", "ca"}
    markdown = Path(files["markdown"]).read_text()
    assert plan["hash"] in markdown and markdown.count("| c1 |") >= 3
    assert Path(files["text"]).read_text().splitlines()[0] in planned.output
    written = planned.output + "".join(Path(path).read_text() for path in files.values()) + json.dumps(planned.mesh_result)
    for value in secrets_of(lab):
        assert value not in written and base64.b64decode(value).decode() not in written

    same = lab.play("connect", arguments=["--check", "--diff"])
    assert same.result["plan"]["hash"] == plan["hash"]

    checked = lab.play("apply", cilium_mesh_plan=files["json"], arguments=["--check"])
    assert checked.rc == 0, checked.output
    assert lab.snapshot(volatile=True) == before, "check mode wrote something"

    address = _address(lab, "c2")
    _move(lab, "c2", "127.250.250.250")
    moved = lab.snapshot(volatile=True)
    refused = lab.play("apply", mesh_result=planned.result, own_process=True)
    assert refused.rc != 0
    assert refused.finding_codes()[0] == "CM-PLAN-01"
    evidence = refused.result["findings"][0]["evidence"].splitlines()
    assert "c2: Service clustermesh-apiserver changed" in evidence
    assert any(line.startswith("step differs: c1, ") for line in evidence)
    assert not any(line.startswith("c1: ") for line in evidence)
    assert lab.snapshot(volatile=True) == moved, "a refused apply wrote something"

    _move(lab, "c2", address)
    applied = lab.play("apply", cilium_mesh_plan_hash=plan["hash"][:16], own_process=True)
    assert applied.rc == 0, applied.output
    assert step_keys(applied.result["plan"]) == step_keys(plan)
    assert applied.result["status"]["binding"]["phase"] == "Connected"

    empty = lab.play("plan")
    assert empty.result["plan"]["steps"] == []
    nothing = lab.play("apply", cilium_mesh_plan_hash=empty.result["plan"]["hash"])
    assert (nothing.rc, nothing.changed) == (0, 0), nothing.output

    _add_foreign_key(lab, "c1")
    after = lab.snapshot(volatile=True)
    stale = lab.play("apply", cilium_mesh_plan=empty.result)
    assert stale.rc != 0
    assert "c1: Secrets of peers changed" in stale.result["findings"][0]["evidence"].splitlines()
    assert lab.snapshot(volatile=True) == after, "a refused apply wrote something"


def _address(lab: MeshLab, cluster: str) -> str:
    service = lab.api(cluster).get(SERVICE)
    assert service is not None
    return str(service["status"]["loadBalancer"]["ingress"][0]["ip"])


def _move(lab: MeshLab, cluster: str, address: str) -> None:
    lab.api(cluster).patch(f"{SERVICE}/status", {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}})


def _add_foreign_key(lab: MeshLab, cluster: str) -> None:
    value = base64.b64encode(b"endpoints:\n- https://elsewhere.example.com:2379\n").decode()
    lab.api(cluster).patch(KVSTOREMESH, {"data": {"elsewhere": value}}, field_manager="another-writer")
