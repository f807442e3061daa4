# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading, comparing and minting certificates."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import hypothesis.strategies as st
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import (
    CertificateProblem,
    Issuer,
    chains_to,
    key_matches,
    load_certificates,
    load_key,
    parse,
)
from tests.testing.made_certificates import NOW, Made, make

SERVER_NAMES = ("clustermesh-apiserver.cilium.io", "*.mesh.cilium.io", "clustermesh-apiserver.kube-system.svc", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def authority() -> Made:
    return make("Cilium CA", ca=True)


def test_a_server_certificate_is_read_with_its_names_usages_and_issuer(authority: Made) -> None:
    made = make("clustermesh-apiserver.cilium.io", issuer=authority, names=SERVER_NAMES, usages=[ExtendedKeyUsageOID.SERVER_AUTH])
    [facts] = parse(made.pem)
    assert facts.common_name == "clustermesh-apiserver.cilium.io"
    assert facts.issuer == "CN=Cilium CA"
    assert facts.dns_names == SERVER_NAMES[:3]
    assert facts.ip_addresses == ("127.0.0.1", "::1")
    assert (facts.server_auth, facts.client_auth, facts.is_ca) == (True, False, False)
    assert facts.not_after == made.certificate.not_valid_after_utc and facts.not_after.tzinfo is not None
    assert len(facts.fingerprint) == len(facts.public_key) == 64


def test_a_certificate_without_extended_usages_may_be_both_server_and_client(authority: Made) -> None:
    [facts] = parse(make("x", issuer=authority).pem)
    assert facts.server_auth and facts.client_auth


def test_all_certificates_of_a_bundle_are_read_in_order(authority: Made) -> None:
    assert [c.common_name for c in parse(make("leaf", issuer=authority).pem + authority.pem)] == ["leaf", "Cilium CA"]


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN CERTIFICATE-----\nQ0FOQVJZ\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_named_as_such_and_not_quoted(content: bytes) -> None:
    with pytest.raises(CertificateProblem) as caught:
        parse(content)
    assert str(caught.value) == "is not a PEM certificate"
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_key_matches_only_its_own_certificate(authority: Made) -> None:
    first, second = make("a", issuer=authority), make("b", issuer=authority)
    assert key_matches(first.pem, first.key)
    assert not key_matches(first.pem, second.key)
    assert key_matches(first.pem + authority.pem, first.key)


def test_a_broken_key_is_a_problem_that_does_not_quote_it(authority: Made) -> None:
    with pytest.raises(CertificateProblem, match=r"^is not an unencrypted PEM private key$"):
        key_matches(authority.pem, b"-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n")


def chain(leaf: Made, intermediates: list[Made], roots: list[Made]) -> bool:
    return chains_to(leaf.certificate, [m.certificate for m in intermediates], [r.certificate for r in roots])


def test_a_leaf_chains_to_its_own_ca_and_not_to_another_of_the_same_name(authority: Made) -> None:
    leaf, impostor = make("x", issuer=authority), make("Cilium CA", ca=True)
    assert chain(leaf, [], [authority])
    assert not chain(leaf, [], [impostor])
    assert chain(leaf, [], [impostor, authority])
    assert not chain(leaf, [], [])


def test_intermediates_are_followed_when_they_are_cas(authority: Made) -> None:
    middle = make("middle", issuer=authority, ca=True)
    lower = make("lower", issuer=middle, ca=True)
    leaf = make("x", issuer=lower)
    assert chain(leaf, [middle, lower], [authority])
    assert not chain(leaf, [middle], [authority])
    not_ca = make("not a CA", issuer=authority)
    assert not chain(make("y", issuer=not_ca), [not_ca], [authority])


def test_an_expired_ca_still_chains_because_times_have_their_own_check() -> None:
    old = make("old", ca=True, starts=NOW - timedelta(days=9), ends=NOW - timedelta(days=1))
    assert chain(make("x", issuer=old), [], [old])


def test_a_self_signed_root_inside_tls_crt_does_not_loop(authority: Made) -> None:
    stranger = make("stranger", ca=True)
    leaf = make("x", issuer=authority)
    assert not chain(leaf, [authority, authority, leaf], [stranger])


def mint(authority: Made, common_name: str, days: int = 1) -> tuple[bytes, bytes]:
    return Issuer(authority.pem, authority.key).client_certificate(common_name, now=NOW, days=days)


def test_a_minted_certificate_is_a_client_of_that_ca_and_nothing_else(authority: Made) -> None:
    certificate, key = mint(authority, "remote-c1", days=10)
    [facts] = parse(certificate)
    assert facts.common_name == "remote-c1"
    assert (facts.client_auth, facts.server_auth, facts.is_ca) == (True, False, False)
    assert facts.not_before == NOW - timedelta(minutes=5)
    assert facts.not_after == NOW + timedelta(days=10)
    assert facts.authority_key_id == parse(authority.pem)[0].subject_key_id
    assert key_matches(certificate, key)
    assert chains_to(load_certificates(certificate)[0], [], [authority.certificate])
    assert isinstance(serialization.load_pem_private_key(key, None), ec.EllipticCurvePrivateKey)


def test_a_minted_certificate_does_not_outlive_its_ca() -> None:
    authority = make("short", ca=True, ends=NOW + timedelta(days=3))
    assert parse(mint(authority, "remote", days=365)[0])[0].not_after == NOW + timedelta(days=3)


def test_nothing_is_minted_from_an_expired_ca_or_with_a_foreign_key(authority: Made) -> None:
    expired = make("old", ca=True, starts=NOW - timedelta(days=9), ends=NOW - timedelta(days=1))
    with pytest.raises(CertificateProblem, match="has expired"):
        mint(expired, "remote")
    with pytest.raises(CertificateProblem, match="does not belong"):
        Issuer(authority.pem, expired.key)


RSA_KEY = rsa.generate_private_key(65537, 2048)
RSA_AUTHORITY = make("Cilium CA", ca=True, private=RSA_KEY)
NUMBERS = RSA_KEY.private_numbers()


def der(numbers: Sequence[int]) -> bytes:
    """An RSAPrivateKey of RFC 8017, A.1.2, of any numbers, as PEM."""

    def field(tag: int, value: bytes) -> bytes:
        length = len(value).to_bytes((len(value).bit_length() + 7) // 8)  # the shortest form, as DER demands it
        return bytes([tag]) + (length if len(value) < 128 else bytes([0x80 + len(length)]) + length) + value

    body = field(0x30, b"".join(field(0x02, number.to_bytes(number.bit_length() // 8 + 1)) for number in numbers))
    return b"-----BEGIN RSA PRIVATE KEY-----\n" + base64.encodebytes(body) + b"-----END RSA PRIVATE KEY-----\n"


@given(st.dictionaries(st.integers(3, 8), st.one_of(st.integers(0, 255), st.integers(0, 2**64), st.integers(2**1000, 2**2100)), min_size=1))
def test_a_key_whose_numbers_do_not_fit_together_makes_no_wrong_certificate(wrong: Mapping[int, int]) -> None:
    """Testing the numbers of a key takes long. So each certificate is verified instead, before anybody sees its signature."""
    public = NUMBERS.public_numbers
    numbers = [0, public.n, public.e, NUMBERS.d, NUMBERS.p, NUMBERS.q, NUMBERS.dmp1, NUMBERS.dmq1, NUMBERS.iqmp]
    for place, number in wrong.items():
        numbers[place] = numbers[place] ^ number if number < 256 else number
    try:
        certificate, _key = Issuer(RSA_AUTHORITY.pem, der(numbers)).client_certificate("remote", now=NOW, days=1)
    except CertificateProblem as problem:
        assert problem.__suppress_context__ or problem.__context__ is None
        return
    load_certificates(certificate)[0].verify_directly_issued_by(RSA_AUTHORITY.certificate)


def test_a_text_that_is_longer_than_any_private_key_is_not_read() -> None:
    with pytest.raises(CertificateProblem, match="longer than a private key may be"):
        load_key(RSA_AUTHORITY.key + b"\n" * (16 * 1024))


def test_a_ca_without_key_identifiers_can_still_be_minted_from() -> None:
    authority = make("plain", ca=True, subject_key_id=False)
    assert parse(mint(authority, "remote")[0])[0].authority_key_id is not None


def test_two_minted_certificates_differ_in_key_and_serial(authority: Made) -> None:
    first, second = (mint(authority, "remote") for _ in range(2))
    serials = {x509.load_pem_x509_certificate(c[0]).serial_number for c in (first, second)}
    assert len(serials) == 2 and first[1] != second[1]


def test_a_tls_server_that_trusts_the_ca_accepts_the_minted_certificate(authority: Made, tmp_path: Path) -> None:
    server = make("server", issuer=authority, names=["127.0.0.1"])
    certificate, key = mint(authority, "remote-c1")
    files = {"server.pem": server.pem + server.key, "client.pem": certificate + key, "ca.pem": authority.pem}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    listening.verify_mode = ssl.CERT_REQUIRED
    listening.load_cert_chain(tmp_path / "server.pem")
    dialling = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    dialling.load_cert_chain(tmp_path / "client.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen: list[object] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with listening.wrap_socket(connection, server_side=True) as tls:
                seen.append(tls.getpeercert())
                tls.sendall(b"welcome")

        thread = threading.Thread(target=serve)
        thread.start()
        with (
            socket.create_connection(listener.getsockname()) as plain,
            dialling.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
        ):
            assert tls.recv(7) == b"welcome"
        thread.join(5)
    assert "remote-c1" in str(seen)
