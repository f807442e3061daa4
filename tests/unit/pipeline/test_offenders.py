# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A member that takes what is another's, or reports what no cluster can dial, loses its own links and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import LeaseState, Registry, lease_of, write_registry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, RegistryFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import OWNER_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.judgement import RunJudgement, judge_without_offenders
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from tests.testing.facts_builders import cluster_facts, context_of, mesh_of
from tests.testing.properties import examples

HOSTS = ("c1", "c2", "c3", "c4")
BAD = "c4"
MESH = mesh_of(*HOSTS)
SOUND = Registry(mesh=MESH.binding.owner, leases=tuple(lease_of(cluster_facts(host)) for host in HOSTS))
IMPOSSIBLE = ("127.0.0.1", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1")


def keeping(cluster: ClusterFacts, registry: Registry = SOUND) -> ClusterFacts:
    owner = registry.mesh
    text = write_registry(registry)
    return replace(cluster, registry=RegistryFacts(present=True, uid="r", resource_version="1", text=text, labels={OWNER_LABEL: owner}))


def load_balancer(address: str) -> ServiceFacts:
    return ServiceFacts(type="LoadBalancer", cluster_ip="10.96.4.10", ingress_ips=(address,), node_port=30004)


def world(bad: ClusterFacts, registry: Registry | None = SOUND, order: tuple[str, ...] = HOSTS) -> CheckContext:
    clusters = {host: bad if host == BAD else cluster_facts(host) for host in order}
    kept = {host: keeping(cluster, registry) if registry is not None else cluster for host, cluster in clusters.items()}
    return context_of(*kept.values(), mesh=mesh_of(*order))


def judged(context: CheckContext) -> RunJudgement:
    return judge_without_offenders(context, ConnectOptions())


def assert_only_its_own_links_are_lost(made: RunJudgement) -> None:
    assert made.plan is not None and made.excluded == (BAD,)
    innocent = set(HOSTS) - {BAD}
    assert {(link.cluster, link.peer) for link in made.plan.links} == {(a, b) for a in innocent for b in innocent if a != b}
    assert made.plan.steps and {step.cluster for step in made.plan.steps} == innocent
    secrets = [step.action for step in made.plan.steps if isinstance(step.action, ApiWrite) and step.action.secret_data]
    assert {key for action in secrets for key in action.secret_data if not key.endswith((".crt", ".key"))} <= innocent
    blocking = [finding for finding in made.findings if finding.blocks]
    assert blocking and {finding.cluster for finding in blocking} == {BAD}, "it is not as asked, and the findings say whose fault it is"


THEFTS: Mapping[str, tuple[dict[str, Any], str]] = {
    "the name of another": ({"config": {"cluster-name": "c1"}}, "CM-ID-04"),
    "the id of another": ({"config": {"cluster-id": "1"}}, "CM-ID-05"),
    "both": ({"config": {"cluster-name": "c1", "cluster-id": "1"}}, "CM-ID-04"),
    "a free name": ({"config": {"cluster-name": "free"}}, "CM-LEASE-01"),
    "a name that none may have": ({"config": {"cluster-name": "a_b"}}, "CM-ID-02"),
    "an id that none may have": ({"config": {"cluster-id": "999"}}, "CM-ID-03"),
    "the uid of another": ({"uid": cluster_facts("c1").uid}, "CM-LEASE-02"),
}


@pytest.mark.parametrize("theft", THEFTS)
@pytest.mark.parametrize("order", [HOSTS, HOSTS[::-1]])
def test_a_member_that_takes_what_is_anothers_loses_its_own_links_and_no_other(theft: str, order: tuple[str, ...]) -> None:
    changed, code = THEFTS[theft]
    made = judged(world(cluster_facts(BAD, **changed), order=order))
    assert_only_its_own_links_are_lost(made)
    assert code in {finding.code for finding in made.findings if finding.blocks}


@pytest.mark.parametrize("address", IMPOSSIBLE)
@pytest.mark.parametrize("registry", [SOUND, None], ids=["a mesh with leases", "a first connect"])
def test_a_member_that_reports_an_impossible_address_loses_its_own_links_and_no_other(address: str, registry: Registry | None) -> None:
    made = judged(world(cluster_facts(BAD, service=load_balancer(address)), registry))
    assert_only_its_own_links_are_lost(made)


@examples(60)
@given(
    name=st.sampled_from([*HOSTS, "free", "", "default", "a_b", "../x"]),
    id=st.sampled_from(["1", "2", "4", "9", "0", "999", "x", ""]),
    uid=st.sampled_from(["", "another", *(cluster_facts(host).uid for host in HOSTS)]),
    address=st.sampled_from(["198.51.100.4", *IMPOSSIBLE]),
)
def test_whatever_one_member_says_of_itself_the_links_among_the_others_are_planned(name: str, id: str, uid: str, address: str) -> None:
    bad = cluster_facts(BAD, config={"cluster-name": name, "cluster-id": id}, uid=uid, service=load_balancer(address))
    made = judged(world(bad))
    assert made.plan is not None
    innocent = set(HOSTS) - {BAD}
    assert {(link.cluster, link.peer) for link in made.plan.links} >= {(a, b) for a in innocent for b in innocent if a != b}
    if made.excluded:
        assert_only_its_own_links_are_lost(made)


@pytest.mark.parametrize("key", ["cluster-name", "cluster-id"])
def test_where_no_lease_says_who_holds_a_name_or_an_id_no_link_is_written(key: str) -> None:
    """On a first connect nothing says which of two clusters is in the wrong."""
    value = {"cluster-name": "c1", "cluster-id": "1"}[key]
    made = judged(world(cluster_facts(BAD, config={key: value}), None))
    assert made.plan is None and made.excluded == () and any(finding.blocks for finding in made.findings)


def test_a_newcomer_that_has_the_id_of_a_member_is_left_out_until_it_has_another() -> None:
    known = replace(SOUND, leases=tuple(lease for lease in SOUND.leases if lease.host != BAD))
    made = judged(world(cluster_facts(BAD, config={"cluster-id": "2"}), known))
    assert_only_its_own_links_are_lost(made)


def test_a_returning_cluster_that_differs_from_its_tombstone_keeps_the_others_from_nothing() -> None:
    dead = [replace(lease, state=LeaseState.DEAD, ca="0" * 64, serial=2) if lease.host == BAD else lease for lease in SOUND.leases]
    made = judged(world(cluster_facts(BAD), replace(SOUND, leases=tuple(dead))))
    assert_only_its_own_links_are_lost(made)


def test_a_finding_about_others_still_blocks_all() -> None:
    context = world(cluster_facts(BAD, config={"cluster-name": "c1"}))
    facts = {**context.facts, "c2": keeping(cluster_facts("c2", config={"identity-allocation-mode": "no"}))}
    made = judged(replace(context, decisions=context.decisions.with_facts(facts)))
    assert made.plan is None and made.excluded == ()
    assert {"c2", BAD} <= {finding.cluster for finding in made.findings if finding.blocks}


def test_of_two_members_none_is_left_to_be_linked() -> None:
    facts = {
        host: keeping(cluster) for host, cluster in (("c1", cluster_facts("c1")), ("c2", cluster_facts("c2", config={"cluster-id": "1"})))
    }
    made = judged(context_of(*facts.values(), mesh=mesh_of("c1", "c2")))
    assert made.plan is None
