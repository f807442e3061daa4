# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Can each cluster be given a client certificate that its peer trusts, and will it last?"""

from __future__ import annotations

from collections.abc import Iterator

from ..ca.state import MARK, roll_of
from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..trust import Trust, TrustMode, anchor
from .wording import finding, kubectl, lines, listed, show, where


def _readable(facts: ClusterFacts) -> bool:
    """False when a finding about its certificates already says why there can be no trust."""
    return facts.apiserver is not None and facts.server_cert.certificate is not None and anchor(facts.server_cert) is not None


@check("CM-TRUST-01", "A cluster cannot be given a certificate that its peer trusts", severity=Severity.BLOCKING, scope=Scope.PAIR)
def trust_is_possible(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    if not _readable(local) or not _readable(peer):
        return
    chosen = context.choices.trust(local, peer)
    if not isinstance(chosen, Trust):
        yield finding(
            "CM-TRUST-01",
            cluster=local.host,
            peer=peer.host,
            summary=chosen.summary,
            evidence=chosen.evidence,
            fix=lines(_sentence(chosen.fix)),
        )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


@check("CM-TRUST-02", "A link will use a copied certificate", severity=Severity.REMEDIABLE, scope=Scope.PAIR)
def trust_lasts(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    if not _readable(local) or not _readable(peer):
        return
    chosen = context.choices.trust(local, peer)
    if not isinstance(chosen, Trust) or chosen.mode is not TrustMode.COPIED:
        return
    certificate = peer.remote_cert.certificate
    until = f" until {certificate.not_after:%Y-%m-%d}" if certificate else ""
    yield finding(
        "CM-TRUST-02",
        cluster=local.host,
        peer=peer.host,
        summary=f"{local.host} will use a copy of {peer.host}'s own client certificate, good{until}: a renewal there does not "
        "reach it by itself",
        evidence=chosen.reason,
        fix=f"Run connect again after every renewal in {peer.host}, or let its Secret cilium-ca hold ca.key of the CA that "
        "signed its server certificate.",
    )


@check("CM-TRUST-03", "cilium-ca holds several certificates", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def ca_is_single(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """certgen 0.3.1 and later takes several certificates for a chain, earlier ones refuse them (certgen generate.go)."""
    if len(facts.ca.certificates) < 2:
        return
    yield finding(
        "CM-TRUST-03",
        cluster=facts.host,
        summary=f"Secret cilium-ca of {facts.host} holds {len(facts.ca.certificates)} certificates: certgen takes them for a "
        "chain, not for a bundle",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')} ca.crt: {listed([show(c.common_name) for c in facts.ca.certificates])}",
        fix="Keep in ca.crt only the certificate that ca.key belongs to (or the chain from it to its root). Trust in other "
        "CAs is written per peer.",
    )


@check("CM-TRUST-04", "cilium-ca cannot be used", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def ca_can_be_used(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    problem = facts.ca.problem or ("ca.key does not belong to ca.crt" if facts.ca.key_matches is False else "")
    if not facts.ca.present or not problem:
        return
    yield finding(
        "CM-TRUST-04",
        cluster=facts.host,
        summary=f"Secret cilium-ca of {facts.host} cannot be used: nothing can be issued from it, and the next renewal of "
        "certificates will fail",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}: {problem}",
        fix=lines(
            "Restore ca.crt and ca.key of one CA from your backup; the certificates now in use name it:",
            kubectl(facts, "edit", "secret", "cilium-ca"),
        ),
    )


@check("CM-CA-07", "A CA roll is under way", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def roll_is_finished(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Everybody trusts both CAs meanwhile, and the next one's key stands in a Secret beside the present one."""
    if MARK not in facts.ca.annotations:
        return
    roll = roll_of(facts.ca)
    whose = f"stage {roll.stage}, begun by binding {roll.owner}" if roll else "it cannot be read"
    yield finding(
        "CM-CA-07",
        cluster=facts.host,
        summary=f"A CA roll is under way in {facts.host}; connect goes on trusting both CAs until it is finished",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}, annotation {MARK}: {whose}",
        fix="Run playbook edge_portal.cilium_mesh.ca with ca_sync_state=rolled, or shared as it was begun: it goes on where it is.",
    )
