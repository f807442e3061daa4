# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which members may be silent while the others are connected."""

from __future__ import annotations

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.tolerance import can_connect, tolerated_failures
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, failure, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

MESH = mesh_of("c1", "c2", "c3", "c4")
NEW = {f"c{n}": cluster_facts(f"c{n}") for n in (1, 2, 3, 4)}


def _connected() -> SimulatedClusters:
    clusters = SimulatedClusters(NEW, NOW)
    clusters.run(plan_links(mesh_of("c1", "c2", "c3"), clusters.facts(), PlanOptions(), NOW))
    return clusters


HELD = _connected().facts()  # c4 was never connected


def silent(*hosts: str, held: bool = True, code: str = "CM-API-01", max_failures: int | None = None) -> frozenset[str]:
    facts = {host: cluster for host, cluster in (HELD if held else NEW).items() if host not in hosts}
    return tolerated_failures(MESH, facts, {host: failure(host, code) for host in hosts}, max_failures)


def test_a_member_that_the_mesh_holds_may_be_silent_and_one_that_was_never_connected_may_not() -> None:
    assert silent("c3") == {"c3"}
    assert silent("c4") == frozenset()
    assert silent("c3", "c4") == {"c3"}


def test_before_the_first_connection_no_member_may_be_silent() -> None:
    assert silent("c3", held=False) == frozenset()


@pytest.mark.parametrize("code", ["CM-API-02", "CM-API-03"])
def test_a_cluster_that_refuses_us_is_not_down(code: str) -> None:
    assert silent("c3", code=code) == frozenset()
    assert silent("c3", code=code, max_failures=1) == {"c3"}


@pytest.mark.parametrize("code", ["CM-API-00", "CM-ERR-99"])
def test_a_library_or_an_engine_that_fails_at_one_cluster_counts_as_its_silence(code: str) -> None:
    assert silent("c3", code=code) == {"c3"}
    assert silent("c3", "c4", code=code, max_failures=2) == {"c3", "c4"}
    assert silent("c3", "c4", code=code, max_failures=1) == frozenset()


@pytest.mark.parametrize("code", ["CM-INPUT-01", "CM-ENV-01"])
def test_what_the_user_has_wrong_is_never_tolerated(code: str) -> None:
    assert silent("c3", code=code, max_failures=4) == frozenset()


def test_a_number_counts_members_of_either_kind() -> None:
    assert silent("c3", "c4", max_failures=2) == {"c3", "c4"}
    assert silent("c3", "c4", max_failures=1) == frozenset()
    assert silent("c3", max_failures=0) == frozenset()


def test_a_first_connection_needs_two_that_answer_whatever_the_number() -> None:
    assert silent("c2", "c3", held=False, max_failures=4) == {"c2", "c3"}
    assert silent("c2", "c3", "c4", held=False, max_failures=4) == frozenset()
    assert not can_connect(MESH, {"c1": NEW["c1"]})
    assert can_connect(MESH, {"c1": HELD["c1"]})
