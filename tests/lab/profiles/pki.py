# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Certificates as Helm's template functions and as certgen make them: the same subject, usages, extensions and PEM forms.

Helm (sprig genCA, genSignedCert): RSA 2048, PKCS#1 PEM, both usages on every leaf, no subject key id on leaves.
certgen (cfssl): ECDSA P-256, one usage per leaf, a subject key id everywhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .options import CaPair, KeyType

Usage = Literal["serverAuth", "clientAuth"]
BOTH: tuple[Usage, ...] = ("serverAuth", "clientAuth")
CA_DAYS = 1095  # the charts' tls.ca.certValidityDuration

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_OIDS = {"serverAuth": ExtendedKeyUsageOID.SERVER_AUTH, "clientAuth": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True)
class Issued:
    """A leaf and its key, both PEM. The key never shows in a repr."""

    cert_pem: str
    key_pem: str = field(repr=False)


def make_ca(name: str = "Cilium CA", *, days: int = CA_DAYS, key_type: KeyType = "rsa", not_before: datetime | None = None) -> CaPair:
    """A new self-signed CA. ``days`` from ``not_before`` (default now, UTC)."""
    key = _new_key(key_type)
    subject = _name(name)
    start = _start(not_before)
    certificate = (
        _builder(subject, subject, key, start, start + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(_extended(BOTH), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CaPair(_pem(certificate), _key_pem(key))


def issue(
    ca: CaPair,
    cn: str,
    *,
    dns: Sequence[str] = (),
    ips: Sequence[str] = (),
    eku: Sequence[Usage] = BOTH,
    days: int = 1095,
    key_type: KeyType = "rsa",
    not_before: datetime | None = None,
    not_after: datetime | None = None,
    subject_key_id: bool = False,
) -> Issued:
    """A leaf signed by ``ca``. ``not_after`` beats ``days``; an empty ``eku`` leaves the extension out. Times are aware UTC."""
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.encode())
    # It is a key of our own, and to test whether it is sound takes as long as to make a new one.
    signer = serialization.load_pem_private_key(ca.key_pem.encode(), password=None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(signer, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise TypeError("the CA's key is neither RSA nor ECDSA")
    key = _new_key(key_type)
    start = _start(not_before)
    builder = (
        _builder(_name(cn), issuer.subject, key, start, not_after or start + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if eku:
        builder = builder.add_extension(_extended(eku), critical=False)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns]
    names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in ips]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if subject_key_id:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Issued(_pem(builder.sign(signer, hashes.SHA256())), _key_pem(key))


def _builder(subject: x509.Name, issuer: x509.Name, key: _PrivateKey, not_before: datetime, not_after: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )


def _new_key(key_type: KeyType) -> _PrivateKey:
    if key_type == "ec":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=ca,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _extended(usages: Sequence[Usage]) -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([_OIDS[usage] for usage in usages])


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _start(not_before: datetime | None) -> datetime:
    return not_before or datetime.now(UTC)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: _PrivateKey) -> str:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
