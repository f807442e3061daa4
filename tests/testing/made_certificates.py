# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Certificates made on the spot, for tests."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True)
class Made:
    """A certificate with its key."""

    certificate: x509.Certificate
    private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key(self) -> bytes:
        return self.private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def make(
    common_name: str,
    *,
    issuer: Made | None = None,
    ca: bool = False,
    names: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = (),
    starts: datetime = NOW - timedelta(days=1),
    ends: datetime = NOW + timedelta(days=30),
    subject_key_id: bool = True,
    private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
) -> Made:
    """Self-signed without ``issuer``. ``names``: DNS names and IP addresses. ``private``: its key; None: a new one of P-256."""
    private = private or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    if subject_key_id:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
    return Made(builder.sign(issuer.private if issuer else private, hashes.SHA256()), private)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
