# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The registry of leases: a merge that never forgets, a text that no reader has to trust, and the steps that keep every copy whole."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.agreement import mesh_registry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import registry_after_disconnect, with_active_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    CIDRS_KEPT,
    LIMIT,
    MAX_SERIAL,
    RELEASED_KEPT,
    Lease,
    LeaseState,
    NewerRegistry,
    Registry,
    RegistryProblem,
    lease_of,
    merge,
    parse_registry,
    pod_cidrs,
    registry_name,
    with_released,
    with_tombstones,
    without_oldest,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, NodeFacts, RegistryFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import NOW as TIME
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, PlanOptions, Step
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.rows import one_test
from tests.testing.simulated_apply import SimulatedClusters

MESH = mesh_of("c1", "c2", "c3")
OWNER = MESH.binding.owner
SINCE = "2026-09-01T00:00:00Z"


def lease(host: str = "c1", **values: Any) -> Lease:
    return Lease(**{"host": host, "name": host, "id": 1, "uid": f"uid-of-{host}", **values})


leases = st.builds(
    Lease,
    host=st.sampled_from(("c1", "c2")),
    name=st.sampled_from(("a", "b")),
    id=st.integers(1, 2),
    uid=st.sampled_from(("", "u1", "u2")),
    ca=st.sampled_from(("", "0" * 64)),
    pod_cidrs=st.sampled_from(((), ("10.0.0.0/8",))),
    state=st.sampled_from(LeaseState),
    since=st.sampled_from(("", SINCE, "2026-09-02T00:00:00Z")),
    serial=st.integers(1, 3),
)
registries = st.lists(leases, max_size=6).map(lambda rows: merge((Registry(mesh=OWNER, leases=tuple(rows)),)))


@given(registries, registries, registries)
def test_merging_is_a_semilattice(a: Registry, b: Registry, c: Registry) -> None:
    assert merge((a, b)) == merge((b, a))
    assert merge((a, merge((b, c)))) == merge((merge((a, b)), c)) == merge((a, b, c))
    assert merge((a, a)) == a
    assert merge((merge((a, b)), a)) == merge((a, b))


@given(registries)
def test_what_is_written_is_what_is_read_and_has_one_form(registry: Registry) -> None:
    assert parse_registry(write_registry(registry)) == registry
    shuffled = replace(registry, leases=tuple(reversed(registry.leases)))
    assert write_registry(shuffled) == write_registry(registry)


@given(registries, st.sampled_from(("c1", "c2")))
def test_who_left_holds_nothing_and_the_news_wins_over_every_old_copy(registry: Registry, host: str) -> None:
    for ended, state in ((with_released(registry, [host]), LeaseState.RELEASED), (with_tombstones(registry, [host]), LeaseState.DEAD)):
        assert ended.active(host) is None and ended.claim(host) is None
        assert merge((registry, ended)) == ended
        changed = [one for one in ended.leases if one not in registry.leases]
        assert all(one.state is state and one.since == TIME for one in changed)


def test_the_later_state_wins_and_of_two_equally_late_ones_the_graver() -> None:
    active, gone = lease(serial=2), lease(serial=1, state=LeaseState.RELEASED, since=SINCE)
    assert merge((Registry(mesh=OWNER, leases=(gone,)), Registry(mesh=OWNER, leases=(active,)))).leases == (active,)
    grave = lease(serial=2, state=LeaseState.DEAD, since=SINCE)
    assert merge((Registry(mesh=OWNER, leases=(active,)), Registry(mesh=OWNER, leases=(grave,)))).leases == (grave,)


def test_registries_of_different_meshes_are_never_merged() -> None:
    with pytest.raises(RegistryProblem, match="different meshes"):
        merge((Registry(mesh="a"), Registry(mesh="b")))


def test_a_tombstone_is_found_by_host_and_by_name_until_the_host_is_active_again() -> None:
    registry = with_tombstones(Registry(mesh=OWNER, leases=(lease("c1", name="alpha"),)), ["c1"])
    assert registry.tombstone("c1") == registry.tombstone("alpha") == registry.leases[0]
    back = with_active_leases(registry, [cluster_facts("c1", config={"cluster-name": "alpha"})])
    assert back.tombstone("c1") is None and back.active("c1") is not None


