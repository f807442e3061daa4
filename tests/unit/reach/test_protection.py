# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is lost with policies that go: whatever opens is found, what is found is true, and what is not known counts as lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Step
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import FirstPacket
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome, verdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.workload_index import WorkloadIndex
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.difference import ChangeKind, changes_between
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.planned_policies import scene_with_planned_policies
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.port_set import LIMITS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.protection import LostProtection, losses
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.reach import Reach
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.workload_set import workload_sets
from tests.testing.facts_builders import cluster_facts
from tests.testing.policy_worlds import policy_facts
from tests.testing.properties import examples
from tests.testing.rows import one_test
from tests.testing.traffic_builders import namespace_facts, pod, scene, traffic
from tests.unit.reach.random_scenes import HOSTS, random_scene

PORTS = {protocol: sorted({*limits, 80, 8} | ({443, 8080, 8500} if limits[1] > 255 else set())) for protocol, limits in LIMITS.items()}

Gone = dict[str, set[str]]


def without(observed: Scene, gone: Gone) -> Scene:
    rest = {
        host: replace(entry, policies=tuple(policy for policy in entry.policies if policy.shown not in gone.get(host, ())))
        for host, entry in observed.traffic.items()
    }
    return replace(observed, traffic=rest)


def states(observed: Scene, gone: Gone) -> tuple[Reach, Reach]:
    """Reach before and after, of the same sets."""
    now, then = WorkloadIndex(observed), WorkloadIndex(without(observed, gone))
    sets = workload_sets(now, then)
    return Reach.of(sets), Reach.of(sets.seen_by(then))


def lost(observed: Scene, gone: Gone) -> list[LostProtection]:
    return list(losses(*states(observed, gone), gone))


def some(observed: Scene, draw: Random) -> Gone:
    """Some of the policies of Cilium of each cluster."""
    named = {host: [entry.shown for entry in observed.traffic[host].policies if entry.kind != "NetworkPolicy"] for host in HOSTS}
    return {host: set(draw.sample(names, draw.randint(0, len(names)))) for host, names in named.items()}


@given(seed=st.integers(0, 2**32))
@examples(150)
def test_where_nothing_is_lost_no_flow_opens(seed: int) -> None:
    draw = Random(seed)
    observed = random_scene(draw)
    gone = some(observed, draw)
    before, after = states(observed, gone)
    if list(losses(before, after, gone)):
        return
    worse = [
        change
        for change in changes_between(before, after)
        if change.kind is ChangeKind.GAINED or (change.kind is ChangeKind.UNSURE and change.before is PolicyOutcome.DENIED)
    ]
    assert worse == [], (seed, gone)
    ends = [entry.party.endpoint for entry in before.sets if entry.party]
    for source in ends:
        for destination in ends:
            protocol = draw.choice(list(PORTS))
            for port in PORTS[protocol]:
                flow = FirstPacket(source=source, destination=destination, protocol=protocol, port=port)
                was, now = (verdict(reach.judgement.world, flow).outcome for reach in (before, after))
                assert was is PolicyOutcome.ALLOWED or now is was or now is PolicyOutcome.DENIED, (seed, gone, flow, was, now)


@given(seed=st.integers(0, 2**32))
@examples(100)
def test_an_example_of_what_is_lost_is_a_flow_that_was_not_allowed_and_is_not_denied_then(seed: int) -> None:
    draw = Random(seed)
    observed = random_scene(draw)
    gone = some(observed, draw)
    before, after = states(observed, gone)
    for loss in losses(before, after, gone):
        assert set(loss.policies) <= gone[loss.host]
        example = loss.example
        if example is None:
            continue
        source, destination = (before.sets[number].party for number in (example.source, example.destination))
        assert source and destination
        protocol, port, _last = example.ports.ranges[0]
        flow = FirstPacket(source=source.endpoint, destination=destination.endpoint, protocol=protocol, port=port)
        was, now = (verdict(reach.judgement.world, flow) for reach in (before, after))
        assert was.outcome is not PolicyOutcome.ALLOWED and now.outcome is example.outcome is not PolicyOutcome.DENIED, (seed, flow)


# By hand


def cnp(name: str, **spec: Any) -> ObjectFacts:
    body = {"endpointSelector": {"matchLabels": {"app": "db"}}, **spec}
    return policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": name, "namespace": "shop"}, "spec": body})


