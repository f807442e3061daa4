# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Trust between the certificates of one cluster and its peer.

Two directions must hold for ``local`` to read ``peer``'s etcd: local verifies peer's server certificate, and peer's etcd verifies local's
client certificate against its client CA, which is ``ca.crt`` of Secret clustermesh-apiserver-server-cert and is read only when etcd starts.
So nothing is ever added to the peer's CA; local shows a certificate that the peer trusts already. The certificate's common name is the
etcd user.

Sources: Cilium pkg/kvstore/etcdinit/init.go (users and roles), Cilium chart values clustermesh.apiserver.tls.authMode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple

from ...base.errors import InvalidInput
from ..binding.trust_mode import AUTO, TRUST_CHOICES, TrustMode, one_of_modes
from ..facts.cluster import CertificateFacts, ClusterFacts, TlsSecretFacts
from ..x509.certificates import CertificateProblem
from .ca_roll import Roll, RollStage, roll_of, shared_trust
from .issued_certificate import issued_certificate

PLAIN_USER = "remote"  # made by etcdinit in every version, in every auth mode
KEPT_UNTIL: Final = timedelta(days=7)  # before its end, a certificate whose CA cannot be read is replaced in another way


class Trust(NamedTuple):
    """Trust mode chosen for a link.

    ``digest`` changes with everything that requires a new connection; it goes into the peer's YAML as a comment.
    """

    mode: TrustMode
    reason: str
    common_name: str  # the etcd user that local logs in as: "remote", or one that peer's users.yaml must hold
    digest: str
    ca: str = ""  # PEM text that local trusts peer's server by; "": ca.crt beside that certificate
    kept: bool = False  # the link's files stay as they are: the peer's CA, which issued the certificate, cannot be read now


@dataclass(frozen=True, kw_only=True)
class TrustProblem:
    """Reasons why no trust mode works for a link."""

    summary: str
    evidence: str
    fix: str


def user_for(cluster: ClusterFacts) -> str:
    """Return the per-peer user of ``cluster`` in the etcd of others, as the chart names it."""
    return user_for_name(cluster.name)


def user_for_name(cluster_name: str) -> str:
    """Return the per-peer user of a cluster that is known by its cluster name only."""
    return f"remote-{cluster_name}"


def anchor(secret: TlsSecretFacts) -> CertificateFacts | None:
    """Return the CA of ``ca.crt`` that really signed ``tls.crt``; None if none did."""
    if secret.certificate is None or not secret.chain_valid:
        return None
    if len(secret.ca) == 1:
        return secret.ca[0]
    wanted = {c.authority_key_id for c in (secret.certificate, *secret.intermediates)} - {None}
    return next((ca for ca in secret.ca if ca.subject_key_id in wanted), None)