GOOD = lease().to_dict()


@one_test(
    "text why",
    ("", "JSON"),
    ("leases", "JSON"),
    ("[" * 100_000, "JSON"),
    ("null", "schema"),
    ("[]", "schema"),
    ('{"schema":true,"mesh":"m","leases":[]}', "schema"),
    ('{"schema":0,"mesh":"m","leases":[]}', "schema is not 1"),
    ('{"schema":1,"mesh":7,"leases":[]}', "no mesh"),
    ('{"schema":1,"mesh":"m"}', "no list"),
    ('{"schema":1,"mesh":"m","leases":[7]}', "lease 1 of it is no object"),
    ("x" * (LIMIT + 1), "too long"),
    *(
        (json.dumps({"schema": 1, "mesh": "m", "leases": [GOOD, {**GOOD, **wrong}]}), f"lease 2 of it has a wrong {next(iter(wrong))}")
        for wrong in (
            {"host": ""},
            {"host": 7},
            {"host": "two\nlines"},
            {"host": "x" * 254},
            {"name": None},
            {"id": 0},
            {"id": 512},
            {"id": True},
            {"id": "1"},
            {"serial": 0},
            {"serial": 2**60},
            {"uid": ["u"]},
            {"ca": "no digest"},
            {"podCidrs": "10.0.0.0/8"},
            {"podCidrs": ["10.0.0.1/8"]},
            {"podCidrs": ["fe80::%\x1b[31m\n/128"]},
            {"podCidrs": ["10.0.0.0/8"] * 1000},
            {"state": "asleep"},
            {"since": "yesterday"},
        )
    ),
)
def test_a_hostile_text_is_refused_with_what_is_wrong_and_repeated_nowhere(text: str, why: str) -> None:
    with pytest.raises(RegistryProblem) as caught:
        parse_registry(text)
    assert why in str(caught.value) and len(str(caught.value)) < 120


def test_a_text_of_a_later_release_is_recognised() -> None:
    with pytest.raises(NewerRegistry):
        parse_registry('{"schema":2,"mesh":"m","leases":{}}')


def test_unknown_keys_are_dropped() -> None:
    text = json.dumps({"schema": 1, "mesh": "m", "leases": [{**GOOD, "colour": "red"}], "more": 1})
    assert parse_registry(text).leases == (lease(),)


def test_511_leases_fit_far_below_the_limit() -> None:
    many = Registry(mesh=OWNER, leases=tuple(lease(f"cluster-{n:03d}", id=n, ca="0" * 64, uid="x" * 36) for n in range(1, 512)))
    assert len(write_registry(many)) < LIMIT / 4


def test_the_oldest_released_leases_are_forgotten_and_no_other() -> None:
    old = [lease(f"c{n}", state=LeaseState.RELEASED, since=f"20{n % 90 + 10}-01-01T00:00:00Z") for n in range(RELEASED_KEPT + 50)]
    kept = without_oldest(merge((Registry(mesh=OWNER, leases=(lease("alive"), lease("dead", state=LeaseState.DEAD), *old)),)))
    assert len(kept.leases) == RELEASED_KEPT + 2 and kept.active("alive") and kept.tombstone("dead")
    assert without_oldest(kept) == kept


def test_a_lease_says_what_the_cluster_is() -> None:
    c1 = cluster_facts("c1")
    made = lease_of(c1)
    assert (made.host, made.name, made.id, made.uid, made.state) == ("c1", "c1", 1, "uid-of-c1", LeaseState.ACTIVE)
    assert made.ca == c1.server_cert.ca[0].public_key
    assert made.pod_cidrs == ("10.1.0.0/16",)


