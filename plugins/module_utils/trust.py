# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How one cluster and its peer come to trust each other's certificates.

Two directions must hold for ``local`` to read ``peer``'s etcd: local verifies peer's server certificate, and peer's etcd verifies local's
client certificate against its client CA, which is ``ca.crt`` of Secret clustermesh-apiserver-server-cert and is read only when etcd starts.
So nothing is ever added to the peer's CA; local shows a certificate that the peer trusts already. The certificate's common name is the
etcd user.
Sources: Cilium pkg/kvstore/etcdinit/init.go (users and roles), Cilium chart values clustermesh.apiserver.tls.authMode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .errors import InvalidInput
from .facts import CertificateFacts, ClusterFacts, TlsSecretFacts

PLAIN_USER = "remote"  # made by etcdinit in every version, in every auth mode


class TrustMode(StrEnum):
    """What is written for a peer, besides its configuration."""

    SAME_CA = "same_ca"  # nothing: the files common-etcd-client* serve
    MINTED = "minted"  # a client certificate for local, issued by peer's CA
    COPIED = "copied"  # peer's own remote certificate


@dataclass(frozen=True, kw_only=True)
class Trust:
    """A decided way. ``digest`` changes with whatever requires a new connection; it goes into the peer's YAML as a comment."""

    mode: TrustMode
    reason: str
    common_name: str  # the etcd user that local logs in as: "remote", or one that peer's users.yaml must hold
    digest: str


@dataclass(frozen=True, kw_only=True)
class TrustProblem:
    """No way was found: why each one fails."""

    summary: str
    evidence: str
    fix: str


def user_for(cluster: ClusterFacts) -> str:
    """The per-peer user of ``cluster`` in the etcd of others, as the chart names it."""
    return user_for_name(cluster.name)


def user_for_name(cluster_name: str) -> str:
    """The same, of a cluster known by name only."""
    return f"remote-{cluster_name}"


def anchor(secret: TlsSecretFacts) -> CertificateFacts | None:
    """The CA of ``ca.crt`` that really signed ``tls.crt``; None when none did."""
    if secret.certificate is None or not secret.chain_valid:
        return None
    if len(secret.ca) == 1:
        return secret.ca[0]
    wanted = {c.authority_key_id for c in (secret.certificate, *secret.intermediates)} - {None}
    return next((ca for ca in secret.ca if ca.subject_key_id in wanted), None)


def choose_trust(local: ClusterFacts, peer: ClusterFacts, *, now: datetime, forced: str = "auto") -> Trust | TrustProblem:
    """The trust mode of the link from ``local`` to ``peer``: the first that works of same CA, minted, copied.

    :param forced: ``auto``, or the one mode to consider.
    :raises InvalidInput: ``forced`` is no mode.
    """
    ways = {TrustMode.SAME_CA: _same_ca, TrustMode.MINTED: _minted, TrustMode.COPIED: _copied}
    if forced != "auto" and forced not in {mode.value for mode in TrustMode}:
        raise InvalidInput(f"trust is {forced!r}.", remedy="Use auto, same_ca, minted or copied.")
    refusals: list[str] = []
    for mode, way in ways.items():
        if forced in ("auto", mode.value):
            found = way(local, peer, now)
            if isinstance(found, Trust):
                return found
            refusals.append(f"{mode.value}: {found}")
    return TrustProblem(
        summary=f"{local.host} cannot be given a certificate that {peer.host} trusts",
        evidence="; ".join(refusals),
        fix=f"let Secret cilium-ca of {peer.host} hold the CA that signed its clustermesh-apiserver-server-cert, with ca.key, "
        "or re-issue clustermesh-apiserver-remote-cert from that CA",
    )


def _same_ca(local: ClusterFacts, peer: ClusterFacts, now: datetime) -> Trust | str:
    server_ca, client_ca, own = anchor(peer.server_cert), anchor(local.remote_cert), local.remote_cert.certificate
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if client_ca is None or own is None:
        return f"the CA of {local.host}'s remote certificate is not in its ca.crt"
    if not _holds(local.remote_cert.ca, server_ca, now):
        return f"{local.host} does not trust the CA that signed {peer.host}'s server certificate"
    if not _holds(peer.server_cert.ca, client_ca, now):
        return f"{peer.host} does not trust the CA that signed {local.host}'s remote certificate"
    unusable = _unusable(local.remote_cert, now)
    if unusable:
        return f"{local.host}'s remote certificate {unusable}"
    if own.common_name not in (PLAIN_USER, user_for(local)):
        return f"{local.host}'s remote certificate has a common name that is neither {PLAIN_USER} nor {user_for(local)}"
    if own.common_name != PLAIN_USER and not peer.users_enabled:
        return f"{local.host} logs in as {own.common_name}, and {peer.host} (auth mode legacy) knows only {PLAIN_USER}"
    return Trust(
        mode=TrustMode.SAME_CA,
        reason=f"both clusters use the CA {_short(server_ca)}",
        common_name=own.common_name,
        digest=_digest(local.remote_cert.digests.get("ca.crt", server_ca.fingerprint), own.common_name),
    )


