# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of the control planes (not Cilium's own; those belong to the profile): one CA per cluster, P-256, two days."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key on disk."""

    cert: Path
    key: Path


class Authority:
    """A CA whose files lie in ``folder``; ``ca.crt`` is there, its key stays in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.cert = folder / "ca.crt"
        self.cert.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, file: str, common_name: str, *, groups: Sequence[str] = (), names: Sequence[str] = ()) -> Pair:
        """A certificate for serving (``names``: DNS names and addresses) and for clients (``groups``: Kubernetes groups)."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = _builder(subject, self._name, key.public_key()).add_extension(usages, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        pair.cert.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        write_private(pair.key, _key_pem(key))
        return pair


def service_account_key(folder: Path) -> Path:
    """The key that signs and verifies ServiceAccount tokens."""
    path = folder / "service-accounts.key"
    write_private(path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    return path


def kubeconfig(name: str, url: str, ca: Path, client: Pair) -> dict[str, object]:
    """A kubeconfig with one context called ``name``, everything embedded."""

    def embedded(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode("ascii")

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": embedded(ca)}}],
        "users": [{"name": name, "user": {"client-certificate-data": embedded(client.cert), "client-key-data": embedded(client.key)}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def merged_kubeconfig(configs: Sequence[dict[str, object]]) -> dict[str, object]:
    """One kubeconfig with the contexts of all; the first is the current one."""
    merged: dict[str, object] = {"apiVersion": "v1", "kind": "Config", "current-context": configs[0]["current-context"]}
    for key in ("clusters", "users", "contexts"):
        entries: list[object] = []
        for config in configs:
            part = config[key]
            assert isinstance(part, list)
            entries.extend(part)
        merged[key] = entries
    return merged


def write_yaml(path: Path, content: dict[str, object]) -> None:
    write_private(path, yaml.safe_dump(content, sort_keys=False).encode())


def write_private(path: Path, content: bytes) -> None:
    """Write so that no one else could ever have read it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # Not PKCS8: kube-apiserver takes no public key out of that (k8s.io/client-go/util/keyutil, ParsePublicKeysPEM).
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(minutes=5)).not_valid_after(now + _LIFETIME)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
