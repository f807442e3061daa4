# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who may use a hostname: the oldest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.names import DNS_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.plan import plan_exposures
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Refused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from tests.testing.exposure_world import MEMBERS, changed, clusters, desired, item, ours, planned, run
from tests.testing.traffic_builders import object_facts, service

NAME = "shop.example.com"
GATEWAY_API = "/apis/gateway.networking.k8s.io/v1"
EARLIER, LATER = "2026-08-01T08:00:00Z", "2026-12-01T08:00:00Z"


def verdicts(current: Scene, *items: Any) -> list[str]:
    """Reason of each item's condition Accepted."""
    return [plan.reason for plan in planned(current, *items)[0]]


def with_service(current: Scene, host: str, found: ObjectFacts) -> Scene:
    return changed(current, host, lambda entry: replace(entry, services={**entry.services, found.key: found}))


def test_of_two_new_ones_the_first_in_the_file() -> None:
    assert verdicts(clusters(), item("a", hostname=NAME), item("b", hostname=NAME)) == ["SpecValid", "HostnameConflict"]


def test_the_time_of_making_beats_the_order() -> None:
    a, b = item("a", hostname=NAME, createdAt=LATER), item("b", hostname=NAME, createdAt=EARLIER)
    assert verdicts(clusters(), a, b) == ["HostnameConflict", "SpecValid"]
    assert verdicts(clusters(), item("a", hostname=NAME), b) == ["HostnameConflict", "SpecValid"]


def test_who_has_it_beats_who_asks_for_it() -> None:
    b = item("b", hostname=NAME, createdAt=LATER)
    current = run(clusters(), b)
    assert verdicts(current, item("a", hostname=NAME, createdAt=EARLIER), b) == ["HostnameConflict", "SpecValid"]


def test_the_loser_keeps_what_it_had() -> None:
    a, b = item("a", hostname=NAME), item("b", hostname="other.example.com")
    current = run(clusters(), a, b)
    plans, steps = planned(current, a, item("b", hostname=NAME))
    assert [plan.verdict for plan in plans] == [ItemVerdict.ACCEPTED, ItemVerdict.REFUSED]
    assert steps == []
    assert any(entry.annotations.get(DNS_ANNOTATION) == "other.example.com" for entry in ours(current, "c1"))


def test_names_can_be_swapped() -> None:
    current = run(clusters(), item("a", hostname=NAME), item("b", hostname="other.example.com"))
    assert verdicts(current, item("a", hostname="other.example.com"), item("b", hostname=NAME)) == ["SpecValid", "SpecValid"]


def test_an_item_that_is_removed_frees_its_name() -> None:
    current = run(clusters(), item("a", hostname=NAME))
    assert verdicts(current, item("b", hostname=NAME)) == ["SpecValid"]


def test_one_whose_spec_is_refused_keeps_its_name() -> None:
    current = run(clusters(), item("a", hostname=NAME))
    broken = replace(
        desired(current, item("b", hostname=NAME)), refused=(Refused(ref=ItemRef(ItemKind.EXPOSURE, "a"), problems=("port: wrong",)),)
    )
    assert [plan.reason for plan in plan_exposures(broken, current)] == ["HostnameConflict"]


def test_an_exposure_that_lets_no_client_in_needs_no_name() -> None:
    assert verdicts(clusters(), item("a", hostname=NAME, sourceRanges=[]), item("b", hostname=NAME)) == ["SpecValid", "SpecValid"]


@pytest.mark.parametrize(
    "foreign",
    [
        service("theirs", annotations={DNS_ANNOTATION: f"x.example.com, {NAME.upper()}."}),
        object_facts("Gateway", "gateways", "theirs", namespace="other", api=GATEWAY_API, spec={"listeners": [{"hostname": NAME}]}),
        object_facts("HTTPRoute", "httproutes", "theirs", namespace="other", api=GATEWAY_API, spec={"hostnames": [NAME]}),
    ],
    ids=lambda found: found.kind,
)
def test_a_foreign_object_has_it(foreign: ObjectFacts) -> None:
    field = {"Service": "services", "Gateway": "gateways"}.get(foreign.kind)

    def with_foreign(entry: Any) -> Any:
        return replace(entry, **({field: {**getattr(entry, field), foreign.key: foreign}} if field else {"routes": (foreign,)}))

    plan = planned(changed(clusters(), "c3", with_foreign), item(hostname=NAME, clusters=["c1"]))[0][0]
    assert (plan.verdict, plan.reason, plan.steps) == (ItemVerdict.REFUSED, "HostnameConflict", ())
    found = next(f for f in plan.findings if f.code == "CM-EXPO-06")
    assert found.blocks
    said = f"{found.summary} {found.evidence} {found.fix} {found.cluster} {plan.message}"
    assert "theirs" not in said and "c3" not in said and NAME in said


@pytest.mark.parametrize(("created", "reason"), [(EARLIER, "HostnameConflict"), (LATER, "SpecValid")])
def test_of_two_objects_the_older(created: str, reason: str) -> None:
    """Another binding may have made its own while this one was not looking."""
    wanted = item(hostname=NAME)
    current = run(clusters(), wanted)
    theirs = replace(service("theirs", namespace="elsewhere", annotations={DNS_ANNOTATION: NAME}), created=created)
    plans, steps = planned(with_service(current, "c2", theirs), wanted)
    assert (plans[0].reason, steps) == (reason, [])


def test_two_bindings_in_the_same_clusters() -> None:
    """The binding that asks second loses, on whichever side."""
    first = clusters()
    second = replace(first, mesh=Mesh(binding=Binding(name="other-mesh", cluster_refs=MEMBERS)))
    wanted = item(hostname=NAME)
    after = run(first, wanted)
    assert verdicts(replace(second, traffic=after.traffic), item("mine", hostname=NAME)) == ["HostnameConflict"]
    assert verdicts(after, wanted) == ["SpecValid"]


def test_a_standby_keeps_the_claim_of_its_primary() -> None:
    """The primary's object is older than the one that serves now, and still says which name it is for."""
    wanted = item(hostname=NAME, clusters={"primary": "c1", "standby": ["c2"]})
    current = run(clusters(), wanted)
    held = ours(current, "c1")[0]
    moved = changed(
        current,
        "c1",
        lambda entry: replace(
            entry,
            services={
                **entry.services,
                held.key: replace(held, created=EARLIER, annotations={k: v for k, v in held.annotations.items() if k != DNS_ANNOTATION}),
            },
        ),
    )
    theirs = replace(service("theirs", annotations={DNS_ANNOTATION: NAME}), created="2026-08-15T08:00:00Z")
    assert verdicts(with_service(moved, "c3", theirs), wanted) == ["SpecValid"]
