# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""mesh_verify: handshakes, files for other tools, and a line per cluster, over clusters that are played on facts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ProbeResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline import ports
from tests.testing.facts_builders import cluster_facts, failure
from tests.unit.plugins.action.conftest import World, mesh

BOTH = mesh("c1", "c2")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the action asks of the prober; c2 is refuted as soon as it is asked for."""
    asked: list[dict[str, Any]] = []

    def probe_endpoints(facts: Any, choices: Any, secrets: Any, **options: Any) -> tuple[ProbeResult, ...]:
        asked.append({"clusters": list(facts), **options})
        results = [
            ProbeResult(cluster=host, address="192.0.2.1", port=2379, hostname=f"{host}.mesh.cilium.io", outcome="proven") for host in facts
        ]
        return tuple(replace(r, outcome="refuted", error="Hostname mismatch") if r.cluster == "c2" else r for r in results)

    monkeypatch.setattr(ports, "probe_endpoints", probe_endpoints)
    return asked


def cases(path: Path) -> dict[str, ET.Element]:
    """Suite and code -> case."""
    root = ET.parse(path).getroot()
    return {f"{suite.get('name')}/{(case.get('name') or '').partition(' ')[0]}": case for suite in root for case in suite.iter("testcase")}


def test_a_handshake_that_fails_blocks_and_is_in_the_result(make_world: Any, probes: list[dict[str, Any]]) -> None:
    world: World = make_world()
    result = world.run("mesh_verify", mesh=BOTH, probe_timeout=1.5)
    assert result["failed"] is True and "CM-PROBE-01" in result["msg"]
    assert [(row["cluster"], row["outcome"], row["error"]) for row in result["probes"]] == [
        ("c1", "proven", ""),
        ("c2", "refuted", "Hostname mismatch"),
    ]
    assert (probes[0]["clusters"], probes[0]["timeout"]) == (["c1", "c2"], 1.5)


def test_a_line_per_cluster_says_what_it_is_eligible_for(make_world: Any, probes: list[dict[str, Any]]) -> None:
    world: World = make_world()
    result = world.run("mesh_verify", mesh=BOTH, fail_on="never")
    assert "failed" not in result
    assert world.output[-3:] == ["Clusters:", "  c1  eligible, ready", "  c2  eligible, not ready (CM-PROBE-01)"]
    assert {host: (row["eligible"], row["ready"]) for host, row in result["eligibility"].items()} == {
        "c1": (True, True),
        "c2": (True, False),
    }


@pytest.mark.parametrize(
    ("arguments", "asks"), [({"probe": False}, 0), ({"purpose": "disconnect"}, 0), ({"purpose": "cluster"}, 1), ({}, 1)]
)
def test_no_endpoint_is_probed_unless_it_is_asked_for(
    make_world: Any, probes: list[dict[str, Any]], arguments: dict[str, Any], asks: int
) -> None:
    result = make_world().run("mesh_verify", mesh=BOTH, fail_on="never", **arguments)
    assert len(probes) == asks
    assert bool(result["probes"]) is bool(asks)


@pytest.mark.parametrize("check", [False, True])
def test_both_files_report_what_the_result_reports_also_in_check_mode(
    make_world: Any, probes: list[dict[str, Any]], tmp_path: Path, check: bool
) -> None:
    xml, document = tmp_path / "found.xml", tmp_path / "found.json"
    result = make_world().run("mesh_verify", mesh=BOTH, junit=str(xml), json=str(document), check=check)
    assert result["failed"] is True and result["changed"] is False
    found = json.loads(document.read_bytes())
    assert {key: found[key] for key in ("findings", "eligibility", "probes")} == {
        key: result[key] for key in ("findings", "eligibility", "probes")
    }
    assert (found["schema"], found["mesh"], found["clusters"], found["purpose"]) == (1, "edge-mesh-eu", ["c1", "c2"], "connect")
    assert found["error"] == result["msg"]
    assert cases(xml)["cluster c2/CM-PROBE-01"].find("failure") is not None
    assert len(cases(xml)["cluster c1/CM-PROBE-01"]) == 0


def test_without_probes_their_checks_are_skipped_in_the_report(make_world: Any, tmp_path: Path) -> None:
    xml = tmp_path / "found.xml"
    assert "failed" not in make_world().run("mesh_verify", mesh=BOTH, probe=False, junit=str(xml))
    assert cases(xml)["cluster c1/CM-PROBE-01"].find("skipped") is not None
    assert len(cases(xml)["cluster c1/CM-CERT-03"]) == 0


def test_a_cluster_that_does_not_answer_is_a_failed_case_and_its_checks_are_skipped(make_world: Any, tmp_path: Path) -> None:
    world: World = make_world()
    world.failures = {"c2": failure("c2")}
    xml = tmp_path / "found.xml"
    result = world.run("mesh_verify", mesh=BOTH, junit=str(xml))
    assert result["eligibility"]["c2"]["eligible"] is False
    assert cases(xml)["cluster c2/CM-API-01"].find("failure") is not None
    assert cases(xml)["cluster c2/CM-CERT-03"].find("skipped") is not None


def test_input_that_is_refused_is_in_the_files_and_not_the_result_of_an_earlier_run(make_world: Any, tmp_path: Path) -> None:
    xml, document = tmp_path / "found.xml", tmp_path / "found.json"
    document.write_text("earlier", encoding="utf-8")
    result = make_world().run("mesh_verify", mesh=BOTH, accept=["CM-NONE-01"], junit=str(xml), json=str(document))
    assert result["failed"] is True
    assert [finding["code"] for finding in json.loads(document.read_bytes())["findings"]] == ["CM-INPUT-01"]
    assert cases(xml)["mesh/CM-INPUT-01"].find("failure") is not None


def test_a_defect_leaves_no_file_of_an_earlier_run(make_world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "found.json"
    document.write_text("earlier", encoding="utf-8")
    world = make_world()

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world, "observe", broken)
    assert world.run("mesh_verify", mesh=BOTH, json=str(document))["msg"].startswith("CM-ERR-99")
    assert not document.exists()


def test_a_place_that_cannot_be_written_is_refused_before_any_cluster_is_asked(make_world: Any, tmp_path: Path) -> None:
    result = make_world().run("mesh_verify", mesh=BOTH, junit=str(tmp_path / "missing" / "found.xml"))
    assert result["msg"].startswith("CM-INPUT-01: junit: there is no folder")
    assert result["requests"] == {}


def test_names_of_a_tenant_do_not_reach_the_json_as_they_are(make_world: Any, tmp_path: Path) -> None:
    document = tmp_path / "found.json"
    world = make_world(
        cluster_facts("c1", version="1.20.0", config={"cluster-name": "\x1b[31mred\u202e"}), cluster_facts("c2", version="1.20.0")
    )
    world.run("mesh_verify", mesh=BOTH, json=str(document))
    text = document.read_bytes()
    assert b"\x1b" not in text and text.isascii()
    json.loads(text)
