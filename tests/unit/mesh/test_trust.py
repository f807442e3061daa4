# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which certificate a cluster shows to a peer, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import TrustMode
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import CaSecretFacts, ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.link_trust import (
    Trust,
    TrustProblem,
    TrustSide,
    anchor,
    trust_between,
)
from tests.testing.facts_builders import NOW, certificate, cluster_facts, tls_secret


def _trust(local: ClusterFacts, peer: ClusterFacts, **options: Any) -> Trust:
    found = trust_between(TrustSide(local, NOW), TrustSide(peer, NOW), **options)
    assert isinstance(found, Trust), found
    return found


def _without_ca_key(facts: ClusterFacts) -> ClusterFacts:
    return replace(facts, ca=replace(facts.ca, has_key=False, key_matches=None))


def test_clusters_of_one_ca_need_no_keys_per_peer() -> None:
    trust = _trust(cluster_facts("c1", ca="shared"), cluster_facts("c2", ca="shared"))
    assert trust.mode is TrustMode.SAME_CA and trust.common_name == "remote" and "shared" in trust.reason


def test_a_ca_made_anew_from_the_same_key_is_the_same_ca() -> None:
    peer = cluster_facts("c2", ca="shared")
    renewed = replace(certificate("shared"), fingerprint="f" * 64)
    assert (
        _trust(cluster_facts("c1", ca="shared"), replace(peer, server_cert=replace(peer.server_cert, ca=(renewed,)))).mode
        is TrustMode.SAME_CA
    )


def test_what_signed_the_server_certificate_counts_and_not_what_lies_in_cilium_ca() -> None:
    """A CA that was copied into cilium-ca after the installation has signed nothing yet."""
    local, peer = cluster_facts("c1", ca="shared"), cluster_facts("c2")
    peer = replace(peer, ca=local.ca)
    trust = _trust(local, peer)
    assert trust.mode is TrustMode.COPIED  # not same_ca; and minting from the copied CA would give nothing that peer's etcd trusts


def test_clusters_of_different_cas_get_a_certificate_from_the_peers_ca() -> None:
    trust = _trust(cluster_facts("c1"), cluster_facts("c2"))
    assert trust.mode is TrustMode.MINTED and trust.common_name == "remote"


@pytest.mark.parametrize("mode", ["migration", "cluster"])
def test_where_the_peer_has_per_peer_users_the_certificate_is_for_the_own_one(mode: str) -> None:
    assert _trust(cluster_facts("c1"), cluster_facts("c2", auth_mode=mode)).common_name == "remote-c1"


@pytest.mark.parametrize(("mode", "name"), [("legacy", "remote"), ("migration", "remote"), ("cluster", "remote-c2")])
def test_without_the_ca_key_the_peers_own_remote_certificate_is_copied(mode: str, name: str) -> None:
    trust = _trust(cluster_facts("c1"), _without_ca_key(cluster_facts("c2", auth_mode=mode)))
    assert trust.mode is TrustMode.COPIED and trust.common_name == name


def test_a_cluster_with_its_own_user_does_not_log_in_where_only_remote_is_known() -> None:
    local, peer = cluster_facts("c1", ca="shared", auth_mode="cluster"), cluster_facts("c2", ca="shared", auth_mode="legacy")
    trust = _trust(local, peer)
    assert trust.mode is TrustMode.MINTED and trust.common_name == "remote"


def test_an_expired_ca_is_not_used() -> None:
    peer = cluster_facts("c2")
    ended = replace(certificate("Cilium CA of c2"), not_after=NOW - timedelta(seconds=1))
    peer = replace(peer, ca=replace(peer.ca, certificates=(ended,)), server_cert=replace(peer.server_cert, ca=(ended,)))
    found = trust_between(TrustSide(cluster_facts("c1"), NOW), TrustSide(peer, NOW))
    assert isinstance(found, TrustProblem) and "expired" in found.evidence


def test_a_problem_says_of_every_way_why_it_fails_and_names_both_clusters() -> None:
    peer = replace(cluster_facts("c2"), ca=CaSecretFacts())
    peer = replace(peer, remote_cert=replace(peer.remote_cert, key_matches=False))
    found = trust_between(TrustSide(cluster_facts("c1"), NOW), TrustSide(peer, NOW))
    assert isinstance(found, TrustProblem)
    assert all(f"{mode.value}: " in found.evidence for mode in TrustMode)
    assert "c1" in found.summary and "c2" in found.summary and "cilium-ca" in found.fix


def test_a_certificate_for_another_user_is_never_used() -> None:
    """A common name is an etcd user: admin-c2 would be the peer's root."""
    peer = _without_ca_key(cluster_facts("c2", auth_mode="cluster"))
    peer = replace(peer, remote_cert=tls_secret(peer.remote_cert.name, "admin-c2", signer="Cilium CA of c2"))
    assert isinstance(trust_between(TrustSide(cluster_facts("c1"), NOW), TrustSide(peer, NOW)), TrustProblem)


def test_the_user_can_force_a_mode_and_only_that_one_is_tried() -> None:
    local, peer = cluster_facts("c1", ca="shared"), cluster_facts("c2", ca="shared")
    assert _trust(local, peer, forced="minted").mode is TrustMode.MINTED
    assert _trust(local, peer, forced="copied").mode is TrustMode.COPIED
    refused = trust_between(TrustSide(local, NOW), TrustSide(cluster_facts("c3"), NOW), "same_ca")
    assert isinstance(refused, TrustProblem) and "minted" not in refused.evidence
    with pytest.raises(InvalidInput, match="Use auto"):
        trust_between(TrustSide(local, NOW), TrustSide(peer, NOW), "any")


def test_the_digest_changes_with_the_ca_and_with_the_user_and_with_nothing_else() -> None:
    local, peer = cluster_facts("c1"), cluster_facts("c2")
    digest = _trust(local, peer).digest
    other_ca = replace(peer, server_cert=replace(peer.server_cert, digests={**peer.server_cert.digests, "ca.crt": "0" * 64}))
    renewed = replace(peer, server_cert=replace(peer.server_cert, digests={**peer.server_cert.digests, "tls.crt": "0" * 64}))
    assert _trust(local, other_ca).digest != digest
    assert _trust(local, cluster_facts("c2", auth_mode="cluster")).digest != digest
    assert _trust(local, renewed).digest == digest


def test_the_anchor_among_several_cas_is_the_one_whose_key_id_the_certificate_names() -> None:
    secret = tls_secret("clustermesh-apiserver-server-cert", "server", signer="two")
    both = replace(secret, ca=(certificate("one"), certificate("two")))
    assert anchor(both) == certificate("two")
    assert anchor(replace(both, chain_valid=False)) is None
