# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every rule of upgrades has facts for which it speaks and facts for which it is silent, and begins with its own minor alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    ClusterFacts,
    HostAlias,
    RemoteUsersFacts,
    TlsSecretFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.gitops import KEEP
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import KNOWN, RULES, Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.effect import Effect, Need
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.rules import UPGRADE_RULES, HopContext, effects_of
from tests.testing.facts_builders import (
    HELM_ANNOTATIONS,
    HELM_LABELS,
    NOW,
    agent_workload,
    apiserver_workload,
    certificate,
    cluster_facts,
    key_facts,
    peer_secret,
    tls_secret,
)
from tests.testing.policy_worlds import policy_facts
from tests.testing.rows import in_one_test
from tests.testing.traffic_builders import namespace_facts, traffic

ALIASES = [HostAlias(ip="192.0.2.2", hostnames=("c2.mesh.cilium.io",))]
COMMON = "endpoints:\n- https://clustermesh-apiserver.kube-system.svc:2379\ncert-file: /var/lib/cilium/clustermesh/common-etcd-client.crt\n"
OLD_NAME = "endpoints:\n- https://clustermesh-apiserver.cilium.io:2379\n"
HELM_USERS = RemoteUsersFacts(present=True, text="users:\n", labels=HELM_LABELS, annotations=HELM_ANNOTATIONS)
CERTGEN = tls_secret("clustermesh-apiserver-server-cert", "x", signer="Cilium CA of c1", owner="certgen")


def policy(**rule: Any) -> TrafficFacts:
    spec = {"endpointSelector": {}, "ingress": [rule]}
    found = policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "p", "namespace": "shop"}, "spec": spec})
    return traffic("c1", policies=(found,))


def old(minor: str, **fields: Any) -> ClusterFacts:
    return cluster_facts("c1", version=f"{minor}.3", **fields)


def short_ca(days: int) -> ClusterFacts:
    facts = old("1.19", server_cert=CERTGEN)
    return replace(facts, ca=replace(facts.ca, certificates=(certificate("Cilium CA of c1", days=days),)))


HIDDEN = traffic("c1", namespaces=[replace(namespace_facts("shop"), annotations={"clustermesh.cilium.io/global": "false"})])
DIALLING = {
    "c2": replace(cluster_facts("c2"), kvstoremesh=peer_secret("cilium-kvstoremesh", {"c1": key_facts("x", config=OLD_NAME)})),
}
MCS = {"clustermesh-enable-mcs-api": "true"}
SPEAKS: Mapping[str, list[tuple[ClusterFacts, TrafficFacts | None, Mapping[str, ClusterFacts], Need]]] = {
    "kvstoremesh_by_default": [(old("1.15", kvstoremesh=False), None, {}, Need.WITH)],
    "local_certificate_used": [
        (old("1.16", local_cert=TlsSecretFacts(name="clustermesh-apiserver-local-cert")), None, {}, Need.BEFORE),
        (old("1.16", clustermesh=peer_secret("cilium-clustermesh", {"c2": key_facts("x", config=COMMON)})), None, {}, Need.AFTER),
    ],
    "strict_cluster_names": [(old("1.16", config={"cluster-name": "Cluster_1"}), None, {}, Need.BEFORE)],
    "remote_users_need_config": [
        (old("1.18"), None, {}, Need.AFTER),
        (old("1.18", auth_mode="migration", users=HELM_USERS), None, {}, Need.BEFORE),
    ],
    "users_by_default": [(old("1.18"), None, {}, Need.NOTHING)],
    "mutual_authentication_off": [
        (old("1.18", config={"mesh-auth-enabled": "true"}), policy(authentication={"mode": "required"}), {}, Need.WITH)
    ],
    "required_labels": [(old("1.18"), policy(fromRequires=[{"matchLabels": {"a": "b"}}]), {}, Need.BEFORE)],
    "namespace_identities": [(old("1.18"), HIDDEN, {}, Need.BEFORE)],
    "mcs_crds_installed": [(old("1.18", config=MCS), None, {}, Need.NOTHING)],
    "mcs_old_value_removed": [(old("1.19", config=MCS), None, {}, Need.WITH)],
    "aliases_in_config": [(old("1.19", apiserver=apiserver_workload("1.19.3", aliases=ALIASES)), None, {}, Need.AFTER)],
    "namespace_filter": [(old("1.19"), HIDDEN, {}, Need.BEFORE)],
    "server_name_left_out": [(old("1.19"), None, DIALLING, Need.WITH)],
    "leaves_last_a_year": [(old("1.19"), None, {}, Need.NOTHING)],
    "ca_outlives_leaves": [(short_ca(364), None, {}, Need.BEFORE)],
    "proxylib_removed": [(old("1.19"), policy(toPorts=[{"rules": {"kafka": [{"role": "produce"}]}}]), {}, Need.BEFORE)],
}
KEPT = replace(HELM_USERS, annotations={**HELM_ANNOTATIONS, KEEP: "keep"})
SILENT: Mapping[str, tuple[ClusterFacts, TrafficFacts | None]] = {
    "kvstoremesh_by_default": (old("1.15"), None),
    "local_certificate_used": (old("1.16", kvstoremesh=False), None),
    "strict_cluster_names": (old("1.16"), None),
    "remote_users_need_config": (old("1.18", auth_mode="migration", users=KEPT), None),
    "users_by_default": (old("1.18", auth_mode="migration"), None),
    "mutual_authentication_off": (old("1.18", config={"mesh-auth-enabled": "true"}), policy(authentication={"mode": "disabled"})),
    "required_labels": (old("1.18"), policy(fromEndpoints=[{"matchLabels": {"fromRequires": "x"}}])),
    "namespace_identities": (old("1.18"), traffic("c1", namespaces=[namespace_facts("shop")])),
    "mcs_crds_installed": (old("1.18"), None),
    "mcs_old_value_removed": (old("1.19"), None),
    "aliases_in_config": (old("1.19", agent=agent_workload("1.19.3")), None),
    "namespace_filter": (old("1.19"), traffic("c1", namespaces=[namespace_facts("shop")])),
    "server_name_left_out": (old("1.19"), None),
    "leaves_last_a_year": (old("1.19", server_cert=CERTGEN), None),
    "ca_outlives_leaves": (short_ca(366), None),
    "proxylib_removed": (old("1.19"), policy(fromEndpoints=[{"matchLabels": {"kafka": "x", "l7": "y"}}])),
}


