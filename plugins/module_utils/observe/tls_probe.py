# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""TLS handshakes with every address of every mesh endpoint from the controller, which prove the server that answers there.

In TLS 1.3 the server shows its certificate and proves its key before the client identifies itself (RFC 8446, 2), so the handshake ends
well on the client's side without a client certificate, and etcd's refusal of that comes only with the first byte read; the probe ends
before. In TLS 1.2 a server that wants a client certificate breaks off the handshake, and Python does not expose the certificate that it
showed before: such an answer proves nothing, either way. Cilium's etcd speaks 1.3.

No secret is used: the CA is the public half, and no client certificate is shown.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from ..base.dialling import NO_RULE, DialRule
from ..base.library_errors import raised_by
from ..base.redact import digest, one_line
from ..base.sealed import SecretStore
from ..mesh.endpoints.addresses import sorted_ips
from ..mesh.endpoints.endpoint import MeshEndpoint
from ..mesh.endpoints.ip_families import addresses_of
from ..mesh.facts.cluster import ClusterFacts, ProbeResult
from ..mesh.link_decisions import Endpoints, Move

TIMEOUT: Final = 3.0  # seconds, for the connection and once more for the handshake
PARALLEL: Final = 32  # handshakes at a time

_WANTS_A_CLIENT = ("BAD_CERTIFICATE", "CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE")
"""Alerts of TLS 1.2 servers that break off because they want a client certificate (Go sends the first)."""


@dataclass(frozen=True, kw_only=True)
class TlsTarget:
    """Address to probe, with the certificate expected there."""

    cluster: str
    address: str
    port: int
    hostname: str
    fingerprint: str  # of the certificate in the Secret, SHA-256 hex
    authorities: str  # PEM
    rule: DialRule = NO_RULE


def probe_endpoints(
    facts: Mapping[str, ClusterFacts],
    endpoints: Endpoints,
    secrets: SecretStore,
    *,
    resolved: Mapping[str, Sequence[str]] | None = None,
    timeout: float = TIMEOUT,
    parallel: int = PARALLEL,
) -> tuple[ProbeResult, ...]:
    """Probe the endpoints of all clusters in ``facts``; results in order of the clusters and their addresses.

    Never raises for what a server does. A cluster without an endpoint or a server certificate has no result: other findings say why. Where
    ranges are denied, nothing is dialled there, and all addresses that do not prove the server have the same result.

    :param secrets: holds ``ca.crt`` of each cluster's server certificate.
    :param resolved: addresses of DNS names, as for ``endpoints``.
    :param timeout: seconds for the connection, and as many for the handshake.
    """
    targets = list(_targets(facts.values(), endpoints, secrets, resolved or {}))
    with ThreadPoolExecutor(max(1, min(parallel, len(targets)))) as pool:
        return tuple(pool.map(lambda target: probe(target, timeout=timeout), targets))


def unproven_moves(moved: Mapping[str, Move], facts: Mapping[str, ClusterFacts], secrets: SecretStore) -> frozenset[str]:
    """Return the clusters of which no new address is proven, and either another server is there, or the addresses in use are proven.

    Where the controller reaches neither, it can tell nothing, and the hold-down alone counts.

    :param moved: by inventory name (``LinkDecisions.moved``).
    """
    with ThreadPoolExecutor(max(1, min(PARALLEL, len(moved)))) as pool:
        judged = pool.map(lambda host: _is_unproven(facts[host], *moved[host], secrets), moved)
        return frozenset(host for host, unproven in zip(moved, judged, strict=True) if unproven)


def _is_unproven(cluster: ClusterFacts, endpoint: MeshEndpoint, used: MeshEndpoint, secrets: SecretStore) -> bool:
    new = _outcomes(cluster, endpoint, secrets)
    if "proven" in new:
        return False
    return "refuted" in new or "proven" in _outcomes(cluster, used, secrets)


def _outcomes(cluster: ClusterFacts, endpoint: MeshEndpoint, secrets: SecretStore) -> set[str]:
    return {_judged(probe(target), target) for target in _targets_at(cluster, endpoint, secrets, {})}


def _judged(result: ProbeResult, target: TlsTarget) -> str:
    """Return the outcome; a certificate of the CA that is not the cluster's own proves nothing, as members may share a CA.

    Where ranges are denied, another server counts as none: its owner would learn what is there from the address that is dialled.
    """
    if result.outcome == "proven" and result.fingerprint != target.fingerprint:
        return "unreachable" if target.rule else "refuted"
    return result.outcome


def probe(target: TlsTarget, *, timeout: float = TIMEOUT) -> ProbeResult:
    """Probe one address. If verification fails, a second handshake without it reads the certificate that the server shows."""
    if not target.rule:
        return _probed(target, timeout)
    unreached = ProbeResult(
        cluster=target.cluster,
        address=target.address,
        port=target.port,
        hostname=target.hostname,
        outcome="unreachable",
        error="the controller cannot reach the cluster's server there",
    )
    found = _probed(target, timeout) if target.rule.permits(target.address) else unreached
    return found if found.verified else unreached


