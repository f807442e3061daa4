# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The scenarios on real servers that `make test` shows, by the area of the product that each stands for.

Every other test of tests/integration belongs to the deep run, `make test-all`. An area is what a user would miss first if it broke, and
each has a scenario here (docs/testing.md). The scenarios share five labs, as every API server costs a busy machine half a minute. Those of
one lab run in the order of this table, so that who leaves most behind comes last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.collection_path import CHECKOUT

OPTION: Final = "--gate"
"""Option of pytest: collect nothing of the deep run."""

AREAS: Final[Mapping[str, tuple[str, ...]]] = {
    "connect, a second run, disconnect": (
        "integration/test_connect.py::test_two_clusters_become_one_mesh_and_two_again[1.18-shared-NodePort]",
        "integration/test_connect.py::test_two_clusters_become_one_mesh_and_two_again[1.20-own-LoadBalancer]",
    ),
    "a plan and its hash": ("integration/test_plan.py::test_a_plan_is_applied_exactly_or_refused_with_what_has_changed",),
    "a blocking finding": ("integration/test_bad_input_node_port.py::test_overlapping_pod_networks_block",),
    "a cut link": ("integration/test_faults.py::test_a_cut_link_is_named_and_a_healed_one_is_ready_again",),
    "a new CA": ("integration/test_ca.py::test_clusters_get_new_cas_and_no_reader_sees_an_error",),
    "leases of identities": ("integration/test_identity.py::test_members_keep_the_leases_of_all_and_restore_each_other",),
    "adopt and hand back": ("integration/test_ownership.py::test_a_mesh_that_helm_made_is_adopted_and_handed_back_and_no_link_drops",),
    "items, one of them refused": ("integration/test_items.py::test_bad_input_refuses_its_item_keeps_its_good_state_and_stops_no_other",),
    "policies": ("integration/test_policies.py::test_an_intent_that_is_renamed_and_mistyped_stays_in_force_until_it_is_corrected",),
    "explain": ("integration/test_explain.py::test_the_hop_that_is_broken_is_named_and_nothing_is_written",),
    "the operator on kcp": (
        "integration/test_operator_lifecycle.py::test_every_kind_has_a_status_at_once_and_goes_through_its_phases_in_their_order[kcp]",
        "integration/test_operator_lifecycle.py::test_what_a_tenant_takes_back_goes_from_the_clusters[kcp]",
    ),
    "the operator in namespaces": (
        "integration/test_operator_namespaces.py::test_a_namespace_uses_no_secret_of_another_one_and_what_the_platform_gives_it",
    ),
    "a tenant who attacks": (
        "integration/test_operator_hostile_tenant.py"
        "::test_a_tenant_who_attacks_in_every_way_at_once_keeps_no_other_tenant_from_being_served[3]",
    ),
    "confinement": ("unit/operator/test_confined_process.py::test_it_can_open_no_file_of_the_operator",),
    "migrate": ("integration/test_migrate.py::test_a_mesh_of_the_provider_is_taken_over_and_its_policies_go_when_they_are_replaced",),
    "workloads by Karmada, if its programs are at hand": (
        "integration/test_fleet.py::test_a_workload_comes_to_two_clusters_reports_and_leaves_nothing",
    ),
}


_SCENARIOS: Final = tuple(scenario for of_one in AREAS.values() for scenario in of_one)
_FILES: Final = frozenset(scenario.partition("::")[0] for scenario in _SCENARIOS)
_TESTS: Final = CHECKOUT / "tests"
_ON_SERVERS: Final = "integration/"


def is_of_the_deep_run(path: Path) -> bool:
    """Return whether a file has tests on servers, and none of the gate."""
    found = _relative(path)
    return found.startswith(f"{_ON_SERVERS}test_") and found not in _FILES


def has(test: str) -> bool:
    """Return whether the gate runs the test with this id of pytest, which begins with "tests/"; unit tests belong to it."""
    found = test.partition("/")[2]
    return not found.startswith(_ON_SERVERS) or found in _SCENARIOS


def scenarios() -> tuple[str, ...]:
    """Return the ids of all scenarios, as pytest has them."""
    return tuple(f"tests/{scenario}" for scenario in _SCENARIOS)


def place(test: str) -> int:
    """Return the place of a scenario in `AREAS`; 0 for a test that is none."""
    found = test.partition("/")[2]
    return _SCENARIOS.index(found) if found in _SCENARIOS else 0


def left_to_the_deep_run(rows: Sequence[str], *, but: Collection[str]) -> list[Any]:
    """Return the rows of a parametrized unit test, of which the gate runs but some.

    :raises ValueError: if one of these is no row.
    """
    if unknown := set(but) - set(rows):
        raise ValueError(f"There is no row {', '.join(sorted(unknown))}: there are {', '.join(rows)}.")
    return [row if row in but else pytest.param(row, marks=pytest.mark.slow) for row in rows]


def left_out(*, lab_is_proven: bool) -> str:
    """Return the line about what a run of the gate has not collected."""
    files = [path for path in (_TESTS / "integration").glob("test_*.py") if is_of_the_deep_run(path)]
    lab = "those of the lab, which passed for it as it is" if lab_is_proven else "none of those of the lab, which has changed"
    return f"Left to the deep run (make test-all): {len(files)} files of tests on servers, what needs Helm or promtool, and {lab}."


def _relative(path: Path) -> str:
    return path.relative_to(_TESTS).as_posix() if path.is_relative_to(_TESTS) else ""
