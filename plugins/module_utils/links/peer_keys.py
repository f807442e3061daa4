# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One link as keys of a Secret: the value that each key has to hold, and its recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from ..mesh.binding.trust_mode import ClientCertificate
from ..mesh.endpoints.endpoint import MeshEndpoint
from ..mesh.endpoints.etcd_config import LOCAL_PORT, ca_key, config_text, keys_of, local_config
from ..mesh.facts.cluster import CertificateFacts, ClusterFacts, PeerSecretFacts, SecretKeyFacts, TlsSecretFacts
from ..mesh.trust.ca_roll import BOTH, roll_of
from ..mesh.trust.link_trust import Trust
from ..mesh.versions.minors import cilium_version
from ..plan.steps import FromSecret, Literal, Minted, PlanOptions, Recipe

WORTH_RENEWING = timedelta(days=1)  # gain in lifetime below which nothing is renewed; else one near its CA's end would be in every run


# Bytes of what is minted, as PEM: a client certificate for a P-256 key, signed with RSA of 4,096 bits, and that key as PKCS 8 (241).
MINTED_CERTIFICATE_SIZE = 2048
MINTED_KEY_SIZE = 256


class DesiredKeys(NamedTuple):
    """Value that a key has to hold."""

    recipe: Recipe
    observed: str = ""  # SHA-256 hex, as observed, of a value that a Secret has already
    size: int = 0  # bytes; of a value that is still to be minted, what it will have at most

    @property
    def digest(self) -> str | None:
        """SHA-256 hex of the value; None while it is still to be minted. Only keys that exist are compared: most texts never need it."""
        if isinstance(self.recipe, Literal):
            return hashlib.sha256(self.recipe.text.encode()).hexdigest()
        return self.observed if isinstance(self.recipe, FromSecret) else None


class Link(NamedTuple):
    """One ordered pair with the endpoint and trust chosen for it."""

    local: ClusterFacts
    peer: ClusterFacts
    endpoint: MeshEndpoint
    trust: Trust


def keys_for_peer(
    link: Link, secret: PeerSecretFacts, manager: str, options: PlanOptions, now: datetime, *, aliases: bool
) -> dict[str, DesiredKeys]:
    """Return the keys with which the readers of ``secret`` reach the peer directly: its YAML and, unless the CA is shared, three files.

    :param aliases: whether the reader wants the peer's addresses in the YAML (``versions.aliases_in_config`` of ``reader_version``).
    """
    peer, trust = link.peer, link.trust
    name, ca, certificate, key = keys_of(peer.name)
    text = config_text(name, link.endpoint, aliases=aliases, mode=trust.mode, trust_digest=trust.digest)
    keys = {name: literal(text)}
    if not trust.mode.own_files:
        return keys
    if trust.kept:
        return keys | {file: current_value(link.local, secret, file) for file in (ca, certificate, key)}
    keys[ca] = literal(trust.ca) if trust.ca else _from_tls_secret(peer, peer.server_cert, "ca.crt")
    if trust.mode.client is ClientCertificate.PEER_REMOTE:
        keys[certificate] = _from_tls_secret(peer, peer.remote_cert, "tls.crt")
        keys[key] = _from_tls_secret(peer, peer.remote_cert, "tls.key")
    elif _still_good(link, secret, manager, options, now):
        keys[certificate] = current_value(link.local, secret, certificate)
        keys[key] = current_value(link.local, secret, key)
    else:
        host, user, days = peer.host, trust.common_name, options.certificate_days
        keys[certificate] = DesiredKeys(Minted(host, user, days, "certificate"), "", MINTED_CERTIFICATE_SIZE)
        keys[key] = DesiredKeys(Minted(host, user, days, "key"), "", MINTED_KEY_SIZE)
    return keys


def agents_keys(local: ClusterFacts, names: Iterable[str]) -> dict[str, DesiredKeys]:
    """Return the YAML with which the agents of ``local`` reach their own kvstoremesh, for each peer by its cluster name.

    In a CA roll, the CAs that they trust stand beside it: one Secret reaches a pod as a whole, two would not arrive together.
    """
    port = local.service.port if local.service else LOCAL_PORT
    version, roll = cilium_version(local), roll_of(local.ca)
    trusted = literal(roll.trusted) if roll is not None and roll.trusted else None
    # The comment carries their own etcd's CA: a change of it must make the agents connect anew.
    own_ca = (trusted.digest if trusted else None) or local.server_cert.digests.get("ca.crt", "")
    if roll is None or roll.stage not in BOTH or trusted is None:
        return dict.fromkeys(names, literal(local_config(local.namespace, version=version, port=port, trust_digest=own_ca)))
    keys: dict[str, DesiredKeys] = {}
    for name in names:
        file = ca_key(name)
        keys[name] = literal(local_config(local.namespace, version=version, port=port, trust_digest=own_ca, ca_file=file))
        keys[file] = trusted
    return keys


def would_conflict(observed: SecretKeyFacts | None, wanted: DesiredKeys | None, manager: str) -> bool:
    """Return whether another writer owns the key with another value than the plan would write, which server-side apply refuses.

    A key that holds the right value may have several owners: each releases it alone.
    """
    return observed is not None and wanted is not None and set(observed.managers) != {manager} and observed.digest != wanted.digest


def current_value(local: ClusterFacts, secret: PeerSecretFacts, key: str) -> DesiredKeys:
    """Return the value that the key holds now."""
    return DesiredKeys(FromSecret(local.host, secret.name, key), secret.keys[key].digest, secret.keys[key].size)


def literal(text: str) -> DesiredKeys:
    """Return a desired value that is no secret."""
    return DesiredKeys(Literal(text), "", len(text) if text.isascii() else len(text.encode()))


def _from_tls_secret(peer: ClusterFacts, secret: TlsSecretFacts, key: str) -> DesiredKeys:
    if key in secret.reencoded:
        return literal(secret.reencoded[key])
    return _existing_value(peer.host, secret.name, key, secret.digests.get(key, ""), secret.sizes.get(key, 0))


@lru_cache(maxsize=4096)
def _existing_value(host: str, secret: str, key: str, digest: str, size: int) -> DesiredKeys:
    """Return one shared value for all clusters that dial the peer."""
    return DesiredKeys(FromSecret(host, secret, key), digest, size)


def _still_good(link: Link, secret: PeerSecretFacts, manager: str, options: PlanOptions, now: datetime) -> bool:
    """Return whether the present minted certificate may stay.

    It may if it is the binding's, for the right user, from the CA that would sign now, and not near its end.
    """
    if not secret.keys:
        return False
    config_key, _ca, certificate_key, private_key = keys_of(link.peer.name)
    crt, key, text = secret.keys.get(certificate_key), secret.keys.get(private_key), secret.keys.get(config_key)
    if crt is None or key is None or crt.certificate is None or crt.certificate_key_matches is not True:
        return False
    certificate = crt.certificate
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
