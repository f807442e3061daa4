# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What TLS handshakes from the controller prove of the mesh endpoints. Without handshakes (option ``probe``) there are no findings here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ..facts import ClusterFacts, ProbeResult
from ..findings import CheckContext, Finding, Scope, Severity, check
from .wording import finding, kubectl, lines, listed, show, where

RENEWAL: timedelta = timedelta(minutes=10)
"""How old a certificate must be before everybody serves it: a kubelet brings a changed Secret into a pod within two minutes."""

_SHOWN = 16


def _of(context: CheckContext, facts: ClusterFacts, outcome: str) -> tuple[ProbeResult, ...]:
    return tuple(probe for probe in context.probes if probe.cluster == facts.host and probe.outcome == outcome)


def _place(probe: ProbeResult) -> str:
    address = f"[{probe.address}]" if ":" in probe.address else probe.address
    return f"{address}:{probe.port}"


@check("CM-PROBE-01", "What answers at the mesh endpoint cannot be trusted", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def server_is_verified(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    failed = [probe for probe in _of(context, facts, "refuted") if not probe.verified]
    if not failed:
        return
    yield finding(
        "CM-PROBE-01",
        cluster=facts.host,
        summary=f"What answers at {listed(map(_place, failed))} is not the mesh etcd of {facts.host} as its peers will verify it",
        evidence=f"TLS handshake from here for {show(failed[0].hostname)} with the CA in {where(facts, 'Secret', facts.server_cert.name)}: "
        + "; ".join(f"{_place(probe)}: {probe.error}{_shown_by(context, facts, probe)}" for probe in failed),
        fix=lines(
            "The address must lead to this cluster's clustermesh-apiserver and leave TLS alone: no load balancer may end it on the way.",
            kubectl(facts, "describe", "service", "clustermesh-apiserver"),
            "Where this machine's own network breaks TLS open, verify without it (cilium_verify_probe: false).",
        ),
    )


@check("CM-PROBE-02", "The mesh endpoint leads to another server", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def server_is_the_one(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """With one CA for several clusters a wildcard certificate verifies for all of them: only the certificate itself tells them apart."""
    failed = [probe for probe in _of(context, facts, "refuted") if probe.verified and not _may_be_renewed(context, facts, probe)]
    if not failed:
        return
    yield finding(
        "CM-PROBE-02",
        cluster=facts.host,
        summary=f"What answers at {listed(map(_place, failed))} shows a trusted certificate, but not the one of {facts.host}",
        evidence=_differing(context, facts, failed),
        fix=lines(
            "Lead the address to this cluster's clustermesh-apiserver: look at the load balancer's targets, and at "
            "cilium_mesh_endpoint_override of this host.",
            kubectl(facts, "get", "service,endpointslices", "--selector", "k8s-app=clustermesh-apiserver", "--output", "wide"),
            "If the certificate was replaced and its pods do not serve the new one:",
            kubectl(facts, "rollout", "restart", "deployment/clustermesh-apiserver"),
        ),
    )


@check("CM-PROBE-03", "The mesh endpoint cannot be proven from here", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def server_is_reached(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """The controller may stand where no peer stands: it proves nothing against the link."""
    failed = _of(context, facts, "unreachable")
    if not failed:
        return
    proven = len(_of(context, facts, "proven"))
    more = f"; {proven} other address{'es' if proven > 1 else ''} of it proven" if proven else ""
    yield finding(
        "CM-PROBE-03",
        cluster=facts.host,
        summary=f"Whether {facts.host} answers at {listed(map(_place, failed))} cannot be told from here",
        evidence="TLS handshake from here: "
        + "; ".join(f"{_place(probe)}: {probe.error} ({probe.milliseconds} ms)" for probe in failed)
        + more,
        fix=lines(
            "Nothing, where only the clusters' own networks reach the address. Else open TCP to it, and look at what stands behind it:",
            kubectl(facts, "describe", "service", "clustermesh-apiserver"),
        ),
    )


@check("CM-PROBE-04", "A renewed certificate is not served yet", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def renewal_has_arrived(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    failed = [probe for probe in _of(context, facts, "refuted") if probe.verified and _may_be_renewed(context, facts, probe)]
    if not failed:
        return
    yield finding(
        "CM-PROBE-04",
        cluster=facts.host,
        summary=f"The server certificate of {facts.host} is minutes old, and {listed(map(_place, failed))} does not serve it yet",
        evidence=_differing(context, facts, failed),
        fix=lines("Verify again in a few minutes. Then what is served must be what the Secret holds."),
    )


def _may_be_renewed(context: CheckContext, facts: ClusterFacts, probe: ProbeResult) -> bool:
    """Is the Secret so young that what is shown may be what it held before? What another member's Secret holds never was."""
    certificate = facts.server_cert.certificate
    young = certificate is not None and context.now - certificate.not_before < RENEWAL
    return young and not _shown_by(context, facts, probe)


def _differing(context: CheckContext, facts: ClusterFacts, probes: list[ProbeResult]) -> str:
    certificate = facts.server_cert.certificate
    wanted = certificate.fingerprint[:_SHOWN] if certificate else "none"
    seen = "; ".join(f"{_place(probe)} shows {probe.fingerprint[:_SHOWN]}{_shown_by(context, facts, probe)}" for probe in probes)
    return f"TLS handshake from here: {seen}; {where(facts, 'Secret', facts.server_cert.name)} tls.crt is {wanted} (SHA-256)"


def _shown_by(context: CheckContext, facts: ClusterFacts, probe: ProbeResult) -> str:
    """Whose certificate it is, where it is another member's."""
    for other in context.facts.values():
        certificate = other.server_cert.certificate
        if certificate is not None and certificate.fingerprint == probe.fingerprint:
            return "" if other.host == facts.host else f", the certificate of {other.host}"
    return ""
