# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is known of a kind of fleets stands in its row, which screens, reports, metrics and the operator read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import KEYS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout import PAUSED, STALLED
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout_state import COMPLETE, PREPARING, ROLLING
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import (
    ERROR,
    PENDING,
    ROLLOUT_PHASES,
    FleetKind,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.status_counts import StatusCounts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_dry_run import MEMBER_KEYS, WORKLOAD_KEYS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.junit_result import junit_of_result
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.result_document import RunEnd
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.workloads_lines import workloads_lines
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BY_KIND, UNITS
from mesh_operator.fleets.status import first_fleet_status, interrupted_status
from mesh_operator.source.stored import Stored
from tests.collection_path import CHECKOUT
from tests.testing.crd_schema import schemas

NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)
KINDS: Final = pytest.mark.parametrize("kind", list(FleetKind))
WORKLOAD: Final = FleetKind.WORKLOAD


def status_schema(kind: FleetKind) -> dict[str, Any]:
    found: dict[str, Any] = schemas("fleet")[kind]["properties"]["status"]["properties"]
    return found


def stored(kind: FleetKind, status: dict[str, Any] | None = None) -> Stored:
    obj = {"metadata": {"name": "web", "generation": 1}, **({"status": status} if status else {})}
    return Stored(ObjectKey(kind.value, "ws1", "default", "web"), obj, "")


@KINDS
def test_a_row_has_the_phases_of_the_custom_resource(kind: FleetKind) -> None:
    assert sorted(kind.phases) == sorted(status_schema(kind)["phase"]["enum"])
    assert kind.awaited | {kind.good, ERROR} == set(kind.phases) and kind.unknown in ("", *kind.phases)


def test_rollouts_have_the_phases_of_the_custom_resource() -> None:
    assert sorted(ROLLOUT_PHASES) == sorted(status_schema(WORKLOAD)["rollout"]["properties"]["phase"]["enum"])
    assert sorted(ROLLOUT_PHASES) == sorted((COMPLETE, PREPARING, ROLLING, PAUSED, STALLED))


@KINDS
def test_lists_and_rows_of_a_kind_are_those_of_variable_and_result(kind: FleetKind) -> None:
    assert kind.listed in KEYS and kind.reported in (*MEMBER_KEYS, *WORKLOAD_KEYS)


def test_each_kind_is_reported_by_one_unit_whose_playbook_exists() -> None:
    assert sorted(kind for unit in UNITS.values() for kind in unit.kinds) == sorted(FleetKind)
    for unit in UNITS.values():
        assert unit.kind in unit.kinds and (CHECKOUT / "playbooks" / f"{unit.playbook}.yml").is_file()
        options = (CHECKOUT / "roles" / unit.prefix / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
        assert f"{unit.prefix}_wait:" in options


@KINDS
def test_while_nothing_can_be_read_a_good_phase_is_unknown_and_another_one_stays(kind: FleetKind) -> None:
    for phase in kind.phases:
        found = interrupted_status(stored(kind, {"phase": phase}), "KarmadaUnavailable", "", NOW)
        assert (found or {}).get("phase", "") == ((kind.unknown if phase == kind.good else phase) if kind.unknown else "")


@KINDS
def test_a_new_object_is_pending_if_its_kind_has_that_phase(kind: FleetKind) -> None:
    assert (first_fleet_status(stored(kind), NOW) or {}).get("phase") == (PENDING if PENDING in kind.phases else None)


@KINDS
def test_the_operator_has_the_good_and_the_unknown_phase_from_the_row(kind: FleetKind) -> None:
    row = BY_KIND[kind.value]
    assert (row.good, row.unknown) == (kind.good, kind.unknown)


def workload(phase: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "reason": "Waiting", "message": "It waits."}
    return {"name": "web", "status": {"phase": phase, "conditions": [ready]}}


def test_a_screen_has_a_colour_for_each_phase_of_a_workload() -> None:
    """One that is on its way is no more as asked than one that waits."""
    shown = {phase: workloads_lines("acme/default", [workload(phase)])[1].colour for phase in WORKLOAD.phases}
    assert shown == dict.fromkeys(WORKLOAD.phases, "yellow") | {WORKLOAD.good: "green", ERROR: "red"}


def test_a_report_calls_each_workload_wrong_that_is_not_as_asked() -> None:
    end = RunEnd(mesh="", playbook="fleet", error="1 workload not as wanted", time=NOW, check_mode=False)
    status: dict[str, Any] = {"binding": None, "fabric": None, "globalServices": [], "connectivityIntents": [], "exposedServices": []}
    for phase in WORKLOAD.phases:
        result = {"findings": [], "status": status, "plan": {"steps": []}, WORKLOAD.reported: [workload(phase)]}
        cases = ET.fromstring(junit_of_result(result, end)).findall(f"testsuite[@name='{WORKLOAD.reported}']/testcase")
        assert [case.find("failure") is None for case in cases] == [phase == WORKLOAD.good]


def test_metrics_count_every_phase_of_workloads_and_rollouts() -> None:
    found = StatusCounts().of(())
    assert {phase for (phase,) in found["mesh_operator_workloads"]} == set(WORKLOAD.phases)
    assert {phase for (phase,) in found["mesh_operator_rollouts"]} == set(ROLLOUT_PHASES)
