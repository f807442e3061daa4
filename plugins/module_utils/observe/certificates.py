# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of Secret ``cilium-ca`` and of the TLS Secrets of clustermesh-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.json_fields import annotations_of, labels_of, secret_values, text
from ..base.redact import digest
from ..base.sealed import SecretStore
from ..mesh.facts.cluster import CaSecretFacts, CertificateFacts, TlsSecretFacts
from ..mesh.ownership.gitops import made_by_helm
from ..mesh.x509.certificates import CertificateProblem, chains_to, key_matches, load_certificates, parse
from ..mesh.x509.shared_pem import problem_of_shared_key, shared_certificates
from .config import config_changed
from .ownership import managers, owners_of_fields

TLS_KEYS = ("ca.crt", "tls.crt", "tls.key")


def tls_secret_facts(value: Any, name: str) -> TlsSecretFacts:
    """Return the facts of one TLS Secret, present or missing."""
    if value is None:
        return TlsSecretFacts(name=name)
    data = secret_values(value)
    problems: list[str] = []
    chain = _parsed(data, "tls.crt", problems)
    authorities = _parsed(data, "ca.crt", problems)
    reencoded, unshareable = _shared(data, {"tls.crt": bool(chain), "ca.crt": bool(authorities)})
    return TlsSecretFacts(
        name=name,
        present=True,
        missing_keys=tuple(k for k in TLS_KEYS if not data.get(k)),
        certificate=chain[0] if chain else None,
        intermediates=chain[1:],
        ca=authorities,
        key_matches=_key_matches(data, "tls.crt", "tls.key", problems) if chain else None,
        chain_valid=_chain_valid(data) if chain and authorities else None,
        digests={k: digest(data[k]) for k in TLS_KEYS if data.get(k)},
        sizes={k: len(data[k]) for k in TLS_KEYS if data.get(k)},
        reencoded=reencoded,
        unshareable=unshareable,
        owner=_owner(value),
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        changed=config_changed(value),
        problem="; ".join(problems),
    )


def ca_secret_facts(value: Any) -> CaSecretFacts:
    """Return the facts of ``cilium-ca``: ``ca.crt`` and ``ca.key``, or ``tls.crt`` and ``tls.key`` where cert-manager made it."""
    if value is None:
        return CaSecretFacts()
    data = _ca_values(value)
    problems: list[str] = []
    certificates = _parsed(data, "ca.crt", problems)
    return CaSecretFacts(
        present=True,
        certificates=certificates,
        has_key=bool(data.get("ca.key")),
        key_matches=_key_matches(data, "ca.crt", "ca.key", problems) if certificates else None,
        digest=digest(data["ca.crt"]) if data.get("ca.crt") else "",
        unshareable=_shared(data, {"ca.crt": True})[1].get("ca.crt", "") if certificates else "",
        annotations=annotations_of(value),
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        problem="; ".join(problems),
    )


def keep_values(store: SecretStore, cluster: str, found: Mapping[str, Any]) -> None:
    """Store the values that a later step may have to copy or to sign with.

    ``cilium-ca``: "ca.crt", "ca.key" (under these names also in cert-manager's form); the remote certificate: all three keys; the server
    certificate: "ca.crt" and "tls.crt"; the admin and local certificates: "tls.crt", from which they are issued anew.
    """
    wanted = {
        "cilium-ca": _ca_values(found["ca"]),
        "clustermesh-apiserver-remote-cert": {k: v for k, v in secret_values(found["remote_cert"]).items() if k in TLS_KEYS},
        "clustermesh-apiserver-server-cert": {k: v for k, v in secret_values(found["server_cert"]).items() if k != "tls.key"},
        "clustermesh-apiserver-admin-cert": {k: v for k, v in secret_values(found["admin_cert"]).items() if k == "tls.crt"},
        "clustermesh-apiserver-local-cert": {k: v for k, v in secret_values(found["local_cert"]).items() if k == "tls.crt"},
    }
    for secret, values in wanted.items():
        for key, value in values.items():
            if value:
                store.put(cluster, secret, key, value)


def _ca_values(value: Any) -> dict[str, bytes]:
    """Return certificate and key from the same pair of names: one of each would not belong together."""
    data = secret_values(value)
    certificate, key = ("ca.crt", "ca.key") if data.get("ca.key") or not data.get("tls.crt") else ("tls.crt", "tls.key")
    return {"ca.crt": data.get(certificate, b""), "ca.key": data.get(key, b"")}


def _parsed(data: Mapping[str, bytes], key: str, problems: list[str]) -> tuple[CertificateFacts, ...]:
    if not data.get(key):
        return ()
    try:
        return parse(data[key])
    except CertificateProblem as problem:
        problems.append(f"{key} {problem}")
        return ()


def _shared(data: Mapping[str, bytes], parsed: Mapping[str, bool]) -> tuple[dict[str, str], dict[str, str]]:
    """Return key -> PEM for other clusters where the text has more in it, and key -> why no other cluster gets it.

    :param parsed: keys with certificates, and whether they were parsed; others are not read.
    """
    reencoded: dict[str, str] = {}
    unshareable: dict[str, str] = {}
    for key in (key for key, valid in parsed.items() if valid):
        try:
            text = shared_certificates(data[key])
        except CertificateProblem as problem:
            unshareable[key] = str(problem)
            continue
        if text != data[key]:
            reencoded[key] = text.decode()
    if data.get("tls.key") and (problem_of_key := problem_of_shared_key(data["tls.key"])):
        unshareable["tls.key"] = problem_of_key
    return reencoded, unshareable


def _key_matches(data: Mapping[str, bytes], certificate: str, key: str, problems: list[str]) -> bool | None:
    if not data.get(key):
        return None
    try:
        return key_matches(data[certificate], data[key])
    except CertificateProblem as problem:  # the certificate is known to parse, so it is the key's
        problems.append(f"{key} {problem}")
        return None


def _chain_valid(data: Mapping[str, bytes]) -> bool:
    leaf, *intermediates = load_certificates(data["tls.crt"])
    return chains_to(leaf, intermediates, load_certificates(data["ca.crt"]))


def _owner(value: Any) -> str:
    """Return the program that renews the Secret. cert-manager copies Helm's labels in some setups, so its own annotation counts first."""
    notes = annotations_of(value)
    if "cert-manager.io/certificate-name" in notes:
        return "cert-manager"
    if made_by_helm(labels_of(value), notes):
        return "Helm"
    writers = owners_of_fields(value, "data").get("tls.crt") or managers(value)
    if any("certgen" in writer for writer in writers):
        return "certgen"  # its field manager is its user agent: cilium-certgen
    return writers[0] if writers else ""
