# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Golden files for a reader, and laws for every item in every world: it settles, it opens no more than asked, it leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.names import DNS_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ExposedService
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import owning_item
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from tests.testing.exposure_goldens import Golden, compiled, goldens
from tests.testing.exposure_world import (
    EVERYONE,
    MEMBERS,
    OFFICE,
    changed,
    cluster,
    clusters,
    item,
    ours,
    planned,
    run,
    settled,
    with_endpoints,
    without,
)
from tests.testing.facts_builders import cluster_facts
from tests.testing.properties import examples
from tests.testing.rows import in_one_test
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import service

GLOBAL = {"service.cilium.io/global": "true"}


@in_one_test
@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)
def test_the_golden_files_are_current(golden: Golden) -> None:
    """``python -m tests.testing.exposure_goldens`` writes them anew."""
    assert golden.becomes and compiled(golden) == golden.becomes


def test_every_class_has_a_golden_file() -> None:
    assert {golden.item["class"] for golden in goldens()} == {"LoadBalancer", "NodePort", "Gateway"}


@st.composite
def worlds(draw: st.DrawFn) -> Scene:
    traffics, facts = [], {}
    for host in MEMBERS:
        given_service = service(annotations=draw(st.sampled_from(({}, GLOBAL))))
        config: dict[str, str | None] = {
            "enable-gateway-api": draw(st.sampled_from(("true", "true", "false"))),
            "kube-proxy-replacement": draw(st.sampled_from(("true", "false"))),
            "enable-ipv6": draw(st.sampled_from(("true", "false"))),
            "enable-policy": draw(st.sampled_from(("default", "default", "never"))),
        }
        facts[host] = cluster_facts(host, config=config, version=draw(st.sampled_from(("1.16.19", "1.18.11", "1.20.0"))))
        services = [given_service] if draw(st.integers(0, 5)) else []
        traffics.append(cluster(host, services=services, ready=draw(st.integers(0, 2))))
    return clusters(*traffics, facts=facts)


@st.composite
def items(draw: st.DrawFn) -> tuple[ExposedService, ...]:
    found = []
    for name in draw(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=3, unique=True)):
        hosts = draw(st.permutations(MEMBERS))
        where: Any = draw(st.sampled_from(("all", hosts[:2], {"primary": hosts[0], "standby": hosts[1:]})))
        values: dict[str, Any] = {
            "class": draw(st.sampled_from(("LoadBalancer", "NodePort", "Gateway"))),
            "clusters": where if isinstance(where, (str, dict)) else list(where),
            "hostname": draw(st.sampled_from((None, "x.example.com", "y.example.com"))),
            "sourceRanges": list(draw(st.sampled_from((EVERYONE, OFFICE, ("0.0.0.0/0",), ("2001:db8::/32",), ())))),
        }
        found.append(item(name, **values))
    return tuple(found)


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, int]:
    return draw(st.sampled_from(MEMBERS)), draw(st.sampled_from(("endpoints", "links", "service", "none"))), draw(st.integers(0, 2))


def happened(current: Scene, change: tuple[str, str, int]) -> Scene:
    """Something in the world is no longer as it was."""
    host, what, number = change
    if what == "endpoints":
        return with_endpoints(current, host, number)
    if what == "links":
        broken = {(a, host): "tcp: refused" for a in MEMBERS if a != host} if number else {}
        return replace(current, link_errors=broken)
    if what == "service":
        kept = {key: entry for key, entry in current.traffic[host].services.items() if entry.name != "nginx"}
        added = {("production", "nginx"): service()} if number else {}
        return changed(current, host, lambda entry: replace(entry, services={**kept, **added}))
    return current


LAW = examples(50)


@LAW
@given(worlds(), items(), items(), st.lists(changes(), max_size=4))
def test_after_applying_a_plan_there_is_nothing_left_to_do(
    world: Scene, first: tuple[ExposedService, ...], second: tuple[ExposedService, ...], events: list[tuple[str, str, int]]
) -> None:
    current = run(world, *first)
    for event in events:
        current = happened(current, event)
    for wanted in (first, second):
        once = run(current, *wanted, settle=False)
        assert planned(once, *wanted)[1] == []
        current = settled(once)
        for _more in range(4):  # addresses have come: a standby may be pruned, the next one may be ready to take over
            steps = planned(current, *wanted)[1]
            if not steps:
                break
            current = settled(applied(current, steps, current.binding))
        assert planned(current, *wanted)[1] == []


