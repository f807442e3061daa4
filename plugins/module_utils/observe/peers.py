# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of Secrets ``cilium-clustermesh`` and ``cilium-kvstoremesh``: content and owners of each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..base.json_fields import annotations_of, labels_of, secret_values, text
from ..base.redact import digest
from ..base.sealed import SecretStore
from ..base.yaml_reader import load_yaml
from ..mesh.facts.cluster import CertificateFacts, PeerSecretFacts, SecretKeyFacts
from ..mesh.x509.certificates import CertificateProblem, key_matches, parse
from .ownership import managers, owners_of_fields

CERTIFICATE = ".etcd-client.crt"
AUTHORITY = ".etcd-client-ca.crt"
KEY = ".etcd-client.key"
CONFIG_LIMIT = 64 * 1024  # bytes; a configuration has a few hundred, and a larger text is not parsed


def peer_secret_facts(value: Any, name: str) -> PeerSecretFacts:
    """Return the facts of one of the two Secrets, present or missing."""
    if value is None:
        return PeerSecretFacts(name=name)
    data = secret_values(value)
    owners = owners_of_fields(value, "data")
    return PeerSecretFacts(
        name=name,
        present=True,
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        keys={key: _key_facts(key, data, owners.get(key, ())) for key in sorted(data)},
        managers=managers(value),
        labels=labels_of(value),
        annotations=annotations_of(value),
    )


def keep_values(store: SecretStore, cluster: str, name: str, value: Any) -> None:
    """Store every key: server-side apply withdraws a key that the manager owns and does not send again."""
    for key, content in secret_values(value).items():
        store.put(cluster, name, key, content)


def _key_facts(key: str, data: Mapping[str, bytes], owners: tuple[str, ...]) -> SecretKeyFacts:
    content = data[key]
    certificate = _certificate(content) if key.endswith((CERTIFICATE, AUTHORITY)) else None
    matches = None
    if certificate is not None and key.endswith(CERTIFICATE):
        matches = _matches(content, data.get(key.removesuffix(CERTIFICATE) + KEY, b""))
    return SecretKeyFacts(
        digest=digest(content),
        size=len(content),
        managers=owners,
        config=_config(content),
        certificate=certificate,
        certificate_key_matches=matches,
    )


def _certificate(content: bytes) -> CertificateFacts | None:
    try:
        return parse(content)[0]
    except CertificateProblem:
        return None


def _matches(certificate: bytes, key: bytes) -> bool | None:
    try:
        return key_matches(certificate, key) if key else None
    except CertificateProblem:
        return False


def _config(content: bytes) -> str | None:
    """Return the text if Cilium would take it for a peer (it contains "endpoints:": pkg/clustermesh/common) and it holds no credentials."""
    if b"endpoints:" not in content or b"-----BEGIN" in content or len(content) > CONFIG_LIMIT:
        return None
    try:
        config = content.decode()
        parsed = load_yaml(config)
    except ValueError:
        return None
    if not isinstance(parsed, dict) or any(str(k).lower() in ("username", "password") for k in parsed):
        return None  # the etcd client's keys are read through encoding/json, which ignores case
    endpoints = parsed.get("endpoints")
    if not isinstance(endpoints, list) or any(not isinstance(e, str) or _names_a_user(e) for e in endpoints):
        return None
    return config


def _names_a_user(endpoint: str) -> bool:
    try:
        return "@" in urlsplit(endpoint).netloc
    except ValueError:
        return True
