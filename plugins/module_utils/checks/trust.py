# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that each cluster can get a client certificate that its peer trusts, and that it lasts; of CA bundles, and of Hubble Relay.

Where tls.caBundle is on, a separate object takes the place of ca.crt in Cilium's Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..findings.wording import grouped, helm, kubectl, lines, listed, show, where
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.trust.ca_roll import MARK, roll_of
from ..mesh.trust.ca_sources import AGENTS, KVSTOREMESH, ca_source
from ..mesh.trust.link_trust import Trust, anchor
from .context import CheckContext, members
from .flaw import Flaw
from .registry import check

RELAY = "hubble-relay"


def _has_readable_trust(facts: ClusterFacts) -> bool:
    """Return whether the server certificate and its CA could be read.

    Where they could not, a finding about the certificates already says why no trust is possible.
    """
    return facts.apiserver is not None and facts.server_cert.certificate is not None and anchor(facts.server_cert) is not None


@check("CM-TRUST-01")
def trust_is_possible(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report a pair whose local cluster cannot get a client certificate that the peer trusts."""
    for peer in peers:
        chosen = context.decisions.trust[local.host][peer.host]
        if not isinstance(chosen, Trust) and _has_readable_trust(local) and _has_readable_trust(peer):
            yield Flaw(peer=peer.host, summary=chosen.summary, evidence=chosen.evidence, fix=lines(_sentence(chosen.fix)))


def _sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


@check("CM-TRUST-02")
def client_certificate_is_not_copied(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report a link whose client certificate is a copy of the peer's."""
    for peer in peers:
        chosen = context.decisions.trust[local.host][peer.host]
        if not isinstance(chosen, Trust) or not chosen.mode.outdated_by_peer:
            continue
        if not _has_readable_trust(local) or not _has_readable_trust(peer):
            continue
        certificate = peer.remote_cert.certificate
        until = f" until {certificate.not_after:%Y-%m-%d}" if certificate else ""
        yield Flaw(
            peer=peer.host,
            summary=f"{local.host} will use a copy of {peer.host}'s own client certificate, good{until}: renewing it in "
            f"{peer.host} does not update the copy",
            evidence=chosen.reason,
            fix=f"Run connect again after every renewal in {peer.host}, or let its Secret cilium-ca hold ca.key of the CA that "
            "signed its server certificate.",
        )


@check("CM-TRUST-03")
def cilium_ca_holds_one_certificate(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a Secret cilium-ca with several certificates.

    certgen 0.3.1 and later treats several certificates as a chain; earlier releases refuse them (certgen generate.go).
    """
    if len(facts.ca.certificates) < 2:
        return
    yield Flaw(
        summary=f"Secret cilium-ca of {facts.host} holds {len(facts.ca.certificates)} certificates: certgen takes them for a "
        "chain, not for a bundle",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')} ca.crt: {listed([show(c.common_name) for c in facts.ca.certificates])}",
        fix="Keep in ca.crt only the certificate that ca.key belongs to (or the chain from it to its root). Trust in other "
        "CAs is written per peer.",
    )


@check("CM-TRUST-04")
def cilium_ca_is_usable(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a Secret cilium-ca that cannot be parsed, or whose key belongs to another certificate."""
    problem = facts.ca.problem or ("ca.key does not belong to ca.crt" if facts.ca.key_matches is False else "")
    if not facts.ca.present or not problem:
        return
    yield Flaw(
        summary=f"Secret cilium-ca of {facts.host} cannot be used: nothing can be issued from it, and the next renewal of "
        "certificates will fail",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}: {problem}",
        fix=lines(
            "Restore ca.crt and ca.key of one CA from your backup; the certificates now in use name it:",
            kubectl(facts, "edit", "secret", "cilium-ca"),
        ),
    )


@check("CM-CA-07")
def ca_roll_is_finished(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a CA roll that is under way.

    Until it is finished all members trust both CAs, and the key of the next CA is in a Secret beside the present one.
    """
    if MARK not in facts.ca.annotations:
        return
    roll = roll_of(facts.ca)
    whose = f"stage {roll.stage}, begun by binding {roll.owner}" if roll else "it cannot be read"
    yield Flaw(
        summary=f"A CA roll is under way in {facts.host}; connect trusts both CAs until it is finished",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}, annotation {MARK}: {whose}",
        fix="Run playbook edge_portal.cilium_mesh.ca with ca_sync_state=rolled, or shared as it was begun: it goes on from "
        "its present stage.",
    )


def _relay_is_wanted(context: CheckContext, facts: ClusterFacts) -> bool:
    """Return whether Hubble Relay runs in the cluster or the binding asks for Hubble."""
    return RELAY in facts.parts or bool(context.mesh.binding.hubble_enabled)


@check("CM-HUB-01")
def relays_and_agents_share_a_ca(context: CheckContext) -> Iterator[Flaw]:
    """Report relays that see no flows of clusters with another CA.

    Relay speaks mutual TLS with the agents of all clusters, with certificates of its own cluster's CA (Cilium documentation,
    "Setting up Cluster Mesh", "Shared certificate authority").
    """
    clusters = [facts for facts in members(context) if anchor(facts.server_cert) is not None]
    relays = [facts for facts in clusters if _relay_is_wanted(context, facts)]
    groups = grouped(clusters, lambda f: ca.public_key if (ca := anchor(f.server_cert)) is not None else "")
    if not relays or len(groups) < 2:
        return
    yield Flaw(
        cluster=relays[0].host,
        others=tuple(facts.host for facts in relays[1:]),
        summary=f"Hubble Relay of {listed(facts.host for facts in relays)} sees no flows of clusters with another CA",
        evidence="CAs of the server certificates: "
        + "; ".join(f"{key[:12]} in {listed(hosts)}" for key, hosts in groups.items())
        + f"; {where(relays[0], 'Deployment', RELAY)} or meshConfig.hubble",
        fix="View the flows of each cluster separately, or give all clusters one CA (docs/verify.md, Hubble). The mesh itself needs none.",
    )


@check("CM-CA-01")
def ca_bundle_is_usable(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a CA bundle that is missing or cannot be parsed."""
    bundle = facts.ca_bundle
    if bundle is None or (bundle.present and not bundle.problem):
        return
    yield Flaw(
        summary=f"The CA bundle of {facts.host} {'cannot be used' if bundle.present else 'is missing'}: its mesh etcd trusts no client, "
        "and new pods do not start",
        evidence=f"{where(facts, bundle.kind, bundle.name)}: {bundle.problem or 'not found'}; the volumes of Deployment "
        f"clustermesh-apiserver or DaemonSet cilium take key {show(bundle.key)} of it for ca.crt",
        fix=lines(
            "Put the CA certificates of all clusters into it:",
            helm(facts, "tls.caBundle.enabled=true", "tls.caBundle.content=PEM_OF_ALL_CAS"),
            "Or go back to the ca.crt of the Secrets: tls.caBundle.enabled=false.",
        ),
    )


@check("CM-CA-02")
def agents_and_kvstoremesh_trust_the_same_ca(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report agents that use the CA bundle while kvstoremesh uses another CA.

    Older charts, 1.16 among them, mount the bundle in agents and etcd, but not in kvstoremesh, which dials the peers (cilium issue
    42726).
    """
    if facts.agent is None or facts.apiserver is None or not facts.runs_kvstoremesh:
        return
    agents = ca_source(facts.agent.volumes, *AGENTS[1:])
    kvstoremesh = ca_source(facts.apiserver.volumes, *KVSTOREMESH[1:])
    if agents is None or kvstoremesh is None or agents == kvstoremesh or not agents.is_bundle:
        return
    yield Flaw(
        summary=f"The CA bundle of {facts.host} does not reach kvstoremesh, which dials the peers",
        evidence=f"{AGENTS[2]} is {agents.kind} {agents.name} in DaemonSet cilium, and {kvstoremesh.kind} {kvstoremesh.name} in "
        "Deployment clustermesh-apiserver (cilium issue 42726)",
        fix=lines(
            "Nothing is needed for links made here: they carry the CA of their peer. For others, upgrade Cilium to a chart that gives "
            "kvstoremesh the bundle (1.19 and newer), then:",
            kubectl(facts, "rollout", "restart", "deployment/clustermesh-apiserver"),
        ),
    )