def effects(name: str, facts: ClusterFacts, objects: TrafficFacts | None, others: Mapping[str, ClusterFacts], after: Minor) -> list[Effect]:
    context = HopContext(cluster=facts, after=after, facts={"c1": facts, **others}, traffic=objects, now=NOW)
    return [effect for effect in effects_of(context) if effect.rule == name]


@in_one_test
@pytest.mark.parametrize("rule", UPGRADE_RULES, ids=lambda rule: rule.name)
def test_each_rule_speaks_where_it_applies_with_what_to_do_and_is_silent_where_not(rule: Any) -> None:
    for facts, objects, others, need in SPEAKS[rule.name]:
        (effect,) = effects(rule.name, facts, objects, others, rule.since)
        assert effect.need is need and effect.cluster == "c1" and effect.source == RULES[rule.name].source
        assert len(effect.summary) > 30
        assert effect.values if need is Need.WITH else (effect.commands or need is Need.NOTHING)
        for other in KNOWN.minors:
            assert other == rule.since or effects(rule.name, facts, objects, others, other) == []
    facts, objects = SILENT[rule.name]
    assert effects(rule.name, facts, objects, {}, rule.since) == []


def test_the_tables_have_every_rule() -> None:
    names = [rule.name for rule in UPGRADE_RULES]
    assert len(set(names)) == len(names)
    assert set(SPEAKS) == set(SILENT) == set(names)
    assert all(rule.since in KNOWN and rule.title for rule in UPGRADE_RULES)


def test_users_that_the_chart_renders_with_the_peers_need_nothing() -> None:
    """Made by hand they would even stop Helm: it imports no object of another owner."""
    facts = old("1.18", clustermesh=peer_secret("cilium-clustermesh", helm=True))
    assert effects("remote_users_need_config", facts, None, {}, Minor(1, 19)) == []


def test_a_ca_that_ends_in_a_year_is_named_with_its_day() -> None:
    (effect,) = effects("ca_outlives_leaves", short_ca(30), None, {}, Minor(1, 20))
    assert str((NOW + timedelta(days=30)).date()) in effect.summary


@pytest.mark.parametrize(("users", "speaks"), [(True, True), (False, False)])
def test_links_that_a_helm_upgrade_takes_are_to_be_handed_over_first(users: bool, speaks: bool) -> None:
    """Helm's values name a peer, so keys stay; users are one text, which Helm writes whole."""
    keys = {"c2": key_facts("x", managers=["cilium"]), "c3": key_facts("y", managers=["cilium-mesh.edge-portal.eu/1"])}
    secret = peer_secret("cilium-clustermesh", keys, helm=True)
    facts = old("1.18", clustermesh=secret, auth_mode="migration" if users else "legacy")
    context = HopContext(cluster=facts, after=Minor(1, 19), facts={"c1": facts}, traffic=None, now=NOW, first=True)
    found = [effect for effect in effects_of(context) if effect.rule == "helm_upgrade"]
    assert bool(found) is speaks
    assert not speaks or "adopt" in found[0].commands[0]
    assert [e for e in effects_of(replace(context, first=False)) if e.rule == "helm_upgrade"] == []
