# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One member's copy of the leases decides nothing about another member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.agreement import agreed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import registry_after_connect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    KEY,
    MAX_SERIAL,
    Lease,
    LeaseState,
    Registry,
    RegistryProblem,
    lease_of,
    merge,
    parse_registry,
    precedence,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, RegistryFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import OWNER_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, context_of, failure, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples

HOSTS = ("c1", "c2", "c3", "c4")
MESH = mesh_of(*HOSTS)
OWNER = MESH.binding.owner
CLUSTERS = {host: cluster_facts(host, version="1.20.0") for host in HOSTS}
SOUND = Registry(mesh=OWNER, leases=tuple(lease_of(cluster) for cluster in CLUSTERS.values()))
BAD = "c4"
SINCE = "2026-08-01T00:00:00Z"

NAMES = st.sampled_from([*HOSTS, "ghost"])
LEASES = st.builds(
    Lease,
    host=NAMES,
    name=NAMES,
    id=st.integers(1, 5),
    uid=st.sampled_from(["", "another", *(cluster.uid for cluster in CLUSTERS.values())]),
    state=st.sampled_from(LeaseState),
    since=st.sampled_from(["", SINCE, NOW.strftime("%Y-%m-%dT%H:%M:%SZ")]),
    serial=st.sampled_from([1, 2, 7, MAX_SERIAL]),
)
REGISTRIES = st.lists(LEASES, max_size=8).map(lambda leases: merge([Registry(mesh=OWNER, leases=tuple(leases))], OWNER))


def keeping(cluster: ClusterFacts, copy: Registry) -> ClusterFacts:
    facts = RegistryFacts(present=True, uid="r", resource_version="1", text=write_registry(copy), labels={OWNER_LABEL: OWNER})
    return replace(cluster, registry=facts)


def world(bad: Registry, good: Registry = SOUND) -> dict[str, ClusterFacts]:
    return {host: keeping(cluster, bad if host == BAD else good) for host, cluster in CLUSTERS.items()}


def dead(host: str, serial: int = MAX_SERIAL) -> Lease:
    return replace(lease_of(CLUSTERS[host]), state=LeaseState.DEAD, since=SINCE, serial=serial)


@given(REGISTRIES)
@examples(40)
def test_no_copy_of_one_member_makes_a_finding_block_that_names_another(bad: Registry) -> None:
    facts = world(bad)
    findings = run_checks(context_of(*facts.values(), mesh=MESH))
    assert [f for f in findings if f.blocks] == []
    assert {f.cluster for f in findings if f.code == "CM-LEASE-16"} <= {BAD}
    plan = plan_links(MESH, facts, PlanOptions(), NOW)
    innocent = set(HOSTS) - {BAD}
    assert {(link.cluster, link.peer) for link in plan.links} >= {(a, b) for a in innocent for b in innocent if a != b}
    after = registry_after_connect(MESH, facts)
    assert {host: after.active(host) for host in HOSTS} == {host: SOUND.active(host) for host in HOSTS}
    assert not [step for step in plan.steps if step.cluster in innocent and "ConfigMap kube-system/cilium-mesh-" in step.object]


@pytest.mark.parametrize(
    "claim",
    [
        dead("c1"),
        replace(lease_of(CLUSTERS["c1"]), uid="another", serial=MAX_SERIAL),
        Lease(host="ghost", name="ghost", id=1, state=LeaseState.RESERVED, serial=MAX_SERIAL),
    ],
)
def test_a_forged_claim_is_reported_on_its_writer_ignored_and_overwritten(claim: Lease) -> None:
    facts = world(SOUND.with_leases([claim]))
    (finding,) = [f for f in run_checks(context_of(*facts.values(), mesh=MESH)) if f.code.startswith(("CM-LEASE", "CM-TOMB"))]
    assert (finding.code, finding.cluster, finding.blocks) == ("CM-LEASE-16", BAD, False)
    writes = [s for s in plan_links(MESH, facts, PlanOptions(), NOW).steps if "ConfigMap kube-system/cilium-mesh-" in s.object]
    assert [step.cluster for step in writes] == [BAD]


@pytest.mark.parametrize(("key", "value", "code"), [("cluster-name", "c1", "CM-ID-04"), ("cluster-id", "1", "CM-ID-05")])
def test_a_member_that_takes_the_name_or_id_of_another_is_the_one_that_the_finding_is_about(key: str, value: str, code: str) -> None:
    thief = cluster_facts("c2", config={key: value})
    facts = {**world(SOUND), "c2": keeping(thief, SOUND)}
    turned = mesh_of("c1", "c4", "c3", "c2"), mesh_of("c2", "c1", "c3", "c4")
    for mesh in turned:
        found = [f for f in run_checks(context_of(*(facts[host] for host in mesh.clusters), mesh=mesh)) if f.blocks]
        assert {f.cluster for f in found} == {"c2"} and code in {f.code for f in found}


def test_a_tombstone_that_two_others_hold_counts_and_one_of_a_single_other_does_not() -> None:
    without = Registry(mesh=OWNER, leases=tuple(lease for lease in SOUND.leases if lease.host != "c1"))
    buried = without.with_leases([replace(dead("c1", serial=2), ca="0" * 64)])
    back = {host: keeping(cluster, buried) for host, cluster in CLUSTERS.items() if host != "c1"} | {"c1": CLUSTERS["c1"]}
    codes = {f.code for f in run_checks(context_of(*(back[host] for host in HOSTS), mesh=MESH)) if f.blocks}
    assert "CM-TOMB-01" in codes
    alone = back | {host: keeping(CLUSTERS[host], without) for host in ("c2", "c3")}
    assert not {f.code for f in run_checks(context_of(*(alone[host] for host in HOSTS), mesh=MESH)) if f.blocks and "TOMB" in f.code}