@LAW
@given(worlds(), items(), st.lists(changes(), max_size=3))
def test_nothing_is_open_to_more_than_was_asked_for(
    world: Scene, wanted: tuple[ExposedService, ...], events: list[tuple[str, str, int]]
) -> None:
    by_name = {entry.name: entry for entry in wanted}
    current = run(world, *wanted)
    for event in events:
        current = run(happened(current, event), *wanted)
    for host in MEMBERS:
        for found in ours(current, host):
            ref = owning_item(current.binding, found)
            assert ref is not None
            _check_opening(found, by_name[ref.name], current, host)


def _check_opening(found: ObjectFacts, asked: ExposedService, current: Scene, host: str) -> None:
    assert asked.source_ranges
    everyone = {"0.0.0.0/0", "::/0"} <= set(asked.source_ranges)
    six = (current.facts[host].config or {})["enable-ipv6"] == "true"
    if found.kind in ("Gateway", "HTTPRoute"):
        assert everyone or ("0.0.0.0/0" in asked.source_ranges and not six)
        return
    if found.kind == "CiliumNetworkPolicy":
        assert found.spec["enableDefaultDeny"] == {"ingress": False}
        return
    families = found.spec.get("ipFamilies") or ["IPv4", "IPv6"]
    of_family = {"IPv4": [r for r in asked.source_ranges if ":" not in r], "IPv6": [r for r in asked.source_ranges if ":" in r]}
    assert all(of_family[family] for family in families)
    if found.spec["type"] == "LoadBalancer":
        assert found.spec["loadBalancerSourceRanges"] and set(found.spec["loadBalancerSourceRanges"]) <= set(asked.source_ranges)
        return
    policies = [entry for entry in ours(current, host) if entry.kind == "CiliumNetworkPolicy" and entry.name == found.name]
    open_to_all = all(everyone or of_family[family] == ["0.0.0.0/0"] for family in families)
    assert open_to_all != bool(policies)
    if policies:
        denied = {row["cidr"]: row["except"] for row in policies[0].spec["ingressDeny"][0]["fromCIDRSet"]}
        assert found.spec["externalTrafficPolicy"] == "Local"
        assert all(set(kept) <= set(asked.source_ranges) for kept in denied.values())
        assert (current.facts[host].config or {})["enable-policy"] != "never"


@LAW
@given(worlds(), items(), st.lists(changes(), max_size=4))
def test_a_name_has_one_item_and_leads_to_one_cluster_of_a_primary(
    world: Scene, wanted: tuple[ExposedService, ...], events: list[tuple[str, str, int]]
) -> None:
    current = run(world, *wanted)
    for event in events:
        current = run(happened(current, event), *wanted)
    holders: dict[str, set[str]] = {}
    for entry in wanted:
        if planned(current, *wanted)[0][wanted.index(entry)].verdict is not ItemVerdict.ACCEPTED or not entry.hostname:
            continue
        places = {host for host in MEMBERS for found in ours(current, host) if _leads(found, entry, current)}
        if places:
            holders.setdefault(entry.hostname, set()).add(entry.name)
        assert not entry.primary or len(places) <= 1 + sum(_service_is_gone(current, host) for host in places)
    assert all(len(names) == 1 for names in holders.values())


def _leads(found: ObjectFacts, entry: ExposedService, current: Scene) -> bool:
    ref = owning_item(current.binding, found)
    return ref is not None and ref.name == entry.name and (found.kind == "HTTPRoute" or DNS_ANNOTATION in found.annotations)


def _service_is_gone(current: Scene, host: str) -> bool:
    """There what was made is left exactly as it is."""
    return ("production", "nginx") not in current.traffic[host].services


@LAW
@given(worlds(), items(), items(), st.lists(changes(), max_size=3))
def test_what_was_made_can_be_taken_away_and_nothing_else_was_touched(
    world: Scene, first: tuple[ExposedService, ...], second: tuple[ExposedService, ...], events: list[tuple[str, str, int]]
) -> None:
    before, current = world, run(world, *first)
    for event in events:
        before, current = happened(before, event), run(happened(current, event), *second)
    gone = applied(current, planned(current)[1], current.binding)
    assert gone.traffic == before.traffic


@LAW
@given(worlds(), items(), st.sampled_from(MEMBERS))
def test_a_cluster_that_does_not_answer_is_not_written_to(world: Scene, wanted: tuple[ExposedService, ...], host: str) -> None:
    current = without(run(world, *wanted), host)
    plans, steps = planned(current, *wanted)
    assert all(step.cluster != host for step in steps)
    assert all(isinstance(step.action, ApiWrite) and step.item for step in steps)
    assert len(plans) == len(wanted)