class TrustSide:
    """One cluster with the properties of its certificates that every pair needs: computed once, in a mesh of 255 for 500 pairs.

    :param now: aware, UTC; decides which certificates are valid.
    :param manager: field manager of the binding, by which files of its links are recognised; "" recognises none.
    """

    def __init__(self, cluster: ClusterFacts, now: datetime, manager: str = "") -> None:
        self.cluster = cluster
        self.manager = manager
        self.host = cluster.host
        self.now = now

    @cached_property
    def user(self) -> str:
        """Per-peer user of the cluster in the etcd of others."""
        return user_for(self.cluster)

    @cached_property
    def users_enabled(self) -> bool:
        """Whether its clustermesh-apiserver reads per-peer users."""
        return self.cluster.users_enabled

    @cached_property
    def server_ca(self) -> CertificateFacts | None:
        """CA that signed its server certificate."""
        return anchor(self.cluster.server_cert)

    @cached_property
    def client_ca(self) -> CertificateFacts | None:
        """CA that signed its remote certificate."""
        return anchor(self.cluster.remote_cert)

    @cached_property
    def server_ca_key(self) -> tuple[str, str] | None:
        """Key digest and common name of the CA that signed its server certificate."""
        return _key(self.server_ca) if self.server_ca else None

    @cached_property
    def client_ca_key(self) -> tuple[str, str] | None:
        """Key digest and common name of the CA that signed its remote certificate."""
        return _key(self.client_ca) if self.client_ca else None

    @cached_property
    def roll(self) -> Roll | None:
        """CA roll that it is in; None if it is in none."""
        return roll_of(self.cluster.ca)

    @cached_property
    def rolling(self) -> bool:
        """Whether a CA roll has changed what it trusts or shows.

        A link over the files common-etcd-client* could not follow: they come from another Secret than its configuration, and may reach a
        pod later.
        """
        return self.roll is not None and self.roll.stage is not RollStage.PREPARE

    @cached_property
    def trusted(self) -> str:
        """PEM text by which readers trust its server in a CA roll; "": ca.crt beside its server certificate."""
        try:
            return (shared_trust(self.roll) if self.roll else None) or ""
        except CertificateProblem:
            return ""  # ``unshareable`` says so, and no link is made

    @cached_property
    def unshareable(self) -> str:
        """Reason why other clusters cannot get the CAs by which they would trust its server; "" if they can."""
        if self.roll is not None and self.roll.trusted is not None:
            try:
                shared_trust(self.roll)
            except CertificateProblem as problem:
                return f"the annotation of the CA roll of {self.host} cannot be used: a certificate in it {problem}"
            return ""
        problem_of_ca = self.cluster.server_cert.unshareable.get("ca.crt", "")
        return f"ca.crt of {self.host}'s server certificate {problem_of_ca}" if problem_of_ca else ""

    @cached_property
    def trusted_digest(self) -> str:
        """SHA-256 hex of the CAs by which readers trust its server."""
        if self.trusted:
            return hashlib.sha256(self.trusted.encode()).hexdigest()
        return self.cluster.server_cert.digests.get("ca.crt", self.server_ca.fingerprint if self.server_ca else "")

    @cached_property
    def issuer(self) -> str:
        """Name and short fingerprint of the CA that signs the certificates it issues, for messages."""
        return _short(self.cluster.ca.certificates[0])

    @cached_property
    def accepts_servers_of(self) -> frozenset[tuple[str, str]]:
        """CAs whose server certificates its readers accept, as (key digest, common name)."""
        return _valid_keys(self.cluster.remote_cert.ca, self.now)

    @cached_property
    def accepts_clients_of(self) -> frozenset[tuple[str, str]]:
        """CAs whose client certificates its mesh etcd accepts, as (key digest, common name)."""
        return _valid_keys(self.cluster.server_cert.ca, self.now)

    @cached_property
    def unusable(self) -> str:
        """Reason why its remote certificate cannot be shown to a peer; "" if it can."""
        return _unusable(self.cluster.remote_cert, self.now)

    @cached_property
    def unable_to_mint(self) -> str:
        """Reason why its CA cannot issue a client certificate that its own mesh etcd accepts; "" if it can."""
        ca, host = self.cluster.ca, self.host
        if self.server_ca is None:
            return f"the CA of {host}'s server certificate is not in its ca.crt"
        if self.unshareable:
            return self.unshareable
        if ca.unshareable:
            return f"ca.crt of Secret cilium-ca of {host} {ca.unshareable}"
        if not ca.present or not ca.certificates:
            return f"{host} has no Secret cilium-ca with a certificate"
        if not ca.has_key or ca.key_matches is not True:
            return f"Secret cilium-ca of {host} has no ca.key that belongs to its certificate"
        if self.rolling:  # its etcd was proven to accept the CA; a certificate job may overwrite ca.crt at any moment
            return "" if _valid(ca.certificates[0], self.now) else f"cilium-ca of {host} is not valid now"
        if not any(_key(certificate) in self.accepts_clients_of for certificate in ca.certificates):
            return f"cilium-ca of {host} is not the CA that its mesh etcd trusts (ca.crt of its server certificate), or it has expired"
        return "" if _valid(ca.certificates[0], self.now) else f"cilium-ca of {host} is not valid now"


def trust_between(local: TrustSide, peer: TrustSide, forced: str = AUTO) -> Trust | TrustProblem:
    """Choose the trust mode of the link from ``local`` to ``peer``: the first that works of same CA, minted, copied.

    :param forced: ``auto``, or the one mode to consider.
    :raises InvalidInput: when ``forced`` is no mode.
    """
    if forced not in TRUST_CHOICES:
        raise InvalidInput(f"trust is {forced!r}.", remedy=f"Use {one_of_modes(AUTO)}.")
    if forced == TrustMode.SAME_CA and (local.rolling or peer.rolling):
        forced = TrustMode.MINTED.value  # for as long as the roll takes
    refusals: dict[str, str] = {}
    for mode, way in WAYS.items():
        if forced in (AUTO, mode):
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