@given(st.lists(REGISTRIES, min_size=3, max_size=5), st.randoms())
def test_the_agreement_is_the_latest_version_that_two_copies_hold(copies: list[Registry], random: object) -> None:
    found = agreed(copies, OWNER, 2)
    versions: Mapping[tuple[str, str, int], list[tuple[object, ...]]] = {
        key: sorted((precedence(lease) for copy in copies for lease in copy.leases if lease.key == key), reverse=True)
        for key in {lease.key for copy in copies for lease in copy.leases}
    }
    assert {lease.key: precedence(lease) for lease in found.leases} == {key: v[1] for key, v in versions.items() if len(v) > 1}
    assert agreed(copies[::-1], OWNER, 2) == found
    assert agreed([found] * 3, OWNER, 2) == found
    assert agreed(copies, OWNER, 1) == merge(copies, OWNER)


@given(REGISTRIES)
@examples(40)
def test_while_a_member_is_silent_no_copy_blocks_another_member_and_none_changes_another_copy(bad: Registry) -> None:
    """Of three members one does not answer, so that two copies can be read and nothing shows which is wrong."""
    mesh = mesh_of("c1", "c2", BAD)
    facts = {host: cluster for host, cluster in world(bad).items() if host in ("c1", BAD)}
    silent = replace(context_of(*facts.values(), mesh=mesh, failures=[failure("c2")]), tolerated=frozenset(["c2"]))
    findings = run_checks(silent)
    assert {(f.code, f.cluster) for f in findings if f.blocks} <= {("CM-LEASE-16", BAD)}
    assert {f.cluster for f in findings if f.code == "CM-LEASE-16"} <= {BAD, "c1"}
    steps = [step for step in plan_links(mesh, facts, PlanOptions(), NOW).steps if "ConfigMap kube-system/cilium-mesh-" in step.object]
    written = {step.cluster: parse_registry(step.action.body["data"][KEY]) for step in steps if isinstance(step.action, ApiWrite)}
    assert set(written) <= {BAD}, "what is known is lost in no copy, and what one copy says reaches no other"
    for copy in written.values():
        held = {lease.key: precedence(lease) for lease in copy.leases}
        assert all(held[lease.key] >= precedence(lease) for lease in bad.leases)


def test_a_forged_death_while_a_member_is_silent_is_reported_on_its_writer() -> None:
    """To connect a member that may be dead could let a stranger in, so the finding on the writer blocks until the user vouches for it."""
    mesh = mesh_of("c1", "c2", BAD)
    forgeries = (
        (replace(dead("c1"), ca="0" * 64), True),
        (dead("c1"), False),
        (replace(lease_of(CLUSTERS["c1"]), uid="another", serial=9), False),
    )
    for forged, blocks in forgeries:
        facts = {host: cluster for host, cluster in world(SOUND.with_leases([forged])).items() if host in ("c1", BAD)}
        context = replace(context_of(*facts.values(), mesh=mesh, failures=[failure("c2")]), tolerated=frozenset(["c2"]))
        found = [f for f in run_checks(context) if f.code.startswith(("CM-LEASE", "CM-TOMB"))]
        assert [(f.code, f.cluster, f.blocks) for f in found] == [("CM-LEASE-16", BAD, blocks)]
        vouched = run_checks(replace(context, take_back=frozenset(["c1"])))
        assert not [f for f in vouched if f.blocks]


def test_a_stranger_in_the_place_of_a_dead_cluster_is_not_connected_while_one_copy_alone_remembers_the_death() -> None:
    buried = Registry(mesh=OWNER, leases=(lease_of(CLUSTERS["c1"]), replace(dead(BAD), ca="0" * 64)))
    stranger = keeping(CLUSTERS[BAD], Registry(mesh=OWNER, leases=(lease_of(CLUSTERS[BAD]),)))
    context = context_of(keeping(CLUSTERS["c1"], buried), stranger, mesh=mesh_of("c1", "c2", BAD), failures=[failure("c2")])
    found = [f for f in run_checks(replace(context, tolerated=frozenset(["c2"]))) if f.blocks]
    assert [(f.code, f.cluster) for f in found] == [("CM-LEASE-16", "c1")]


def test_a_copy_that_a_part_of_the_mesh_shares_with_one_other_member_condemns_it_no_more_than_elsewhere() -> None:
    """With a topology of pairs, a check of names and ids looks at one pair."""
    forged = Lease(host="ghost", name="ghost", id=1, state=LeaseState.RESERVED, since=SINCE, serial=MAX_SERIAL)
    facts = world(SOUND.with_leases([replace(forged, since=NOW.strftime("%Y-%m-%dT%H:%M:%SZ"))]))
    mesh = mesh_of(*HOSTS, topology=Topology(mode=Mode.PAIRS, pairs=(("c1", BAD), ("c2", "c3"))))
    assert [f for f in run_checks(context_of(*facts.values(), mesh=mesh)) if f.blocks] == []


def test_a_serial_beyond_all_changes_makes_a_copy_unreadable_and_nothing_else() -> None:
    text = write_registry(SOUND.with_leases([dead("c1")])).replace(str(MAX_SERIAL), str(2**53))
    with pytest.raises(RegistryProblem):
        parse_registry(text)
