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
from functools import cached_property
from typing import NamedTuple

from .ca.state import Roll, Stage, roll_of
from .errors import InvalidInput
from .facts import CertificateFacts, ClusterFacts, TlsSecretFacts

PLAIN_USER = "remote"  # made by etcdinit in every version, in every auth mode


class TrustMode(StrEnum):
    """What is written for a peer, besides its configuration."""

    SAME_CA = "same_ca"  # nothing: the files common-etcd-client* serve
    MINTED = "minted"  # a client certificate for local, issued by peer's CA
    COPIED = "copied"  # peer's own remote certificate


class Trust(NamedTuple):
    """A decided way. ``digest`` changes with whatever requires a new connection; it goes into the peer's YAML as a comment."""

    mode: TrustMode
    reason: str
    common_name: str  # the etcd user that local logs in as: "remote", or one that peer's users.yaml must hold
    digest: str
    ca: str = ""  # PEM text that local trusts peer's server by; "": ca.crt beside that certificate


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


class Side:
    """One cluster, and what every pair that it is in would ask of its certificates again: in a mesh of 255 that is 500 pairs.

    :param now: aware, UTC; decides which certificates are valid.
    """

    def __init__(self, cluster: ClusterFacts, now: datetime) -> None:
        self.cluster = cluster
        self.host = cluster.host
        self.now = now

    @cached_property
    def user(self) -> str:
        return user_for(self.cluster)

    @cached_property
    def users_enabled(self) -> bool:
        return self.cluster.users_enabled

    @cached_property
    def server_ca(self) -> CertificateFacts | None:
        """The CA that signed its server certificate."""
        return anchor(self.cluster.server_cert)

    @cached_property
    def client_ca(self) -> CertificateFacts | None:
        """The CA that signed its remote certificate."""
        return anchor(self.cluster.remote_cert)

    @cached_property
    def roll(self) -> Roll | None:
        """The CA roll that it is in."""
        return roll_of(self.cluster.ca)

    @cached_property
    def rolling(self) -> bool:
        """Does its CA change? A link over the files common-etcd-client* could not follow: they come from another Secret than its
        configuration, and may reach a pod later."""
        return self.roll is not None and self.roll.stage is not Stage.PREPARE

    @cached_property
    def trusted(self) -> str:
        """What readers trust it by in a CA roll; "": ca.crt beside its server certificate."""
        return (self.roll.trusted if self.roll else None) or ""

    @cached_property
    def trusted_digest(self) -> str:
        """SHA-256 hex of what readers trust it by."""
        if self.trusted:
            return hashlib.sha256(self.trusted.encode()).hexdigest()
        return self.cluster.server_cert.digests.get("ca.crt", self.server_ca.fingerprint if self.server_ca else "")

    @cached_property
    def issuer(self) -> str:
        """The CA that signs what it issues, as people are told."""
        return _short(self.cluster.ca.certificates[0])

    @cached_property
    def accepts_servers_of(self) -> frozenset[tuple[str, str]]:
        """The CAs whose server certificates its readers accept."""
        return _valid_keys(self.cluster.remote_cert.ca, self.now)

    @cached_property
    def accepts_clients_of(self) -> frozenset[tuple[str, str]]:
        """The CAs whose client certificates its mesh etcd accepts."""
        return _valid_keys(self.cluster.server_cert.ca, self.now)

    @cached_property
    def unusable(self) -> str:
        """Why its remote certificate cannot be shown to a peer; "" when it can."""
        return _unusable(self.cluster.remote_cert, self.now)

    @cached_property
    def unable_to_mint(self) -> str:
        """Why its CA cannot issue a client certificate that its own mesh etcd accepts; "" when it can."""
        ca, host = self.cluster.ca, self.host
        if self.server_ca is None:
            return f"the CA of {host}'s server certificate is not in its ca.crt"
        if not ca.present or not ca.certificates:
            return f"{host} has no Secret cilium-ca with a certificate"
        if not ca.has_key or ca.key_matches is not True:
            return f"Secret cilium-ca of {host} has no ca.key that belongs to its certificate"
        if self.rolling:  # what its etcd accepts was proven; ca.crt may be overwritten at any moment by a certificate job
            return "" if _valid(ca.certificates[0], self.now) else f"cilium-ca of {host} is not valid now"
        if not any(_key(certificate) in self.accepts_clients_of for certificate in ca.certificates):
            return f"cilium-ca of {host} is not the CA that its mesh etcd trusts (ca.crt of its server certificate), or it has expired"
        return "" if _valid(ca.certificates[0], self.now) else f"cilium-ca of {host} is not valid now"


def choose_trust(local: ClusterFacts, peer: ClusterFacts, *, now: datetime, forced: str = "auto") -> Trust | TrustProblem:
    """The trust mode of the link from ``local`` to ``peer``: the first that works of same CA, minted, copied.

    :param forced: ``auto``, or the one mode to consider.
    :raises InvalidInput: ``forced`` is no mode.
    """
    return trust_between(Side(local, now), Side(peer, now), forced)


