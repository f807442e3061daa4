# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What becomes of the name and the id of each cluster, and the plan that gives new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.decide import (
    IdentityDecision,
    IdentityRequest,
    IdentityVerdict,
    decide,
    derived_name,
    has_usable_identity,
    legal_ids,
    reserved_leases,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.findings import foreign_leases, identity_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.plan import (
    RESTARTED_FOR,
    named_certificates,
    plan_assign,
    registry_after,
    registry_if_done,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import with_active_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    Lease,
    LeaseState,
    Registry,
    registry_name,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.etcd_config import valid_cluster_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    ClusterFacts,
    RemoteUsersFacts,
    WorkloadFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Minted
from tests.testing.facts_builders import NOW, agent_workload, cluster_facts, key_facts, mesh_of, peer_secret, tls_secret
from tests.testing.rows import one_test

EMPTY = Registry(mesh=mesh_of().binding.owner)
OPERATOR = WorkloadFacts(kind="Deployment", name="cilium-operator")


def fresh(host: str, **overrides: Any) -> ClusterFacts:
    """Installed with the chart's own name and id."""
    config = {"cluster-name": "default", "cluster-id": "0", **overrides.pop("config", {})}
    return cluster_facts(host, config=config, operator=OPERATOR, config_version="41", **overrides)


def decided(
    *clusters: ClusterFacts, registry: Registry = EMPTY, quarantine: int = 24, **requests: IdentityRequest
) -> dict[str, IdentityDecision]:
    facts = {cluster.host: cluster for cluster in clusters}
    found = decide(mesh_of(*facts), facts, registry, requests=requests, now=NOW, quarantine=timedelta(hours=quarantine))
    return {decision.host: decision for decision in found}


def leased(*leases: Lease) -> Registry:
    return EMPTY.with_leases(leases)


def released(id: int, hours: int) -> Lease:
    since = (NOW - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Lease(host="c9", name="c9", id=id, uid="u9", state=LeaseState.RELEASED, since=since)


C1, C2 = cluster_facts("c1"), cluster_facts("c2")


def test_what_runs_is_kept() -> None:
    found = decided(C1, C2, registry=with_active_leases(EMPTY, [C1]))
    assert [(d.verdict, d.name, d.id) for d in found.values()] == [(IdentityVerdict.LEASED, "c1", 1), (IdentityVerdict.ADOPT, "c2", 2)]


def test_a_new_cluster_gets_its_inventory_name_and_the_lowest_free_id() -> None:
    found = decided(C1, C2, fresh("c7"))
    assert (found["c7"].verdict, found["c7"].name, found["c7"].id) == (IdentityVerdict.ASSIGN, "c7", 3)


def test_two_new_ones_get_two_ids_and_two_names() -> None:
    found = decided(fresh("Edge.1"), fresh("edge-1"))
    assert {(d.name, d.id) for d in found.values()} == {("edge-1", 1), ("edge-1-2", 2)}
    assert any("becomes edge-1-2" in " ".join(d.reasons) for d in found.values())


def test_a_valid_name_that_the_user_chose_is_kept() -> None:
    assert decided(C1, fresh("c7", config={"cluster-name": "alpha"}))["c7"].name == "alpha"


@one_test(
    "lease quarantine id",
    (released(2, hours=1), 24, 3),
    (released(2, hours=25), 24, 2),
    (released(2, hours=1), 0, 2),
    (released(2, hours=30), 48, 3),
    (replace(released(2, hours=1), uid="uid-of-c7"), 24, 2),  # its own
    (replace(released(2, hours=999), state=LeaseState.DEAD), 24, 3),
    (replace(released(2, hours=23), state=LeaseState.RESERVED), 24, 3),
    (replace(released(2, hours=25), state=LeaseState.RESERVED), 24, 2),  # of no member, and never activated: the claim has ended
    (replace(released(2, hours=-2), state=LeaseState.RESERVED), 24, 2),  # of a time that no controller can have written
    (replace(released(2, hours=1), state=LeaseState.RESERVED, since=""), 24, 2),
    (replace(released(2, hours=999), state=LeaseState.ACTIVE, since=""), 24, 3),
)
def test_an_id_that_is_held_or_in_quarantine_is_not_handed_out(lease: Lease, quarantine: int, id: int) -> None:
    assert decided(C1, fresh("c7"), registry=leased(lease), quarantine=quarantine)["c7"].id == id


@pytest.mark.parametrize(
    ("config", "highest", "barred"),
    [
        ({}, 255, set()),
        ({"max-connected-clusters": "511"}, 511, set()),
        ({"ipam": "eni"}, 127, {128, 255}),
        ({"ipam": "alibabacloud", "max-connected-clusters": "511"}, 383, {128, 255, 384, 511}),
        ({"cni-chaining-mode": "aws-cni"}, 127, {128}),
    ],
)
def test_legal_ids(config: dict[str, str], highest: int, barred: set[int]) -> None:
    ids = list(legal_ids(cluster_facts("c1", config=config)))
    assert (ids[0], ids[-1]) == (1, highest) and not barred & set(ids) and ids == sorted(ids)


def test_without_a_legal_id_nothing_is_assigned_and_it_is_said() -> None:
    every = leased(*(Lease(host=f"h{n}", name=f"h{n}", id=n, uid=f"u{n}") for n in range(1, 128)))
    made = decided(C1, fresh("c7", config={"ipam": "eni"}), registry=every)["c7"]
    assert made.id is None and "in use or in quarantine" in made.reasons[-1]
    (finding,) = identity_findings([made], {"c7": fresh("c7")}, assign=True)
    assert (finding.code, finding.severity) == ("CM-LEASE-12", Severity.BLOCKING)


@one_test(
    "cluster",
    fresh("c7", kvstoremesh=True),
    replace(fresh("c7"), kvstoremesh=peer_secret("cilium-kvstoremesh", {"c1": key_facts("x", config="endpoints:")})),
    replace(fresh("c7"), clustermesh=peer_secret("cilium-clustermesh", {"c1.etcd-client.key": key_facts("x")})),
    replace(fresh("c7"), users=RemoteUsersFacts(present=True, users={"remote-c1": "remote"}, text="x")),
    replace(fresh("c7"), users=RemoteUsersFacts(present=True, problem="users.yaml is not YAML")),
    replace(fresh("c7"), config={"cluster-name": "C7", "cluster-id": "4"}),
)
def test_a_cluster_that_may_have_been_meshed_is_refused_with_the_recipe(cluster: ClusterFacts) -> None:
    made = decided(C1, cluster)["c7"]
    if cluster == fresh("c7", kvstoremesh=True):
        assert made.verdict is IdentityVerdict.ASSIGN, "an installation without peers was never meshed"
        return
    assert made.verdict is IdentityVerdict.REFUSE
    text = " ".join(made.recipe)
    assert all(word in text for word in ("disconnect", "cluster.name=", "admin-NAME", "Hubble", "cilium-operator", "connect"))
    assert text.index("cilium-operator") < text.index("daemonset/cilium") < text.index("deployment/clustermesh-apiserver")
    (finding,) = [f for f in identity_findings([made], {"c7": cluster}, assign=False) if f.code == "CM-LEASE-09"]
    assert finding.blocks and finding.fix.count("\n") >= 4


def test_a_cluster_with_an_active_lease_is_never_assigned_anew() -> None:
    registry = with_active_leases(EMPTY, [cluster_facts("c7")])
    assert decided(C1, fresh("c7"), registry=registry)["c7"].verdict is IdentityVerdict.REFUSE


def test_a_request_for_a_running_cluster_is_refused_and_for_a_new_one_granted() -> None:
    assert decided(C1, C2, c2=IdentityRequest(id=9))["c2"].verdict is IdentityVerdict.REFUSE
    assert decided(C1, C2, c2=IdentityRequest(name="c2", id=2))["c2"].verdict is IdentityVerdict.ADOPT
    made = decided(C1, fresh("c7"), c7=IdentityRequest(name="alpha", id=40))["c7"]
    assert (made.verdict, made.name, made.id) == (IdentityVerdict.ASSIGN, "alpha", 40)
    assert "c1 runs it" in decided(C1, fresh("c7"), c7=IdentityRequest(id=1))["c7"].reasons[-1]
    assert "c1 has it" in decided(C1, fresh("c7"), c7=IdentityRequest(name="c1"))["c7"].reasons[-1]


@pytest.mark.parametrize(
    "requested", [IdentityRequest(name="default"), IdentityRequest(name="No.Name"), IdentityRequest(id=256), IdentityRequest(id=0)]
)
def test_a_request_that_cilium_refuses_is_refused_at_once(requested: IdentityRequest) -> None:
    with pytest.raises(InvalidInput):
        decided(C1, fresh("c7"), c7=requested)


def test_a_request_for_a_stranger_is_a_mistake() -> None:
    with pytest.raises(InvalidInput, match="no member"):
        decided(C1, C2, c8=IdentityRequest(id=3))


def test_of_two_that_run_the_same_id_the_one_with_a_lease_keeps_it() -> None:
    twin = cluster_facts("c0", config={"cluster-id": "1"})
    found = decided(twin, C1, registry=with_active_leases(EMPTY, [C1]))
    assert (found["c1"].verdict, found["c0"].verdict) == (IdentityVerdict.LEASED, IdentityVerdict.REFUSE)


@pytest.mark.parametrize("holder", ["c5", "forests"])  # "rests" in a name once passed for a quarantine
def test_a_running_cluster_whose_id_is_leased_to_another_is_refused_whatever_the_other_is_called(holder: str) -> None:
    found = decided(C1, registry=leased(Lease(host=holder, name=holder, id=1, uid="u5")))
    assert found["c1"].verdict is IdentityVerdict.REFUSE and f"leased to {holder}" in found["c1"].reasons[0]


def test_a_running_cluster_keeps_an_id_that_is_in_quarantine() -> None:
    assert decided(C2, registry=leased(released(2, hours=1)))["c2"].verdict is IdentityVerdict.ADOPT


@given(st.text(max_size=60))
def test_every_inventory_name_becomes_a_valid_name(host: str) -> None:
    name = derived_name(host)
    assert valid_cluster_name(name) and name != "default"


@given(st.lists(st.sampled_from([*range(1, 12), 0, 300]), min_size=2, max_size=6), st.sets(st.integers(1, 8)))
def test_no_two_clusters_are_ever_given_the_same(ids: list[int], resting: set[int]) -> None:
    clusters = [fresh(f"n{i}") if not id else cluster_facts(f"c{i}", config={"cluster-id": str(id)}) for i, id in enumerate(ids)]
    found = decided(*clusters, registry=leased(*(replace(released(id, 1), host=f"g{id}", name=f"g{id}") for id in resting)))
    held = [d.id for d in found.values() if d.verdict is not IdentityVerdict.REFUSE]
    assert len(set(held)) == len(held)
    given_out = {d.id for d in found.values() if d.verdict is IdentityVerdict.ASSIGN}
    assert not given_out & (resting | {int(i) for i in ids})


# The plan


def planned(*clusters: ClusterFacts, registry: Registry = EMPTY) -> Iterable[tuple[int, str, str, str]]:
    facts = {cluster.host: cluster for cluster in clusters}
    mesh = mesh_of(*facts)
    plan = plan_assign(mesh, facts, decide(mesh, facts, registry, requests={}, now=NOW), registry)
    return [(s.wave, s.cluster, s.verb, s.object.rpartition("/")[2]) for s in plan.steps]


def test_claims_then_configuration_then_restarts_in_their_order() -> None:
    registry = registry_name(mesh_of().binding)
    assert planned(C1, C2, fresh("c7")) == [
        (0, "c1", "create", registry),
        (0, "c2", "create", registry),
        (0, "c7", "create", registry),
        (1, "c7", "patch", "cilium-config"),
        (1, "c7", "patch", "clustermesh-apiserver-admin-cert"),
        (1, "c7", "patch", "clustermesh-apiserver-local-cert"),
        (2, "c7", "patch", "cilium-operator"),
        (3, "c7", "patch", "cilium"),
        (4, "c7", "patch", "clustermesh-apiserver"),
    ]


def test_configuration_is_written_over_exactly_what_was_read_and_certificates_come_from_the_own_ca() -> None:
    cluster = fresh("c7", auth_mode="cluster")
    facts = {"c1": C1, "c7": cluster}
    plan = plan_assign(mesh_of(*facts), facts, decide(mesh_of(*facts), facts, EMPTY, requests={}, now=NOW), EMPTY)
    (config,) = [s.action for s in plan.steps if s.object.endswith("cilium-config")]
    assert isinstance(config, ApiWrite) and config.method == "merge"
    assert config.body == {"metadata": {"resourceVersion": "41"}, "data": {"cluster-name": "c7", "cluster-id": "2"}}
    minted = [s.action.secret_data["tls.crt"] for s in plan.steps if "Secret" in s.object and isinstance(s.action, ApiWrite)]
    assert [(m.issuer, m.common_name) for m in minted if isinstance(m, Minted)] == [
        ("c7", "admin-c7"),
        ("c7", "local-c7"),
        ("c7", "remote-c7"),
    ]


def test_a_run_that_stopped_goes_on_with_what_is_left() -> None:
    facts = {"c1": C1, "c7": fresh("c7")}
    claimed = registry_after(decide(mesh_of(*facts), facts, EMPTY, requests={}, now=NOW), facts, EMPTY)
    done = {RESTARTED_FOR: "c7.2"}
    half = cluster_facts("c7", config={"cluster-id": "2"}, operator=replace(OPERATOR, pod_annotations=done))
    assert [row[1:] for row in planned(C1, half, registry=claimed) if row[0] > 0] == [
        ("c7", "patch", "cilium"),
        ("c7", "patch", "clustermesh-apiserver"),
    ]
    agent = replace(agent_workload("1.18.11"), pod_annotations=done)
    assert half.apiserver is not None
    whole = replace(half, agent=agent, apiserver=replace(half.apiserver, pod_annotations=done))
    assert [row for row in planned(C1, whole, registry=claimed) if row[0] > 0] == []
    found = decided(C1, whole, registry=claimed)
    assert found["c7"].verdict is IdentityVerdict.RESUME
    ended = registry_if_done(found.values(), {"c1": C1, "c7": whole}, claimed)
    assert ended.claim("c7") is None and ended.active("c7") is not None


def test_claims_made_in_vain_are_given_up_when_the_cluster_runs_another() -> None:
    vain = [Lease(host="c7", name="c7", id=id, uid="uid-of-c7", state=LeaseState.RESERVED, serial=id) for id in (4, 5)]
    runs = cluster_facts("c7", config={"cluster-id": "5"})
    found = decided(C1, runs, registry=leased(*vain))
    ended = registry_if_done(found.values(), {"c1": C1, "c7": runs}, leased(*vain))
    assert {(one.id, one.state) for one in ended.leases if one.host == "c7"} == {(4, LeaseState.RELEASED), (5, LeaseState.ACTIVE)}


def test_the_same_claim_is_kept_as_it_stands() -> None:
    facts = {"c1": C1, "c7": fresh("c7")}
    first = reserved_leases(decided(*facts.values()).values(), facts, EMPTY)
    again = reserved_leases(decided(*facts.values(), registry=leased(*first)).values(), facts, leased(*first))
    assert again == first


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        (
            {"admin_cert": tls_secret("clustermesh-apiserver-admin-cert", "admin-default", signer="Cilium CA of c7", owner="cert-manager")},
            "cert-man",
        ),
        ({"admin_cert": tls_secret("clustermesh-apiserver-admin-cert", "admin-default", signer="another")}, "another CA"),
        ({"ca": replace(fresh("c7").ca, has_key=False)}, "no CA key"),
        ({}, ""),
    ],
)
def test_a_certificate_that_cannot_be_issued_here_blocks_before_anything_is_written(change: dict[str, Any], obstacle: str) -> None:
    cluster = replace(fresh("c7"), **change)
    named = named_certificates(cluster, "c7")[0]
    assert (named.secret, named.common_name) == ("clustermesh-apiserver-admin-cert", "admin-c7")
    assert obstacle in named.obstacle and bool(named.obstacle) is bool(obstacle)
    findings = identity_findings(decided(C1, cluster).values(), {"c1": C1, "c7": cluster}, assign=True)
    assert any(f.code == "CM-LEASE-11" and f.blocks for f in findings) is bool(obstacle)


