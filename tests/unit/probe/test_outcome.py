# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What users and controllers see of a probe."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.outcome import Reachability, parse_probe_status, probe_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.pairs import Case, combine_cases, link_ready
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.pods import label_selector
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.verdict import Judgement
from tests.collection_path import CHECKOUT
from tests.testing.probe_world import intent, world

TIME = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)


def answer(result: str, code: str = "") -> Reachability:
    return Reachability(result=result, time=TIME, method="hubble", message="c1 -> c2: it is so", evidence=("a flow",), code=code)


def test_success_is_said_of_what_is_known_and_of_nothing_else() -> None:
    shared = {"method": "hubble", "message": "c1 -> c2: it is so", "evidence": ["a flow"], "lastProbeTime": "2026-09-01T12:00:00Z"}
    assert answer("proven").to_dict() == {**shared, "result": "proven", "success": True}
    assert answer("refuted").to_dict() == {**shared, "result": "refuted", "success": False}
    assert answer("unknown").to_dict() == {**shared, "result": "unknown"}
    never = Reachability(result="unknown", message="not yet").to_dict()
    assert never == {"result": "unknown", "method": "none", "message": "not yet", "evidence": []}


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [("proven", "True", "ProbeProven"), ("refuted", "False", "ProbeRefuted"), ("unknown", "Unknown", "ProbeUnknown")],
)
def test_the_condition(result: str, status: str, reason: str) -> None:
    assert answer(result).condition() == {"type": "Reachable", "status": status, "reason": reason, "message": "c1 -> c2: it is so"}


@pytest.mark.parametrize("result", ["proven", "refuted", "unknown"])
def test_what_is_stored_is_read_back(result: str) -> None:
    before = parse_probe_status(answer(result).to_dict())
    assert before is not None and before.kept and before.to_dict() == answer(result).to_dict()


def test_findings_name_the_intent_and_every_code_has_a_page() -> None:
    found = probe_findings(
        {
            "a": answer("proven"),
            "b": answer("refuted"),
            "c": answer("unknown"),
            "d": answer("unknown", "CM-REACH-03"),
            "e": answer("proven", "CM-REACH-04"),
            "f": answer("refuted", "CM-REACH-03"),
        }
    )
    assert [(f.code, f.item, f.severity.value) for f in found] == [
        ("CM-REACH-01", "connectivityIntents/b", "remediable"),
        ("CM-REACH-02", "connectivityIntents/c", "advisory"),
        ("CM-REACH-03", "connectivityIntents/d", "advisory"),
        ("CM-REACH-04", "connectivityIntents/e", "remediable"),
        ("CM-REACH-01", "connectivityIntents/f", "remediable"),
        ("CM-REACH-03", "connectivityIntents/f", "advisory"),
    ]
    assert {code for code, row in CATALOGUE.items() if row.family == "CM-REACH"} == {f.code for f in found}
    assert all((CHECKOUT / f.anchor).is_file() for f in found)


@pytest.mark.parametrize(
    ("results", "whole"),
    [
        (("proven", "proven"), "proven"),
        (("proven", "unknown"), "unknown"),
        (("proven", "refuted", "unknown"), "refuted"),
        (("unknown",), "unknown"),
    ],
)
def test_only_what_holds_between_all_clusters_is_proven(results: tuple[str, ...], whole: str) -> None:
    judged = [Judgement(result=entry, why=entry) for entry in results]
    cases = [Case(source="c1", destination=f"c{n}", judgement=entry, method="hubble") for n, entry in enumerate(judged)]
    found = combine_cases(cases, TIME)
    assert found.result == whole
    assert found.message.split(": ")[1].startswith(whole)


def test_a_link_is_ready_when_this_run_found_it_so() -> None:
    def ready(**fields: object) -> bool:
        return link_ready(world(**fields)[0], "c1", "c2")  # type: ignore[arg-type]  # fields of world()

    assert ready()
    assert not ready(phase="")
    assert not ready(phase="Connecting")
    assert not ready(link_errors={("c2", "c1"): "x"})
    assert not ready(dead=frozenset({"c2"}))
    assert ready(link_errors={("c2", "c3"): "x"})
    scene: Scene = world(phase="")[0]
    assert link_ready(scene, "c1", "c1")


def test_selectors_of_the_api() -> None:
    wanted: ConnectivityIntent = intent()
    assert label_selector(wanted.destination) == "app=backend"
