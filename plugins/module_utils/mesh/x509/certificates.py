# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""X.509 as Cilium's Secrets hold it: PEM bundles parsed and compared, and client certificates minted. Errors never quote the input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from ...base.library_errors import LibraryErrors
from ...base.optional_imports import optional
from ...base.redact import digest, one_line
from ..facts.cluster import CertificateFacts

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, PrivateKeyTypes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
else:
    x509 = optional("cryptography.x509")
    hashes = optional("cryptography.hazmat.primitives.hashes")
    serialization = optional("cryptography.hazmat.primitives.serialization")
    ec = optional("cryptography.hazmat.primitives.asymmetric.ec")
    ed448 = optional("cryptography.hazmat.primitives.asymmetric.ed448")
    ed25519 = optional("cryptography.hazmat.primitives.asymmetric.ed25519")
    rsa = optional("cryptography.hazmat.primitives.asymmetric.rsa")
    ExtendedKeyUsageOID = optional("cryptography.x509.oid").ExtendedKeyUsageOID
    NameOID = optional("cryptography.x509.oid").NameOID

CHAIN_LIMIT = 8  # certificates between a leaf and its root; Go's own limit is on signature checks, chains of more than three are unheard of
KEY_LIMIT = 16 * 1024  # bytes of a private key as PEM; one of 16,384 bits (OPENSSL_RSA_MAX_MODULUS_BITS) takes 12.7 KiB
NOT_BEFORE_MARGIN = timedelta(minutes=5)  # for clocks that are behind this machine's


Extension = TypeVar("Extension", bound=x509.ExtensionType)

_REMEMBERED_BYTES = 16 * 1024
"""Longest bundle that `parse` remembers, so that what a member keeps in its Secrets does not fill the memory of the operator."""


class CertificateProblem(ValueError):
    """Fault of a certificate or key, in words that can follow its name: "is not a PEM certificate"."""


def certificate_problem(words: str) -> LibraryErrors:
    """Raise CertificateProblem with these words in place of whatever ``cryptography`` raises in the block. It is a decorator too.

    Of its own errors some are no ValueError: InvalidVersion, DuplicateExtension, UnsupportedAlgorithm, InternalError.
    """
    return LibraryErrors(lambda _error: CertificateProblem(words), own=CertificateProblem)


def load_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Parse all certificates of a PEM bundle, in order.

    :raises CertificateProblem: when there is none, or one does not parse.
    """
    with certificate_problem("is not a PEM certificate"):
        return tuple(x509.load_pem_x509_certificates(pem))


def encode(certificates: Sequence[x509.Certificate]) -> bytes:
    """Return certificates as PEM, one after the other, and nothing else."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def load_der(data: bytes) -> x509.Certificate:
    """Parse one certificate in DER, as a TLS server shows it.

    :raises CertificateProblem: when it does not parse.
    """
    with certificate_problem("is not a certificate"):
        return x509.load_der_x509_certificate(data)


def load_key(pem: bytes) -> PrivateKeyTypes:
    """Parse an unencrypted private key (PKCS#1, PKCS#8 or SEC 1).

    The numbers of an RSA key are not tested against each other: that takes 40 ms for 2,048 bits, 320 ms for 4,096, and hours for numbers
    that were chosen to be long. Code that signs with a key uses ``sign``, which tests what the key made.

    :raises CertificateProblem: when it does not parse, is encrypted, or is longer than any key of 16,384 bits, which is OpenSSL's limit.
    """
    if len(pem) > KEY_LIMIT:
        raise CertificateProblem("is longer than a private key may be")
    with certificate_problem("is not an unencrypted PEM private key"):
        return serialization.load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)


def describe(certificate: x509.Certificate) -> CertificateFacts:
    """Return a certificate as facts.

    :raises CertificateProblem: when its extensions do not parse.
    """
    with certificate_problem("is not a well-formed certificate"):
        extensions = certificate.extensions
        names = _find(extensions, x509.SubjectAlternativeName)
        usage = _find(extensions, x509.ExtendedKeyUsage)
        basic = _find(extensions, x509.BasicConstraints)
        subject = _find(extensions, x509.SubjectKeyIdentifier)
        authority = _find(extensions, x509.AuthorityKeyIdentifier)
        return CertificateFacts(
            common_name=_common_name(certificate.subject),
            issuer=one_line(certificate.issuer.rfc4514_string(), 300),
            fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
            public_key=_public_key_digest(certificate),
            subject_key_id=subject.digest.hex() if subject else None,
            authority_key_id=authority.key_identifier.hex() if authority and authority.key_identifier else None,
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            dns_names=tuple(one_line(n, 253) for n in names.get_values_for_type(x509.DNSName)) if names else (),
            ip_addresses=tuple(str(a) for a in names.get_values_for_type(x509.IPAddress)) if names else (),
            is_ca=bool(basic and basic.ca),
            server_auth=_allows(usage, ExtendedKeyUsageOID.SERVER_AUTH),
            client_auth=_allows(usage, ExtendedKeyUsageOID.CLIENT_AUTH),
        )


def parse(pem: bytes) -> tuple[CertificateFacts, ...]:
    """Parse a PEM bundle to facts, in order.

    :raises CertificateProblem: when there is no certificate, or one does not parse.
    """
    return _parse_once(pem) if len(pem) <= _REMEMBERED_BYTES else _parse_once.__wrapped__(pem)


@lru_cache(maxsize=1024)
def _parse_once(pem: bytes) -> tuple[CertificateFacts, ...]:
    """Parse a bundle that may come again: every cluster of a mesh has the same CAs of its peers."""
    return tuple(describe(c) for c in load_certificates(pem))