WEB = {"fromEndpoints": [{"matchLabels": {"app": "web"}}]}
TCP_80 = {"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}]}]}
OPEN = {"ingress": False, "egress": False}
DENY = cnp("old", ingressDeny=[WEB])
OURS = cnp("ours", ingressDeny=[WEB], enableDefaultDeny=OPEN)
ISOLATE = cnp("isolate", ingress=[{}])
ALLOW = cnp("allow", ingress=[WEB])


def shop(*policies: ObjectFacts, version: str = "1.18.11", config: dict[str, str] | None = None, **fields: Any) -> Scene:
    pods = (pod("web-0", namespace="shop", app="web"), pod("db-0", namespace="shop", app="db"), pod("api-0", namespace="shop", app="api"))
    place = {"namespaces": [namespace_facts("shop")], "pods": pods, "policies": policies, **fields}
    return scene(traffic("c1", **place), facts={"c1": cluster_facts("c1", version=version, config=config or {})})


def of_old(observed: Scene) -> list[LostProtection]:
    return lost(observed, {"c1": {DENY.shown}})


def test_a_deny_that_isolates_is_not_replaced_by_one_that_does_not() -> None:
    (loss,) = of_old(shop(DENY, OURS))
    assert (loss.isolation, loss.policies, loss.host) == (True, (DENY.shown,), "c1") and loss.example is not None
    assert loss.example.outcome is PolicyOutcome.ALLOWED


@one_test(
    "stays is_lost",
    ((OURS, ISOLATE), False),
    ((OURS, ALLOW), False),
    ((ISOLATE,), False),  # nothing allows web, so its denial changes nothing
    ((ALLOW,), True),  # web is allowed then
    ((ALLOW, cnp("part", ingressDeny=[WEB | TCP_80])), True),
    ((), True),
)
def test_what_stays_has_to_isolate_and_to_deny_the_same(stays: tuple[ObjectFacts, ...], is_lost: bool) -> None:
    assert bool(of_old(shop(DENY, *stays))) is is_lost


@one_test(
    "old stays is_lost",
    (cnp("old", ingress=[WEB]), (ALLOW,), False),
    (cnp("old", ingress=[{}]), (ALLOW,), False),
    (cnp("old", ingress=[{"fromEntities": ["all"]}]), (), True),  # isolated, although everything is allowed
    (cnp("old", egress=[{"toEndpoints": [{}]}]), (ALLOW,), True),  # the other direction
    (cnp("old", egressDeny=[{"toEndpoints": [{}]}], enableDefaultDeny=OPEN), (ALLOW,), True),
    # Rules of layer 7 and of authentication restrict where nothing isolates, too.
    (
        cnp("old", enableDefaultDeny=OPEN, ingress=[{"toPorts": [{**TCP_80["toPorts"][0], "rules": {"http": [{"method": "GET"}]}}]}]),
        (),
        True,
    ),
    (cnp("old", ingress=[{**WEB, "authentication": {"mode": "required"}}]), (ALLOW,), True),
    (cnp("old", ingress=[WEB]), (ALLOW,), False),
    # What the evaluator does not understand, or does not evaluate.
    (cnp("old", ingress=[WEB], egress="x"), (ISOLATE,), True),
    (cnp("old", ingressDeny=[{"toPorts": [{"ports": [{"protocol": "VRRP"}]}]}]), (OURS, ISOLATE), True),
    (cnp("old", ingress=[{**WEB, "fromRequires": [{"matchLabels": {"app": "web"}}]}]), (ALLOW,), True),
)
def test_every_way_in_which_a_policy_protects_counts(old: ObjectFacts, stays: tuple[ObjectFacts, ...], is_lost: bool) -> None:
    found = of_old(shop(old, *stays, version="1.18.11"))
    assert bool(found) is is_lost, found


@one_test(
    "observed",
    shop(DENY, OURS, ISOLATE, unread=(Unread(what="pods", message="Forbidden.", remedy=""),)),
    shop(cnp("old", ingress=[WEB]), ISOLATE, config={"static-cnp-path": "/policies"}),
    shop(DENY, ALLOW, unread=(Unread(what="networkpolicies", message="Forbidden.", remedy=""),)),
    replace(shop(DENY, OURS, ISOLATE), traffic={}),
)
def test_what_is_not_known_counts_as_lost(observed: Scene) -> None:
    assert of_old(observed)


REFUSED: dict[str, Any] = {"conditions": [{"type": "Valid", "status": "False", "message": "no"}]}


@one_test("old stays", (DENY, (OURS, replace(ISOLATE, status=REFUSED))), (replace(DENY, status=REFUSED), (OURS, ISOLATE)))
def test_what_cilium_refuses_replaces_nothing_and_goes_only_when_it_is_known_what_goes(
    old: ObjectFacts, stays: tuple[ObjectFacts, ...]
) -> None:
    """Agents may still enforce an earlier version of a policy that is refused."""
    assert of_old(shop(old, *stays))


@one_test("changed believed", ({"labels": {"team": "red"}}, False), ({"spec": {**ISOLATE.spec, "egress": [{}]}}, True))
def test_a_refused_policy_stays_so_until_its_spec_changes(changed: dict[str, Any], believed: bool) -> None:
    path = "/apis/cilium.io/v2/namespaces/shop/ciliumnetworkpolicies/isolate"
    observed = shop(replace(ISOLATE, path=path, status=REFUSED))
    body = {"metadata": {"name": "isolate", "labels": changed.get("labels", {})}, "spec": changed.get("spec", ISOLATE.spec)}
    step = Step(wave=1, cluster="c1", verb="apply", object="isolate", why="", action=ApiWrite(method="apply", path=path, body=body))
    (after,) = scene_with_planned_policies(observed, [step]).traffic["c1"].policies
    assert (after.status == {}) is believed


ACCOUNT = {"matchLabels": {"io.cilium.k8s.policy.serviceaccount": "x"}}
"""Selects pods perhaps: the account of a pod is not known."""


@one_test(
    "old stays",
    (cnp("old", ingressDeny=[{"fromEndpoints": [ACCOUNT]}], enableDefaultDeny=OPEN), ()),
    (cnp("old", ingress=[WEB]), (cnp("perhaps", endpointSelector=ACCOUNT, ingress=[{}]),)),
    (cnp("old", endpointSelector=ACCOUNT, ingress=[{}]), ()),
    (cnp("old", endpointSelector=ACCOUNT, ingress=[{}]), (cnp("perhaps", endpointSelector=ACCOUNT, ingress=[{}]),)),
)
def test_perhaps_is_not_enough_to_replace_and_enough_to_protect(old: ObjectFacts, stays: tuple[ObjectFacts, ...]) -> None:
    assert of_old(shop(old, *stays))


def test_a_member_of_which_nothing_is_known_is_a_source_that_may_be_denied() -> None:
    """Isolation needs no knowledge of sources, a denial does."""
    observed = shop(DENY, OURS, ISOLATE)
    wider = replace(observed, mesh=scene(*observed.traffic.values(), members=("c2",)).mesh)
    assert of_old(observed) == [] and [loss.isolation for loss in of_old(wider)] == [False]
    allow = cnp("old", ingress=[WEB])
    assert of_old(replace(wider, traffic={"c1": replace(observed.traffic["c1"], policies=(allow, ISOLATE))})) == []


def test_a_cluster_without_a_link_keeps_no_policy_that_another_one_replaces() -> None:
    """Of its flows nothing is known for certain, but a denial for it goes on."""
    place: dict[str, Any] = {"namespaces": [namespace_facts("shop")], "pods": (pod("web-0", namespace="shop", app="web"),)}
    observed = scene(*shop(DENY, OURS, ISOLATE).traffic.values(), traffic("c2", **place), traffic("c3", **place))
    pairs = Topology(mode=Mode.PAIRS, pairs=(("c1", "c2"),))
    apart = replace(observed, mesh=replace(observed.mesh, binding=replace(observed.binding, topology=pairs)))
    assert of_old(apart) == []


def test_two_policies_that_go_together_do_not_stand_in_for_each_other() -> None:
    observed = shop(DENY, ISOLATE)
    assert lost(observed, {"c1": {DENY.shown}}) == []
    assert next(loss.policies for loss in lost(observed, {"c1": {DENY.shown, ISOLATE.shown}})) == (ISOLATE.shown, DENY.shown)


def test_where_everything_is_isolated_by_the_setting_isolation_is_not_lost() -> None:
    assert of_old(shop(DENY, OURS, config={"enable-policy": "always"})) == []