def _same_ca(local: TrustSide, peer: TrustSide) -> Trust | str:
    server_ca, client_ca, own = peer.server_ca, local.client_ca, local.cluster.remote_cert.certificate
    if local.rolling or peer.rolling:
        return f"a CA roll is under way in {peer.host if peer.rolling else local.host}"
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if client_ca is None or own is None:
        return f"the CA of {local.host}'s remote certificate is not in its ca.crt"
    if peer.server_ca_key not in local.accepts_servers_of:
        return f"{local.host} does not trust the CA that signed {peer.host}'s server certificate"
    if local.client_ca_key not in peer.accepts_clients_of:
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


def _minted(local: TrustSide, peer: TrustSide) -> Trust | str:
    cluster, per_peer = peer.cluster, peer.users_enabled
    common_name = local.user if per_peer else PLAIN_USER
    if cluster.ca_unread and (kept := _kept(local, peer, common_name)) is not None:
        return kept
    if peer.server_ca is None or peer.unable_to_mint:
        return peer.unable_to_mint
    why_name = "its own user, so that it can be revoked alone" if per_peer else f"{peer.host} has no per-peer users (auth mode legacy)"
    why = "a CA roll is under way" if local.rolling or peer.rolling else "the CAs differ"
    return Trust(
        mode=TrustMode.MINTED,
        reason=f"{why}; {peer.host}'s CA {peer.issuer} issues a client certificate for {common_name}: {why_name}",
        common_name=common_name,
        digest=_digest(peer.trusted_digest, cluster.ca.digest, common_name),
        ca=peer.trusted,
    )


def _kept(local: TrustSide, peer: TrustSide, common_name: str) -> Trust | None:
    """Return the trust of a link that stays as it is although the peer's CA cannot be read; None if its files are no good any more.

    An answer that is missing once must not rewrite a link, which the next run would rewrite again.
    """
    found = issued_certificate(local.cluster, peer.cluster, local.manager)
    if found is None or peer.server_ca is None:
        return None
    certificate, copied = found.certificate, _copied(local, peer)
    accepted = {ca.subject_key_id for ca in peer.cluster.server_cert.ca if ca.subject_key_id and _valid(ca, local.now)}
    if (
        certificate.common_name != common_name
        or not certificate.client_auth
        or not certificate.not_before <= local.now < certificate.not_after - KEPT_UNTIL
        or certificate.authority_key_id not in accepted
        or _key(found.server_ca) != peer.server_ca_key
        or (isinstance(copied, Trust) and copied.digest == found.digest)
    ):
        return None
    return Trust(
        mode=TrustMode.MINTED,
        reason=f"cilium-ca of {peer.host} cannot be read now, and the client certificate for {common_name} that it issued is good "
        f"until {certificate.not_after:%Y-%m-%d}: it stays",
        common_name=common_name,
        digest=found.digest,
        kept=True,
    )


def _copied(_local: TrustSide, peer: TrustSide) -> Trust | str:
    secret, server_ca = peer.cluster.remote_cert, peer.server_ca
    if peer.rolling:
        return f"a CA roll is under way in {peer.host}"
    if server_ca is None:
        return f"the CA of {peer.host}'s server certificate is not in its ca.crt"
    if peer.unshareable:
        return peer.unshareable
    if secret.certificate is None or secret.key_matches is not True:
        return f"{peer.host} has no usable Secret {secret.name}"
    if unfit := next(((key, why) for key, why in secret.unshareable.items() if key != "ca.crt"), None):
        return f"{unfit[0]} of {peer.host}'s remote certificate {unfit[1]}"
    if peer.client_ca_key not in peer.accepts_clients_of:
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


WAYS: Final[Mapping[TrustMode, Callable[[TrustSide, TrustSide], Trust | str]]] = {
    TrustMode.SAME_CA: _same_ca,
    TrustMode.MINTED: _minted,
    TrustMode.COPIED: _copied,
}
"""How each mode is tried for (local, peer), in the order of the modes: the decision, or why the mode fails."""


def _valid_keys(bundle: Iterable[CertificateFacts], now: datetime) -> frozenset[tuple[str, str]]:
    """Return the keys of the CAs of a bundle that are valid: Go checks the validity of roots too."""
    return frozenset(_key(certificate) for certificate in bundle if _valid(certificate, now))


def _key(ca: CertificateFacts) -> tuple[str, str]:
    """Return the public key and name by which a CA is recognised."""
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
