# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of mesh endpoints by TLS handshakes from the controller.

Without handshakes (option ``probe``) they find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ..findings.wording import kubectl, lines, listed, show, where
from ..mesh.facts.cluster import ClusterFacts, ProbeResult
from .context import CheckContext
from .flaw import Flaw
from .registry import check

RENEWAL: timedelta = timedelta(minutes=10)
"""Age after which every pod serves a renewed certificate: a kubelet brings a changed Secret into a pod within two minutes."""

_FINGERPRINT_DIGITS = 16


def _probes(context: CheckContext, facts: ClusterFacts, outcome: str) -> tuple[ProbeResult, ...]:
    """Return the probes of the cluster with that outcome."""
    return tuple(probe for probe in context.probes if probe.cluster == facts.host and probe.outcome == outcome)


def _place(probe: ProbeResult) -> str:
    """Return address and port of a probe as text."""
    address = f"[{probe.address}]" if ":" in probe.address else probe.address
    return f"{address}:{probe.port}"


@check("CM-PROBE-01")
def server_certificate_is_trusted(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report an endpoint whose certificate does not verify as that of the cluster's mesh etcd."""
    failed = [probe for probe in _probes(context, facts, "refuted") if not probe.verified]
    if not failed:
        return
    yield Flaw(
        summary=f"The server at {listed(map(_place, failed))} is not proven to be the mesh etcd of {facts.host}: peers that reach it "
        "refuse it, and their links stay in stage tls",
        evidence=f"TLS handshake from here for {show(failed[0].hostname)} with the CA in {where(facts, 'Secret', facts.server_cert.name)}: "
        + "; ".join(f"{_place(probe)}: {probe.error}{_other_owner_text(context, facts, probe)}" for probe in failed),
        fix=lines(
            "Lead the address to this cluster's clustermesh-apiserver, as plain TCP: no load balancer may end TLS on the way. Check its "
            "listener, its targets, and cilium_mesh_endpoint_override of this host.",
            kubectl(facts, "describe", "service", "clustermesh-apiserver"),
            "If the network of this machine intercepts TLS, peers reach another server: verify with cilium_verify_probe: false.",
        ),
    )


@check("CM-PROBE-02")
def server_certificate_is_the_clusters_own(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report an endpoint whose trusted certificate is not the one of the cluster.

    Where several clusters share one CA, a wildcard certificate verifies for all of them: only the certificate itself tells them apart.
    """
    failed = [probe for probe in _probes(context, facts, "refuted") if probe.verified and not _may_be_renewed(context, facts, probe)]
    if not failed:
        return
    yield Flaw(
        summary=f"The server at {listed(map(_place, failed))} shows a trusted certificate, but not the one of {facts.host}",
        evidence=_fingerprints_text(context, facts, failed),
        fix=lines(
            "Lead the address to this cluster's clustermesh-apiserver: check the load balancer's targets, and "
            "cilium_mesh_endpoint_override of this host.",
            kubectl(facts, "get", "service,endpointslices", "--selector", "k8s-app=clustermesh-apiserver", "--output", "wide"),
            "If the certificate was replaced and its pods do not serve the new one:",
            kubectl(facts, "rollout", "restart", "deployment/clustermesh-apiserver"),
        ),
    )


@check("CM-PROBE-03")
def mesh_endpoint_is_reached(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report an endpoint that the controller cannot reach.

    The controller may be in a network where no peer is, so this proves nothing against the link.
    """
    failed = _probes(context, facts, "unreachable")
    if not failed:
        return
    proven = len(_probes(context, facts, "proven"))
    more = f"; {proven} other address{'es' if proven > 1 else ''} of it proven" if proven else ""
    yield Flaw(
        summary=f"The controller cannot verify that {facts.host} answers at {listed(map(_place, failed))}",
        evidence="TLS handshake from here: "
        + "; ".join(f"{_place(probe)}: {probe.error} ({probe.milliseconds} ms)" for probe in failed)
        + more,
        fix=lines(
            "Nothing needs to be done if only the clusters' own networks reach the address. Else open TCP to it, and check its backends:",
            kubectl(facts, "describe", "service", "clustermesh-apiserver"),
        ),
    )


@check("CM-PROBE-04")
def renewed_certificate_is_served(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a renewed server certificate that the endpoint does not serve yet."""
    failed = [probe for probe in _probes(context, facts, "refuted") if probe.verified and _may_be_renewed(context, facts, probe)]
    if not failed:
        return
    yield Flaw(
        summary=f"The server certificate of {facts.host} is minutes old, and {listed(map(_place, failed))} does not serve it yet",
        evidence=_fingerprints_text(context, facts, failed),
        fix=lines("Verify again in a few minutes. Then what is served must be what the Secret holds."),
    )


def _may_be_renewed(context: CheckContext, facts: ClusterFacts, probe: ProbeResult) -> bool:
    """Return whether the Secret is so young that the endpoint may still serve its former certificate.

    A certificate in the Secret of another member was never in this one.
    """
    certificate = facts.server_cert.certificate
    young = certificate is not None and context.now - certificate.not_before < RENEWAL
    return young and not _other_owner_text(context, facts, probe)


def _fingerprints_text(context: CheckContext, facts: ClusterFacts, probes: list[ProbeResult]) -> str:
    """Return the fingerprints that the endpoints serve and the one of the Secret, as evidence."""
    certificate = facts.server_cert.certificate
    wanted = certificate.fingerprint[:_FINGERPRINT_DIGITS] if certificate else "none"
    seen = "; ".join(
        f"{_place(probe)} shows {probe.fingerprint[:_FINGERPRINT_DIGITS]}{_other_owner_text(context, facts, probe)}" for probe in probes
    )
    return f"TLS handshake from here: {seen}; {where(facts, 'Secret', facts.server_cert.name)} tls.crt is {wanted} (SHA-256)"


def _other_owner_text(context: CheckContext, facts: ClusterFacts, probe: ProbeResult) -> str:
    """Return the member whose certificate the probe met, as text; an empty string for the cluster itself or an unknown one."""
    for other in context.facts.values():
        certificate = other.server_cert.certificate
        if certificate is not None and certificate.fingerprint == probe.fingerprint:
            return "" if other.host == facts.host else f", the certificate of {other.host}"
    return ""
