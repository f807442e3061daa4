# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that each cluster can get a client certificate that its peer trusts, and that it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, kubectl, lines, listed, show, where
from ..mesh.ca_roll import MARK, roll_of
from ..mesh.facts import ClusterFacts
from ..mesh.trust import Trust, anchor
from .context import CheckContext
from .registry import check


def _has_readable_trust(facts: ClusterFacts) -> bool:
    """Return whether the server certificate and its CA could be read.

    Where they could not, a finding about the certificates already says why no trust is possible.
    """
    return facts.apiserver is not None and facts.server_cert.certificate is not None and anchor(facts.server_cert) is not None


@check("CM-TRUST-01")
def trust_is_possible(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    """Report a pair whose local cluster cannot get a client certificate that the peer trusts."""
    if not _has_readable_trust(local) or not _has_readable_trust(peer):
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
    """Return the text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


@check("CM-TRUST-02")
def client_certificate_is_not_copied(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    """Report a link whose client certificate is a copy of the peer's."""
    if not _has_readable_trust(local) or not _has_readable_trust(peer):
        return
    chosen = context.choices.trust(local, peer)
    if not isinstance(chosen, Trust) or not chosen.mode.outdated_by_peer:
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


@check("CM-TRUST-03")
def cilium_ca_holds_one_certificate(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a Secret cilium-ca with several certificates.

    certgen 0.3.1 and later treats several certificates as a chain; earlier releases refuse them (certgen generate.go).
    """
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


@check("CM-TRUST-04")
def cilium_ca_is_usable(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a Secret cilium-ca that cannot be parsed, or whose key belongs to another certificate."""
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


@check("CM-CA-07")
def ca_roll_is_finished(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a CA roll that is under way.

    Until it is finished all members trust both CAs, and the key of the next CA is in a Secret beside the present one.
    """
    if MARK not in facts.ca.annotations:
        return
    roll = roll_of(facts.ca)
    whose = f"stage {roll.stage}, begun by binding {roll.owner}" if roll else "it cannot be read"
    yield finding(
        "CM-CA-07",
        cluster=facts.host,
        summary=f"A CA roll is under way in {facts.host}; connect trusts both CAs until it is finished",
        evidence=f"{where(facts, 'Secret', 'cilium-ca')}, annotation {MARK}: {whose}",
        fix="Run playbook edge_portal.cilium_mesh.ca with ca_sync_state=rolled, or shared as it was begun: it goes on from "
        "its present stage.",
    )