def test_many_node_ranges_are_widened_so_that_a_node_more_is_no_news() -> None:
    nodes = tuple(NodeFacts(name=f"n{n}", ready=True, pod_cidrs=(f"10.{n * 2}.0.0/24",)) for n in range(100))
    cidrs = pod_cidrs(cluster_facts("c1", config={"ipam": "kubernetes"}, nodes=nodes))
    wide = [ip_network(cidr) for cidr in cidrs]
    assert len(wide) <= CIDRS_KEPT
    for node in nodes:
        assert [cidr for cidr in wide if ip_network(node.pod_cidrs[0]).subnet_of(cidr)], node.name  # type: ignore[arg-type]  # all are IPv4
    one_more = (*nodes, NodeFacts(name="late", ready=True, pod_cidrs=("10.55.0.0/24",)))
    small, large = (cluster_facts("c1", config={"ipam": "kubernetes"}, nodes=each) for each in (nodes, one_more))
    known = with_active_leases(Registry(mesh=OWNER), [small])
    assert with_active_leases(known, [large]) == known


# The copies, as connect and disconnect leave them


def _members(*hosts: str) -> SimulatedClusters:
    every = hosts or ("c1", "c2", "c3")
    return SimulatedClusters({host: cluster_facts(host) for host in every}, NOW)


def _plan(clusters: SimulatedClusters, **changed: ClusterFacts) -> Plan:
    return plan_links(MESH, {**clusters.facts(), **changed}, PlanOptions(), NOW)


def _registry_steps(plan: Plan) -> list[Step]:
    return [step for step in plan.steps if step.object.endswith(registry_name(MESH.binding))]


def test_connect_writes_the_same_leases_to_every_member_and_a_second_one_nothing() -> None:
    clusters = _members()
    plan = _plan(clusters)
    steps = _registry_steps(plan)
    assert [(s.wave, s.cluster, s.verb) for s in steps] == [(0, "c1", "create"), (0, "c2", "create"), (0, "c3", "create")]
    clusters.run(plan)
    assert len({facts.registry.text for facts in clusters.facts().values()}) == 1
    known = mesh_registry(MESH, clusters.facts())
    assert [(one.host, one.id) for one in known.leases] == [("c1", 1), ("c2", 2), ("c3", 3)]
    assert _plan(clusters).empty


def test_a_lost_or_spoiled_copy_is_restored_from_the_others() -> None:
    clusters = _members()
    clusters.run(_plan(clusters))
    whole = clusters.facts()["c1"]
    for broken in (RegistryFacts(), replace(whole.registry, text='{"schema":1,'), replace(whole.registry, text="")):
        (step,) = _plan(clusters, c1=replace(whole, registry=broken)).steps
        assert isinstance(step.action, ApiWrite) and step.action.body["data"] == {"leases.json": whole.registry.text}
        assert step.action.body["metadata"].get("resourceVersion", "") == broken.resource_version


@pytest.mark.parametrize("broken", [{"labels": {}}, {"text": '{"schema":9,"mesh":"m","leases":[]}'}])
def test_what_is_not_ours_or_newer_than_we_are_is_left_alone(broken: dict[str, Any]) -> None:
    clusters = _members()
    clusters.run(_plan(clusters))
    c1 = clusters.facts()["c1"]
    changed = replace(c1, registry=replace(c1.registry, **broken))
    if "labels" in broken:
        assert _plan(clusters, c1=changed).empty
        gone = plan_disconnect(MESH, {**clusters.facts(), "c1": changed}, None)
        assert {step.cluster for step in _registry_steps(gone)} == {"c2", "c3"}
    else:
        assert [step.cluster for step in _plan(clusters, c1=changed).steps] == []


def test_a_lease_that_another_run_adds_meanwhile_makes_the_write_fail() -> None:
    clusters = _members()
    clusters.run(_plan(clusters))
    # c1 was made anew and kept its copy: its lease changes, so this plan writes to every copy.
    before = _plan(clusters, c1=cluster_facts("c1", uid="another", registry=clusters.facts()["c1"].registry))
    assert [step.cluster for step in _registry_steps(before)] == ["c1", "c2", "c3"]
    claim = lease("c9", id=9, state=LeaseState.RESERVED)
    claimed = write_registry(mesh_registry(MESH, clusters.facts()).with_leases([claim]))
    assert clusters.edit("c2", "ConfigMap", registry_name(MESH.binding), "another run", {("data", "leases.json"): claimed})
    with pytest.raises(WriteConflict, match=r"c2.*resourceVersion"):
        clusters.run(before)
    assert clusters.facts()["c2"].registry.text == claimed