def trust_between(local: Side, peer: Side, forced: str = "auto") -> Trust | TrustProblem:
    """As ``choose_trust``, for whoever asks for many pairs of the same clusters."""
    if forced != "auto" and forced not in WAYS:
        raise InvalidInput(f"trust is {forced!r}.", remedy="Use auto, same_ca, minted or copied.")
    if forced == TrustMode.SAME_CA and (local.rolling or peer.rolling):
        forced = TrustMode.MINTED.value  # for as long as the roll takes
    refusals: dict[str, str] = {}
    for mode, way in WAYS.items():
        if forced in ("auto", mode):
            found = way(local, peer)
            if isinstance(found, Trust):
                return found
            refusals[mode] = found
    return TrustProblem(
        summary=f"{local.host} cannot be given a certificate that {peer.host} trusts",
        evidence="; ".join(f"{mode}: {why}" for mode, why in refusals.items()),
        fix=f"let Secret cilium-ca of {peer.host} hold the CA that signed its clustermesh-apiserver-server-cert, with ca.key, "
        "or re-issue clustermesh-apiserver-remote-cert from that CA",
    )


def _same_ca(local: Side, peer: Side) -> Trust | str:
    server_ca, client_ca, own = peer.server_ca, local.client_ca, local.cluster.remote_cert.certificate
    if local.rolling or peer.rolling:
        return f"a CA roll is under way in {peer.host if peer.rolling else local.host}"
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if client_ca is None or own is None:
        return f"the CA of {local.host}'s remote certificate is not in its ca.crt"
    if _key(server_ca) not in local.accepts_servers_of:
        return f"{local.host} does not trust the CA that signed {peer.host}'s server certificate"
    if _key(client_ca) not in peer.accepts_clients_of:
        return f"{peer.host} does not trust the CA that signed {local.host}'s remote certificate"
    if local.unusable:
        return f"{local.host}'s remote certificate {local.unusable}"
    if own.common_name not in (PLAIN_USER, local.user):
        return f"{local.host}'s remote certificate has a common name that is neither {PLAIN_USER} nor {local.user}"
    if own.common_name != PLAIN_USER and not peer.users_enabled:
        return f"{local.host} logs in as {own.common_name}, and {peer.host} (auth mode legacy) knows only {PLAIN_USER}"
    return Trust(
        mode=TrustMode.SAME_CA,
        reason=f"both clusters use the CA {_short(server_ca)}",
        common_name=own.common_name,
        digest=_digest(local.cluster.remote_cert.digests.get("ca.crt", server_ca.fingerprint), own.common_name),
    )


def _minted(local: Side, peer: Side) -> Trust | str:
    server_ca = peer.server_ca
    if server_ca is None or peer.unable_to_mint:
        return peer.unable_to_mint
    cluster, per_peer = peer.cluster, peer.users_enabled
    common_name = local.user if per_peer else PLAIN_USER
    why_name = "its own user, so that it can be revoked alone" if per_peer else f"{peer.host} has no per-peer users (auth mode legacy)"
    why = "a CA roll is under way" if local.rolling or peer.rolling else "the CAs differ"
    return Trust(
        mode=TrustMode.MINTED,
        reason=f"{why}; {peer.host}'s CA {peer.issuer} issues a client certificate for {common_name}: {why_name}",
        common_name=common_name,
        digest=_digest(peer.trusted_digest, cluster.ca.digest, common_name),
        ca=peer.trusted,
    )


def _copied(_local: Side, peer: Side) -> Trust | str:
    secret, server_ca, client_ca = peer.cluster.remote_cert, peer.server_ca, peer.client_ca
    if peer.rolling:
        return f"a CA roll is under way in {peer.host}"
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if secret.certificate is None or secret.key_matches is not True:
        return f"{peer.host} has no usable Secret {secret.name}"
    if client_ca is None or _key(client_ca) not in peer.accepts_clients_of:
        return f"{peer.host}'s mesh etcd does not trust its own remote certificate"
    if peer.unusable:
        return f"{peer.host}'s remote certificate {peer.unusable}"
    common_name = secret.certificate.common_name
    if common_name not in (PLAIN_USER, peer.user):
        return f"{peer.host}'s remote certificate has a common name that is neither {PLAIN_USER} nor {peer.user}"
    if common_name != PLAIN_USER and not peer.users_enabled:
        return f"{peer.host}'s remote certificate is for {common_name}, and its etcd (auth mode legacy) knows only {PLAIN_USER}"
    return Trust(
        mode=TrustMode.COPIED,
        reason=f"the CAs differ and {peer.host}'s CA key cannot be used; its own remote certificate ({common_name}) is copied: "
        "renewal there needs another run here",
        common_name=common_name,
        digest=_digest(peer.cluster.server_cert.digests.get("ca.crt", server_ca.fingerprint), common_name),
    )


WAYS = {TrustMode.SAME_CA.value: _same_ca, TrustMode.MINTED.value: _minted, TrustMode.COPIED.value: _copied}
"""What is tried, in this order."""


def _valid_keys(bundle: Iterable[CertificateFacts], now: datetime) -> frozenset[tuple[str, str]]:
    """The CAs of a bundle that are valid: Go checks the validity of roots too."""
    return frozenset(_key(certificate) for certificate in bundle if _valid(certificate, now))


def _key(ca: CertificateFacts) -> tuple[str, str]:
    """A CA is known again by its key and name."""
    return ca.public_key, ca.common_name


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