@pytest.mark.parametrize(("name", "wanted", "kept"), [("default", "", False), ("c7", "", True), ("c7", "c7-new", False)])
def test_a_cluster_whose_name_stays_keeps_the_identities_of_its_pods_and_that_is_said(name: str, wanted: str, kept: bool) -> None:
    cluster = fresh("c7", config={"cluster-name": name})
    for assign in (True, False):
        made = decided(C1, cluster, c7=IdentityRequest(name=wanted)).values()
        (found,) = [f for f in identity_findings(made, {"c1": C1, "c7": cluster}, assign=assign) if f.code == "CM-LEASE-10"]
        assert (found.severity is Severity.REMEDIABLE) is ("keep their identities" in found.summary) is kept
        assert ("cluster_identity_names={c7: {name: NEW_NAME}}" in found.fix) is kept


@pytest.mark.parametrize("marks", [{"app.kubernetes.io/managed-by": "Helm"}, {"argocd.argoproj.io/instance": "cilium"}, {}])
def test_the_tool_that_declares_the_installation_has_to_be_changed(marks: dict[str, str]) -> None:
    cluster = replace(fresh("c7"), config_labels=marks, config_annotations={})
    findings = [
        f for f in identity_findings(decided(C1, cluster).values(), {"c1": C1, "c7": cluster}, assign=True) if f.code == "CM-LEASE-08"
    ]
    assert len(findings) == bool(marks)
    assert all("cluster.id=2" in f.fix and "cluster.name=c7" in f.fix for f in findings)


