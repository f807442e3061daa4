# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Creation of CAs, and of leaf certificates that another CA issues again, in memory. Errors never quote key material."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ..base.optional_imports import optional
from ..mesh.x509.certificates import (
    NOT_BEFORE_MARGIN,
    CertificateProblem,
    authority_key_id,
    certificate_problem,
    key_matches,
    load_certificates,
    load_key,
    sign,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
else:
    x509 = optional("cryptography.x509")
    hashes = optional("cryptography.hazmat.primitives.hashes")
    serialization = optional("cryptography.hazmat.primitives.serialization")
    ec = optional("cryptography.hazmat.primitives.asymmetric.ec")
    rsa = optional("cryptography.hazmat.primitives.asymmetric.rsa")
    ExtendedKeyUsageOID = optional("cryptography.x509.oid").ExtendedKeyUsageOID
    NameOID = optional("cryptography.x509.oid").NameOID

COMMON_NAME: Final = "Cilium CA"  # certgen's --ca-common-name and Helm's genCA in every chart
CA_DAYS: Final = 1095  # the charts' tls.ca.certValidityDuration
RSA_BITS: Final = 2048  # sprig's genCA


@certificate_problem("cannot be replaced by one of its kind")
def new_authority(like: bytes, common_name: str, *, now: datetime, days: int) -> tuple[bytes, bytes]:
    """Create a self-signed CA with a new key of the kind of the CA ``like`` (PEM): (certificate, key), PEM.

    RSA 2048 as Helm's, else ECDSA P-256 as certgen's, with their extensions. ``now`` is aware.

    :raises CertificateProblem: ``like`` is not a certificate.
    """
    key = _new_key(load_certificates(like)[0])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - NOT_BEFORE_MARGIN)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_ca_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(builder.sign(key, hashes.SHA256())), _key_pem(key)


@certificate_problem("cannot be issued again")
def issue_again(leaf: bytes, ca_certificate: bytes, ca_key: bytes, *, now: datetime) -> tuple[bytes, bytes]:
    """Issue the leaf again from this CA, with a new key of the same kind: (certificate and intermediates, key), PEM.

    Subject, names, usages and lifetime are those of ``leaf``; the certificate does not outlive the CA.

    :raises CertificateProblem: the CA cannot sign, or the leaf is not well-formed.
    """
    old = load_certificates(leaf)[0]
    authority, *others = load_certificates(ca_certificate)
    if not key_matches(ca_certificate, ca_key):
        raise CertificateProblem("does not belong to its private key")
    signer = load_key(ca_key)
    if not isinstance(signer, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise CertificateProblem("has a key that is neither RSA nor ECDSA")
    ends = min(now + (old.not_valid_after_utc - old.not_valid_before_utc), authority.not_valid_after_utc)
    if ends <= now:
        raise CertificateProblem("has expired")
    key = _new_key(old)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - NOT_BEFORE_MARGIN)
        .not_valid_after(ends)
        .add_extension(authority_key_id(authority), critical=False)
    )
    for extension in _copied_extensions(old, key):
        builder = builder.add_extension(extension.value, critical=extension.critical)
    between = b"".join(_pem(c) for c in (authority, *others) if c.issuer != c.subject)
    return _pem(sign(builder, signer, authority)) + between, _key_pem(key)


@certificate_problem("has no serial number")
def serial(certificate: bytes) -> str:
    """Return the serial number of the first certificate of a PEM text, as hexadecimal without leading zeros.

    :raises CertificateProblem: there is no certificate.
    """
    return f"{load_certificates(certificate)[0].serial_number:x}"


def _copied_extensions(
    old: x509.Certificate, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
) -> list[x509.Extension[x509.ExtensionType]]:
    """Return the extensions of the old certificate; those about keys have the values of the new ones."""
    found: list[x509.Extension[x509.ExtensionType]] = []
    with certificate_problem("is not a well-formed certificate"):
        for extension in old.extensions:
            if isinstance(extension.value, x509.AuthorityKeyIdentifier):
                continue
            value = extension.value
            if isinstance(value, x509.SubjectKeyIdentifier):
                value = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            found.append(x509.Extension(extension.oid, extension.critical, value))
    return found


def _new_key(like: x509.Certificate) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    if isinstance(like.public_key(), rsa.RSAPublicKey):
        return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    return ec.generate_private_key(ec.SECP256R1())


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=True,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key as PKCS#1 or SEC 1, the forms in which Helm and certgen write keys."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