def test_who_leaves_rests_in_quarantine_and_who_is_silent_gets_a_tombstone() -> None:
    clusters = _members()
    clusters.run(_plan(clusters))
    facts = clusters.facts()
    assert registry_after_disconnect(MESH, facts, ["c3"]).released(3)
    silent = {host: cluster for host, cluster in facts.items() if host != "c3"}
    assert registry_after_disconnect(MESH, silent, ["c3"]).tombstone("c3") is not None
    clusters.run(plan_disconnect(MESH, facts, frozenset({"c3"})))
    assert not clusters.facts()["c3"].registry.present
    (rest,) = mesh_registry(MESH, clusters.facts()).released(3)
    assert rest.since == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert plan_disconnect(MESH, clusters.facts(), frozenset({"c3"})).empty


def test_nothing_is_left_after_all_members_were_disconnected() -> None:
    clusters = _members()
    before = clusters.facts()
    clusters.run(_plan(clusters))
    clusters.run(plan_disconnect(MESH, clusters.facts(), None))
    assert {host: facts.registry for host, facts in clusters.facts().items()} == {host: f.registry for host, f in before.items()}


def test_content_of_others_keeps_the_object_and_loses_our_key() -> None:
    clusters = _members()
    clusters.run(_plan(clusters))
    c1 = clusters.facts()["c1"]
    noted = replace(c1, registry=replace(c1.registry, managers=(*c1.registry.managers, "kubectl-annotate")))
    plan = plan_disconnect(MESH, {**clusters.facts(), "c1": noted}, None)
    (step,) = [s for s in _registry_steps(plan) if s.cluster == "c1"]
    assert isinstance(step.action, ApiWrite) and (step.verb, step.action.body["data"]) == ("patch", {"leases.json": None})


def test_who_is_no_member_any_more_gives_its_lease_up_with_the_next_connect() -> None:
    clusters = _members()
    clusters.run(_plan(clusters))
    rest = mesh_of("c1", "c2")
    facts = {host: cluster for host, cluster in clusters.facts().items() if host != "c3"}
    clusters.run(plan_links(rest, facts, PlanOptions(), NOW))
    known = mesh_registry(rest, {host: clusters.facts()[host] for host in ("c1", "c2")})
    assert known.active("c3") is None and known.released(3)


def test_ranges_of_a_lease_grow_and_never_shrink_while_it_lasts() -> None:
    c1 = cluster_facts("c1", config={"cluster-pool-ipv4-cidr": "10.0.0.0/9"})
    first = with_active_leases(Registry(mesh=OWNER), [c1])
    smaller = with_active_leases(first, [cluster_facts("c1")])
    assert smaller == first
    wider = with_active_leases(first, [cluster_facts("c1", config={"cluster-pool-ipv4-cidr": "10.0.0.0/8"})])
    assert wider.active("c1") is not None and [one.pod_cidrs for one in wider.leases] == [("10.0.0.0/8",)]
    assert merge((first, wider)) == wider


@given(st.permutations(("c1", "c2", "c3")), st.integers(0, 2))
def test_partial_writes_come_together_again(order: tuple[str, ...], done: int) -> None:
    clusters = _members()
    plan = _plan(clusters)
    clusters.run(plan, only=order[:done])
    for _ in itertools.repeat(None, 2):
        clusters.run(_plan(clusters))
    assert _plan(clusters).empty and len({facts.registry.text for facts in clusters.facts().values()}) == 1


def test_a_serial_never_grows_beyond_what_is_read_again() -> None:
    lease = Lease(host="c1", name="c1", id=1, serial=MAX_SERIAL)
    after = with_released(Registry(mesh="m", leases=(lease,)), ["c1"])
    text = write_registry(after).replace(TIME, "2026-09-01T12:00:00Z")
    assert parse_registry(text).leases[0].state is LeaseState.RELEASED