def test_another_binding_that_leases_something_else_is_found() -> None:
    other = mesh_of("c1", name="other").binding
    text = write_registry(Registry(mesh=other.owner, leases=(Lease(host="x", name="c1", id=40, uid="uid-of-c1"),)))
    mesh, facts = mesh_of("c1", "c2"), {"c1": C1, "c2": C2}
    (finding,) = foreign_leases(mesh, facts, {"c1": {registry_name(other): text}})
    assert (finding.code, finding.cluster) == ("CM-LEASE-07", "c1")
    same = write_registry(Registry(mesh=other.owner, leases=(Lease(host="x", name="c1", id=1, uid="uid-of-c1"),)))
    for harmless in (same, "not JSON", text.replace("uid-of-c1", "u")):
        assert not list(foreign_leases(mesh, facts, {"c1": {registry_name(other): harmless}}))
    assert not list(foreign_leases(mesh, facts, {"c1": {registry_name(mesh.binding): text}}))


def test_default_and_zero_are_not_established() -> None:
    assert has_usable_identity(C1) and not has_usable_identity(fresh("c7"))
    assert not has_usable_identity(cluster_facts("c1", config={"cluster-id": "300"}))


def test_the_id_that_a_refused_cluster_runs_is_not_handed_out() -> None:
    found = decided(cluster_facts("c1"), fresh("c7"), c1=IdentityRequest(id=9))
    assert (found["c1"].verdict, found["c7"].id) == (IdentityVerdict.REFUSE, 2)


def test_nothing_is_assigned_while_a_member_is_silent_of_which_nothing_is_on_record() -> None:
    def with_c2_silent(registry: Registry) -> IdentityDecision:
        facts = {"c1": C1, "c7": fresh("c7")}
        return decide(mesh_of("c1", "c2", "c7"), facts, registry, requests={"c7": IdentityRequest(id=9)}, now=NOW)[1]

    unknown = with_c2_silent(with_active_leases(EMPTY, [C1]))
    assert unknown.id is None and "c2 not answering, and not on record" in unknown.reasons[-1]
    assert [f.code for f in identity_findings([unknown], {"c7": fresh("c7")}, assign=True) if f.blocks] == ["CM-LEASE-12"]
    assert with_c2_silent(with_active_leases(EMPTY, [C1, C2])).id == 9
