# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One link as keys of a Secret: which value each key has to hold, and where that value comes from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from .endpoints import Endpoint
from .facts import CertificateFacts, ClusterFacts, PeerSecretFacts, SecretKeyFacts, TlsSecretFacts
from .peers import LOCAL_PORT, ca_key, certificate_key, local_config, peer_config, private_key
from .steps import FromSecret, Literal, Minted, PlanOptions, Recipe
from .trust import Trust, TrustMode
from .versions import CiliumVersion, apiserver_version, cilium_version

WORTH_RENEWING = timedelta(days=1)  # what a new certificate must last longer; else one near its CA's end would be renewed in every run


class Wanted(NamedTuple):
    """What a key has to hold. ``digest`` is the SHA-256 hex of the value; None while it is still to be minted."""

    recipe: Recipe
    digest: str | None


@dataclass(frozen=True, kw_only=True)
class Link:
    """One ordered pair with what was decided for it."""

    local: ClusterFacts
    peer: ClusterFacts
    endpoint: Endpoint
    trust: Trust


def keys_for_peer(link: Link, secret: PeerSecretFacts, manager: str, options: PlanOptions, now: datetime) -> dict[str, Wanted]:
    """The keys with which the readers of ``secret`` reach the peer itself: its YAML and, unless the CA is shared, three files."""
    name, peer, trust = link.peer.name, link.peer, link.trust
    text = peer_config(name, link.endpoint, version=reader_version(link.local), mode=trust.mode, trust_digest=trust.digest)
    keys = {name: literal(text)}
    if trust.mode is TrustMode.SAME_CA:
        return keys
    pair = (certificate_key(name), private_key(name))
    keys[ca_key(name)] = _from_tls_secret(peer, peer.server_cert, "ca.crt")
    if trust.mode is TrustMode.COPIED:
        keys[pair[0]] = _from_tls_secret(peer, peer.remote_cert, "tls.crt")
        keys[pair[1]] = _from_tls_secret(peer, peer.remote_cert, "tls.key")
    elif _still_good(link, secret, manager, options, now):
        keys.update({key: as_it_is(link.local, secret, key) for key in pair})
    else:
        for key, part in zip(pair, ("certificate", "key"), strict=True):
            keys[key] = Wanted(Minted(peer.host, trust.common_name, options.certificate_days, part), None)
    return keys


def agents_key(local: ClusterFacts) -> Wanted:
    """The YAML with which the agents of ``local`` reach their own kvstoremesh."""
    port = local.service.port if local.service else LOCAL_PORT
    # The comment carries their own etcd's CA: a change of it must make the agents connect anew.
    own_ca = local.server_cert.digests.get("ca.crt", "")
    return literal(local_config(local.namespace, version=cilium_version(local), port=port, trust_digest=own_ca))


def is_taken(observed: SecretKeyFacts | None, wanted: Wanted | None, manager: str) -> bool:
    """Does somebody else hold the key with another value than we would write? Server-side apply refuses that.

    A key that holds the value already may have several owners: each lets go of it alone.
    """
    return observed is not None and wanted is not None and observed.digest != wanted.digest and set(observed.managers) != {manager}


def as_it_is(local: ClusterFacts, secret: PeerSecretFacts, key: str) -> Wanted:
    """The value that the key holds now."""
    return Wanted(FromSecret(local.host, secret.name, key), secret.keys[key].digest)


def literal(text: str) -> Wanted:
    return Wanted(Literal(text), hashlib.sha256(text.encode()).hexdigest())


def reader_version(local: ClusterFacts) -> CiliumVersion | None:
    """Cilium of whoever dials the peers: kvstoremesh, which comes in the image of clustermesh-apiserver, or the agents."""
    return (apiserver_version(local) if local.runs_kvstoremesh else None) or cilium_version(local)


def _from_tls_secret(peer: ClusterFacts, secret: TlsSecretFacts, key: str) -> Wanted:
    return Wanted(FromSecret(peer.host, secret.name, key), secret.digests.get(key, ""))


def _still_good(link: Link, secret: PeerSecretFacts, manager: str, options: PlanOptions, now: datetime) -> bool:
    """May the minted certificate that is there stay? Ours, for the right user, from the CA that would sign now, and not near its end."""
    name = link.peer.name
    crt, key, text = (secret.keys.get(k) for k in (certificate_key(name), private_key(name), name))
    certificate = crt.certificate if crt else None
    if crt is None or key is None or certificate is None or crt.certificate_key_matches is not True:
        return False
    if manager not in crt.managers or manager not in key.managers:
        return False
    if certificate.common_name != link.trust.common_name or not certificate.client_auth or certificate.not_before > now:
        return False
    issuer = link.peer.ca.certificates[0]
    if issuer.subject_key_id and certificate.authority_key_id:
        issued = issuer.subject_key_id == certificate.authority_key_id
    else:  # a CA without key identifier: the configuration was written together with the certificate and carries the CA's digest
        issued = text is not None and f"# trust-sha256: {link.trust.digest}\n" in (text.config or "")
    return issued and not _due(certificate, issuer, options, now)


def _due(certificate: CertificateFacts, issuer: CertificateFacts, options: PlanOptions, now: datetime) -> bool:
    if certificate.not_after - now > timedelta(days=options.renew_before_days):
        return False
    obtainable = min(now + timedelta(days=options.certificate_days), issuer.not_after)
    return certificate.not_after <= now or obtainable - certificate.not_after > WORTH_RENEWING
