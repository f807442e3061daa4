# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Report of what each link's trust depends on and when it ends, as data; pure. Fingerprints and dates only, no PEM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..mesh.binding.trust_mode import ClientCertificate, TrustMode
from ..mesh.endpoints.etcd_config import certificate_key
from ..mesh.facts.cluster import CertificateFacts, ClusterFacts, PeerSecretFacts
from ..mesh.link_decisions import LinkDecisions
from ..mesh.trust.ca_roll import roll_of
from ..mesh.trust.issuing import Issuing, Method
from ..mesh.trust.link_trust import Trust, anchor

_RENEWAL: Final = {
    Method.CERTGEN: "certgen's CronJob issues the certificates again on its schedule",
    Method.HELM: "Helm issues the certificates again at each upgrade, and at no other time",
    Method.CERT_MANAGER: "cert-manager renews the certificates before they expire",
    Method.PROVIDED: "the user who provided the certificates renews them",
}
"""Method -> sentence without a full stop that says who renews the certificates, and when."""


def trust_report(decisions: LinkDecisions, issuing: Mapping[str, Issuing], *, renew_before_days: int) -> dict[str, Any]:
    """Return ``{clusters: [...], pairs: [...]}``; see docs/trust.md."""
    facts, now = decisions.facts, decisions.now
    return {
        "clusters": [_cluster(facts[host], issuing.get(host), now) for host in decisions.trust],
        "pairs": [
            _pair(facts[host], facts[peer], trust, now, renew_before_days)
            for host, peers in decisions.trust.items()
            for peer, trust in peers.items()
        ],
    }


def _cluster(facts: ClusterFacts, issuing: Issuing | None, now: datetime) -> dict[str, Any]:
    ca = anchor(facts.server_cert)
    roll = roll_of(facts.ca)
    leaves = [leaf.certificate for leaf in (facts.server_cert, facts.remote_cert, facts.admin_cert, facts.local_cert) if leaf.certificate]
    return {
        "cluster": facts.host,
        "ca": _certificate(ca),
        "canIssue": facts.ca.has_key and facts.ca.key_matches is True,
        "method": issuing.method.value if issuing else "",
        "how": _RENEWAL[issuing.method] if issuing else "",
        "schedule": issuing.schedule if issuing else "",
        "nextRenewal": issuing.next_renewal(now) if issuing else "",
        "expires": _time(min((leaf.not_after for leaf in leaves), default=None)),
        "roll": roll.stage.value if roll else "",
    }


def _pair(local: ClusterFacts, peer: ClusterFacts, trust: Any, now: datetime, renew_before_days: int) -> dict[str, Any]:
    secret = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    mode = trust.mode if isinstance(trust, Trust) else None
    shown = _client_certificate(local, peer, secret, mode)
    server_ca, client_ca = anchor(peer.server_cert), _client_ca(local, peer, mode)
    parts = {
        "client": shown,
        "server": peer.server_cert.certificate,
        "serverCa": server_ca,
        "clientCa": client_ca,
    }
    ends = {name: certificate.not_after for name, certificate in parts.items() if certificate is not None}
    first = min(ends, key=lambda name: ends[name], default="")
    renew = shown.not_after - timedelta(days=renew_before_days) if shown and mode and mode.renewable else None
    return {
        "cluster": local.host,
        "peer": peer.host,
        "mode": mode.value if mode else "",
        "reason": trust.reason if isinstance(trust, Trust) else trust.evidence,
        "user": trust.common_name if isinstance(trust, Trust) else "",
        "connected": secret.keys.get(peer.name) is not None,
        "issuer": mode.issuer(local.host, peer.host) if mode else "",
        "certificates": {name: _certificate(certificate) for name, certificate in parts.items()},
        "expires": _time(ends.get(first)),
        "expiresFirst": first,
        "renewFrom": _time(renew),
        "due": bool(renew and renew <= now),
    }


def _client_certificate(
    local: ClusterFacts, peer: ClusterFacts, secret: PeerSecretFacts, mode: TrustMode | None
) -> CertificateFacts | None:
    """Return the certificate that ``local`` presents to the peer now; None while nothing is written."""
    if mode and not mode.own_files:
        return local.remote_cert.certificate
    key = secret.keys.get(certificate_key(peer.name))
    return key.certificate if key else None


def _client_ca(local: ClusterFacts, peer: ClusterFacts, mode: TrustMode | None) -> CertificateFacts | None:
    if mode is None:
        return None
    if mode.client is ClientCertificate.PEER_ISSUES:
        return peer.ca.certificates[0] if peer.ca.certificates else None
    return anchor((local if mode.client is ClientCertificate.OWN_REMOTE else peer).remote_cert)


def _certificate(certificate: CertificateFacts | None) -> dict[str, str] | None:
    if certificate is None:
        return None
    return {
        "commonName": certificate.common_name,
        "issuer": certificate.issuer,
        "fingerprint": certificate.fingerprint,
        "expires": _time(certificate.not_after),
    }


def _time(when: datetime | None) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if when else ""