def _minted(local: ClusterFacts, peer: ClusterFacts, now: datetime) -> Trust | str:
    server_ca = anchor(peer.server_cert)
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if not peer.ca.present or not peer.ca.certificates:
        return f"{peer.host} has no Secret cilium-ca with a certificate"
    if not peer.ca.has_key or peer.ca.key_matches is not True:
        return f"Secret cilium-ca of {peer.host} has no ca.key that belongs to its certificate"
    issuer = peer.ca.certificates[0]
    if not any(_holds(peer.server_cert.ca, ca, now) for ca in peer.ca.certificates):
        return f"cilium-ca of {peer.host} is not the CA that its mesh etcd trusts (ca.crt of its server certificate), or it has expired"
    if not _valid(issuer, now):
        return f"cilium-ca of {peer.host} is not valid now"
    per_peer = peer.users_enabled
    common_name = user_for(local) if per_peer else PLAIN_USER
    why_name = "its own user, so that it can be revoked alone" if per_peer else f"{peer.host} has no per-peer users (auth mode legacy)"
    return Trust(
        mode=TrustMode.MINTED,
        reason=f"the CAs differ; {peer.host}'s CA {_short(issuer)} issues a client certificate for {common_name}: {why_name}",
        common_name=common_name,
        digest=_digest(peer.server_cert.digests.get("ca.crt", server_ca.fingerprint), peer.ca.digest, common_name),
    )


def _copied(local: ClusterFacts, peer: ClusterFacts, now: datetime) -> Trust | str:
    secret, server_ca, client_ca = peer.remote_cert, anchor(peer.server_cert), anchor(peer.remote_cert)
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if secret.certificate is None or secret.key_matches is not True:
        return f"{peer.host} has no usable Secret {secret.name}"
    if client_ca is None or not _holds(peer.server_cert.ca, client_ca, now):
        return f"{peer.host}'s mesh etcd does not trust its own remote certificate"
    unusable = _unusable(secret, now)
    if unusable:
        return f"{peer.host}'s remote certificate {unusable}"
    common_name = secret.certificate.common_name
    if common_name not in (PLAIN_USER, user_for(peer)):
        return f"{peer.host}'s remote certificate has a common name that is neither {PLAIN_USER} nor {user_for(peer)}"
    if common_name != PLAIN_USER and not peer.users_enabled:
        return f"{peer.host}'s remote certificate is for {common_name}, and its etcd (auth mode legacy) knows only {PLAIN_USER}"
    return Trust(
        mode=TrustMode.COPIED,
        reason=f"the CAs differ and {peer.host}'s CA key cannot be used; its own remote certificate ({common_name}) is copied: "
        "renewal there needs another run here",
        common_name=common_name,
        digest=_digest(peer.server_cert.digests.get("ca.crt", server_ca.fingerprint), common_name),
    )


def _holds(bundle: Iterable[CertificateFacts], ca: CertificateFacts, now: datetime) -> bool:
    """Is a certificate of the same key and name in the bundle, and valid? Go checks the validity of roots too."""
    return any(c.public_key == ca.public_key and c.common_name == ca.common_name and _valid(c, now) for c in bundle)


def _valid(certificate: CertificateFacts, now: datetime) -> bool:
    return certificate.not_before <= now < certificate.not_after


def _unusable(secret: TlsSecretFacts, now: datetime) -> str:
    certificate = secret.certificate
    if certificate is None or secret.key_matches is False:
        return "is missing or does not belong to its key"
    if not _valid(certificate, now):
        return f"is not valid now (until {certificate.not_after:%Y-%m-%d})"
    return "" if certificate.client_auth else "is not for client authentication"


def _short(ca: CertificateFacts) -> str:
    return f"{ca.common_name!r} ({ca.fingerprint[:12]})"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