def key_matches(certificate_pem: bytes, key_pem: bytes) -> bool:
    """Return whether the key belongs to the first certificate.

    Compares the public halves, as Go's tls.X509KeyPair does.

    :raises CertificateProblem: when either does not parse.
    """
    certificate = load_certificates(certificate_pem)[0]
    with certificate_problem("has a private key without a public half"):
        public = load_key(key_pem).public_key()
        encoded = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return digest(encoded) == _public_key_digest(certificate)


def chains_to(leaf: x509.Certificate, intermediates: Sequence[x509.Certificate], roots: Sequence[x509.Certificate]) -> bool:
    """Return whether a path of valid signatures leads from ``leaf`` to one of ``roots``, over ``intermediates`` that are CAs.

    Validity times and names are left to their own checks. A root is trusted without regard to its own extensions, as in Go; it may be the
    leaf.
    """
    path = [leaf]
    while len(path) <= CHAIN_LIMIT:
        last = path[-1]
        if any(last == root or is_signed_by(root, last) for root in roots):
            return True
        step = next((c for c in intermediates if c not in path and _is_ca(c) and is_signed_by(c, last)), None)
        if step is None:
            return False
        path.append(step)
    return False


class Issuer:
    """CA that mints client certificates.

    Make one per CA, not one per peer. ``intermediates`` are the certificates of ``ca_cert_pem`` that are not self-issued, PEM.

    :param ca_key_pem: must belong to the first certificate of ``ca_cert_pem``.
    :raises CertificateProblem: when certificate or key do not parse, do not belong together, or cannot sign.
    """

    @certificate_problem("cannot issue certificates")
    def __init__(self, ca_cert_pem: bytes, ca_key_pem: bytes) -> None:
        if not key_matches(ca_cert_pem, ca_key_pem):
            raise CertificateProblem("does not belong to its private key")
        signer = load_key(ca_key_pem)
        if not isinstance(signer, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)):
            raise CertificateProblem("has a key that cannot sign certificates")
        self._signer: CertificateIssuerPrivateKeyTypes = signer
        self._authority, *others = load_certificates(ca_cert_pem)
        # The verifier has the root; the certificates between it and the leaf must be sent along (RFC 8446, 4.4.2).
        self.intermediates = encode([c for c in (self._authority, *others) if c.issuer != c.subject])

    @certificate_problem("cannot issue certificates")
    def client_certificate(self, common_name: str, *, now: datetime, days: int) -> tuple[bytes, bytes]:
        """Mint a P-256 key and its client certificate: (certificate, key), both PEM.

        Valid from five minutes before ``now`` (aware) for ``days``, but not beyond the CA. Usage is clientAuth alone, as certgen gives
        remote certificates (charts from 1.16 on).

        :raises CertificateProblem: when the CA has expired, or its key makes no valid signature.
        """
        ends = min(now + timedelta(days=days), self._authority.not_valid_after_utc)
        if ends <= now:
            raise CertificateProblem("has expired")
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _client_certificate(self._authority, self._signer, key, common_name, now - NOT_BEFORE_MARGIN, ends)
        return (
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        )


def _client_certificate(
    authority: x509.Certificate,
    signer: CertificateIssuerPrivateKeyTypes,
    key: ec.EllipticCurvePrivateKey,
    common_name: str,
    starts: datetime,
    ends: datetime,
) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority_key_id(authority), critical=False)
    )
    return sign(builder, signer, authority)


def sign(builder: x509.CertificateBuilder, signer: CertificateIssuerPrivateKeyTypes, authority: x509.Certificate) -> x509.Certificate:
    """Sign with the key of a CA, and verify the signature with its certificate: a wrong one would tell something of the key.

    https://crypto.stanford.edu/~dabo/abstracts/faults.html (Boneh, DeMillo, Lipton 1997)

    :raises CertificateProblem: when the key makes no valid signature.
    """
    edwards = isinstance(signer, (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey))
    with certificate_problem("has a private key that makes no signature"):
        certificate = builder.sign(signer, None if edwards else hashes.SHA256())
    if not is_signed_by(authority, certificate):
        raise CertificateProblem("has a private key that makes no valid signature")
    return certificate


def authority_key_id(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return the CA's own subject key id if it has one, else the hash of its key.

    :raises CertificateProblem: when its extensions or its key do not parse.
    """
    with certificate_problem("is not a well-formed certificate"):
        own = _find(authority.extensions, x509.SubjectKeyIdentifier)
        if own is not None:
            return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
        return x509.AuthorityKeyIdentifier(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()).digest, None, None)


def _find(extensions: x509.Extensions, kind: type[Extension]) -> Extension | None:
    try:
        return extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _allows(usage: x509.ExtendedKeyUsage | None, purpose: x509.ObjectIdentifier) -> bool:
    return usage is None or purpose in usage or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def _common_name(name: x509.Name) -> str:
    values = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return one_line(values[0].value, 200) if values else ""


def _public_key_digest(certificate: x509.Certificate) -> str:
    """Return the digest of the public key.

    :raises CertificateProblem: when it is not one; cryptography parses it only now.
    """
    with certificate_problem("has no well-formed public key"):
        key = certificate.public_key()
        return digest(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _is_ca(certificate: x509.Certificate) -> bool:
    with suppress(CertificateProblem), certificate_problem("is not a well-formed certificate"):
        basic = _find(certificate.extensions, x509.BasicConstraints)
        return bool(basic and basic.ca)
    return False


@lru_cache(maxsize=1024)
def is_signed_by(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    """Return whether the certificate's signature is the issuer's."""
    with suppress(CertificateProblem), certificate_problem("is not signed by it"):
        certificate.verify_directly_issued_by(issuer)
        return True
    return False