def _probed(target: TlsTarget, timeout: float) -> ProbeResult:
    begun = time.monotonic()
    result = ProbeResult(cluster=target.cluster, address=target.address, port=target.port, hostname=target.hostname, outcome="unreachable")
    try:
        context = _verifying(target.authorities)
    except Exception:  # ssl.SSLError or ValueError, and whatever OpenSSL's binding has besides
        return replace(result, error="ca.crt beside the server certificate cannot be loaded")
    try:
        shown = _handshake(target, context, timeout)
    except ssl.SSLCertVerificationError as error:
        result = replace(
            result, outcome="refuted", error=one_line(error.verify_message), fingerprint=_unverified_fingerprint(target, timeout)
        )
    except ssl.SSLError as error:
        outcome, reason = _refusal(error)
        result = replace(result, outcome=outcome, error=reason)
    except OSError as error:
        result = replace(result, error=_failure(error))
    except (ValueError, TypeError):  # an API server lets labels pass that IDNA refuses, as longer than 63 characters
        result = replace(result, error="the name cannot be asked for")
    except Exception as error:  # of OpenSSL's binding, whatever it may be
        result = replace(result, error=f"a library failed: {raised_by(error)}")
    else:
        result = replace(result, verified=True, fingerprint=shown, outcome="proven" if shown == target.fingerprint else "refuted")
    return replace(result, milliseconds=round((time.monotonic() - begun) * 1000))


def _targets(
    clusters: Iterable[ClusterFacts], endpoints: Endpoints, secrets: SecretStore, resolved: Mapping[str, Sequence[str]]
) -> Iterator[TlsTarget]:
    for cluster in clusters:
        endpoint = endpoints[cluster.host]
        if isinstance(endpoint, MeshEndpoint):
            yield from _targets_at(cluster, endpoint, secrets, resolved)


def _targets_at(
    cluster: ClusterFacts, endpoint: MeshEndpoint, secrets: SecretStore, resolved: Mapping[str, Sequence[str]]
) -> Iterator[TlsTarget]:
    certificate, authorities = cluster.server_cert.certificate, _authorities(cluster, secrets)
    if certificate is None or not authorities:
        return
    # A name that is not found is tried as it is, so that the result says so.
    for address in addresses_of(endpoint) or sorted_ips(resolved.get(endpoint.hostname, ())) or (endpoint.hostname,):
        yield TlsTarget(
            cluster=cluster.host,
            address=address,
            port=endpoint.port,
            hostname=endpoint.hostname.rstrip("."),
            fingerprint=certificate.fingerprint,
            authorities=authorities,
            rule=DialRule(denied=cluster.denied_networks, allowed=cluster.endpoint_networks),
        )


def _authorities(cluster: ClusterFacts, secrets: SecretStore) -> str:
    """Return ``ca.crt`` beside the server certificate, which peers get; "" if there is none that parses."""
    if not cluster.server_cert.ca:
        return ""
    try:
        return secrets.get(cluster.host, cluster.server_cert.name, "ca.crt").reveal().decode("ascii", "ignore")
    except KeyError:
        return ""


def _verifying(authorities: str) -> ssl.SSLContext:
    """Return a context that verifies as Go does, the language of the peers: any certificate of the bundle is an anchor, names are SANs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags = ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    context.load_verify_locations(cadata=authorities)
    return context


def _handshake(target: TlsTarget, context: ssl.SSLContext, timeout: float) -> str:
    """Return the fingerprint of the server's certificate.

    :raises OSError: when the connection or the handshake fails; ssl.SSLError is one.
    """
    with socket.create_connection((target.address, target.port), timeout=timeout) as connection:
        connection.settimeout(timeout)  # for the handshake as a whole, however slowly its bytes come
        with context.wrap_socket(connection, server_hostname=target.hostname) as channel:
            return digest(channel.getpeercert(binary_form=True) or b"")


def _unverified_fingerprint(target: TlsTarget, timeout: float) -> str:
    """Return the fingerprint of the certificate that did not verify; "" if the server does not show it again."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return _handshake(target, context, timeout)
    except Exception:  # it was seen to answer a moment before
        return ""


def _refusal(error: ssl.SSLError) -> tuple[str, str]:
    """Return outcome and error of a handshake that failed for another reason than the certificate."""
    reason = (error.reason or "").upper()
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) or "UNEXPECTED_EOF" in reason:
        return "unreachable", "the connection ends during the handshake"  # a load balancer with nothing behind it does that
    if any(reason.endswith(alert) for alert in _WANTS_A_CLIENT):
        return "unreachable", f"the server breaks off the handshake ({_reason_text(reason)})"
    return "refuted", f"no TLS server of a mesh answers ({_reason_text(reason) or 'TLS error'})"


def _reason_text(reason: str) -> str:
    return one_line(reason.replace("_", " ").lower())


def _failure(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "the name is not found in DNS from here"
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    return one_line(error.strerror or type(error).__name__)
