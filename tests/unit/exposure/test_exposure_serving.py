# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Primary and standby: who serves, when it changes, and that it goes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.assessment import PATIENCE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.names import DNS_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ExposedService
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from tests.testing.exposure_world import (
    EVERYONE,
    MEMBERS,
    OFFICE,
    changed,
    clusters,
    item,
    ours,
    planned,
    run,
    settled,
    status,
    with_endpoints,
    without,
)
from tests.testing.facts_builders import cluster_facts

ROLES = {"primary": "c1", "standby": ["c2", "c3"]}
CLASSES = ("LoadBalancer", "NodePort", "Gateway")


def shop(exposure: str = "LoadBalancer", **overrides: Any) -> ExposedService:
    ranges = list(EVERYONE if exposure == "Gateway" else OFFICE)
    values: dict[str, Any] = {"class": exposure, "clusters": ROLES, "hostname": "shop.example.com", "sourceRanges": ranges}
    return item(**{**values, **overrides})


def world() -> Scene:
    return clusters(facts={host: cluster_facts(host, config={"enable-gateway-api": "true"}) for host in MEMBERS})


def having(current: Scene) -> list[str]:
    """Clusters with an object of ours."""
    return [host for host in MEMBERS if host in current.hosts and ours(current, host)]


def named(current: Scene) -> list[str]:
    """Clusters to which the hostname leads."""
    return [
        host
        for host in MEMBERS
        if host in current.hosts and any(DNS_ANNOTATION in entry.annotations or entry.kind == "HTTPRoute" for entry in ours(current, host))
    ]


def lost(current: Scene, *hosts: str) -> Scene:
    """No link to ``hosts`` works."""
    return replace(current, link_errors={(a, b): "tcp: refused" for a in MEMBERS for b in hosts if a != b})


def no_address(current: Scene, host: str) -> Scene:
    """The load balancers of ``host`` are gone."""

    def change(entry: Any) -> Any:
        return replace(entry, services={key: replace(found, status={}) for key, found in entry.services.items()})

    return changed(current, host, change)


@pytest.mark.parametrize("exposure", CLASSES)
def test_only_the_primary_while_it_is_well(exposure: str) -> None:
    current = run(world(), shop(exposure))
    assert (having(current), named(current)) == (["c1"], ["c1"])
    assert planned(current, shop(exposure))[1] == []
    found = status(current, shop(exposure))
    assert (found["phase"], found["hostname"]) == ("Exposed", "shop.example.com")
    assert [(row["role"], row["serving"]) for row in found["addresses"]] == [("primary", True), ("standby", False), ("standby", False)]


@pytest.mark.parametrize("exposure", CLASSES)
def test_the_first_standby_takes_over_and_gives_back(exposure: str) -> None:
    wanted = shop(exposure)
    current = with_endpoints(run(world(), wanted), "c1", 0)
    current = run(current, wanted)
    assert (having(current), named(current)) == (["c1", "c2"], ["c2"])  # the primary keeps its address
    assert planned(current, wanted)[1] == []
    found = status(current, wanted)
    assert (found["phase"], found["hostname"]) == ("Degraded", "shop.example.com")
    assert [row["serving"] for row in found["addresses"]] == [False, True, False]
    current = run(with_endpoints(current, "c1", 1), wanted)
    assert (having(current), named(current)) == (["c1"], ["c1"])
    assert planned(current, wanted)[1] == []


def test_the_name_is_there_before_the_standby_goes() -> None:
    wanted = shop()
    current = run(with_endpoints(run(world(), wanted), "c1", 0), wanted)
    _plans, steps = planned(with_endpoints(current, "c1", 1), wanted)
    order = sorted(steps, key=lambda step: step.wave)
    assert [(step.cluster, step.action.method) for step in order if isinstance(step.action, ApiWrite)] == [
        ("c1", "apply"),
        ("c2", "delete"),
    ]
    assert order[0].wave < order[1].wave


def test_in_order() -> None:
    wanted = shop()
    current = run(with_endpoints(with_endpoints(run(world(), wanted), "c1", 0), "c2", 0), wanted)
    assert named(current) == ["c3"]
    current = run(with_endpoints(current, "c2", 2), wanted)
    assert named(current) == ["c3"]  # c2 was asked to, and has no address yet when the plan is made
    current = run(current, wanted)
    assert (having(current), named(current)) == (["c1", "c2"], ["c2"])


def test_a_new_address_is_waited_for_before_a_standby_takes_over() -> None:
    wanted = shop()
    current = run(world(), wanted, settle=False)
    assert (having(current), status(current, wanted)["phase"]) == (["c1"], "Exposing")
    soon = replace(current, now=current.now + PATIENCE - timedelta(seconds=1))
    assert planned(soon, wanted)[1] == []
    late = run(replace(current, now=current.now + PATIENCE + timedelta(seconds=1)), wanted, settle=False)
    late = settled(late, ["c2"])
    assert (having(late), named(late)) == (["c1", "c2"], ["c2"])
    back = run(settled(late), wanted)
    assert (having(back), named(back)) == (["c1"], ["c1"])


def test_a_primary_without_address_is_no_primary_yet() -> None:
    """Endpoints alone do not bring it back."""
    wanted = shop()
    current = run(with_endpoints(run(world(), wanted), "c1", 0), wanted)
    current = no_address(with_endpoints(current, "c1", 2), "c1")
    plans, steps = planned(current, wanted)
    assert steps == []
    assert {finding.code for finding in plans[0].findings} >= {"CM-EXPO-11"}


@pytest.mark.parametrize("exposure", CLASSES)
def test_a_silent_primary(exposure: str) -> None:
    wanted = shop(exposure)
    current = run(without(run(world(), wanted), "c1"), wanted)
    assert (having(current), named(current)) == (["c2"], ["c2"])
    plan = planned(current, wanted)[0][0]
    assert "does not answer" in next(f for f in plan.findings if f.code == "CM-EXPO-12").summary
    found = status(current, wanted)
    assert found["phase"] == "Degraded"
    assert found["addresses"][0]["conditions"][0] == {
        "type": "Programmed",
        "status": "Unknown",
        "reason": "NoAnswer",
        "message": "The cluster does not answer; the objects that were written there stay as they were.",
    }


@pytest.mark.parametrize("exposure", CLASSES)
def test_a_primary_that_the_mesh_has_lost(exposure: str) -> None:
    wanted = shop(exposure)
    current = lost(run(world(), wanted), "c1")
    for _run in range(2):  # the standby gets its address, then the name
        current = run(current, wanted)
    assert (having(current), named(current)) == (["c1", "c2"], ["c2"])
    assert planned(current, wanted)[1] == []
    current = run(replace(current, link_errors={}), wanted)
    assert (having(current), named(current)) == (["c1"], ["c1"])


def test_when_all_links_are_broken_it_is_the_mesh_and_not_the_primary() -> None:
    wanted = shop()
    current = lost(run(world(), wanted), *MEMBERS)
    assert planned(current, wanted)[1] == []


def test_no_cluster_can_serve() -> None:
    """Then nothing is taken away, and nothing moves."""
    wanted = shop()
    current = run(with_endpoints(run(world(), wanted), "c1", 0), wanted)
    for host in MEMBERS:
        current = with_endpoints(current, host, 0)
    assert planned(current, wanted)[1] == []
    found = status(current, wanted)
    assert found["phase"] == "Degraded"
    assert next(row for row in found["conditions"] if row["type"] == "Ready")["status"] == "False"


def test_a_primary_without_the_service() -> None:
    wanted = shop()
    current = run(world(), wanted)
    current = changed(
        current,
        "c1",
        lambda entry: replace(entry, services={key: found for key, found in entry.services.items() if found.name != "nginx"}),
    )
    after = run(current, wanted)
    assert having(after) == ["c1", "c2"]  # what was made before stays
    assert "c2" in named(after)
    assert planned(after, wanted)[1] == []
