# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Certificates of the lab's profiles carry what real ones carry, and the bad ones are bad in one way only."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.lab.profiles import CaPair, Manifest, ProfileOptions, build, ca_of, make_ca, reissue
from tests.lab.profiles.options import TlsMethod
from tests.lab.profiles.pki import issue

SERVER_NAMES = ["clustermesh-apiserver.cilium.io", "*.mesh.cilium.io", "clustermesh-apiserver.kube-system.svc", "127.0.0.1", "::1"]
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
LEAVES = {
    "clustermesh-apiserver-server-cert": ("clustermesh-apiserver.cilium.io", 1095, SERVER_NAMES, SERVER),
    "clustermesh-apiserver-admin-cert": ("admin-c1", 1095, [], CLIENT),
    "clustermesh-apiserver-remote-cert": ("remote", 1095, [], CLIENT),
    "clustermesh-apiserver-local-cert": ("local-c1", 1095, [], CLIENT),
}


def options(**values: Any) -> ProfileOptions:
    return ProfileOptions(**{"cluster_name": "c1", "cluster_id": 1, "key_type": "ec", **values})


def secrets(asked: ProfileOptions) -> dict[str, Manifest]:
    return {item["metadata"]["name"]: item for item in build(asked) if item["kind"] == "Secret"}


def certificate(secret: Manifest, key: str = "tls.crt") -> x509.Certificate:
    return x509.load_pem_x509_certificate(b64decode(secret["data"][key]))


def names(cert: x509.Certificate) -> list[str]:
    try:
        extension = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*extension.get_values_for_type(x509.DNSName), *map(str, extension.get_values_for_type(x509.IPAddress))]


def usages(cert: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def has_subject_key_id(cert: x509.Certificate) -> bool:
    return any(isinstance(extension.value, x509.SubjectKeyIdentifier) for extension in cert.extensions)


def days(cert: x509.Certificate) -> int:
    return (cert.not_valid_after_utc - cert.not_valid_before_utc).days


def test_helm_makes_rsa_leaves_with_both_usages_and_no_subject_key_id() -> None:
    made = secrets(options(key_type="rsa"))
    for name, (cn, validity, san, _) in LEAVES.items():
        cert = certificate(made[name])
        assert cert.subject.rfc4514_string() == f"CN={cn}"
        assert (days(cert), names(cert), usages(cert)) == (validity, san, [SERVER, CLIENT])
        assert not has_subject_key_id(cert)
        key = cert.public_key()
        assert isinstance(key, rsa.RSAPublicKey)
        assert key.key_size == 2048
        assert b64decode(made[name]["data"]["tls.key"]).startswith(b"-----BEGIN RSA PRIVATE KEY-----")
        assert made[name]["type"] == "kubernetes.io/tls"
    hubble = certificate(made["hubble-server-certs"])
    assert (days(hubble), names(hubble)) == (365, ["*.c1.hubble-grpc.cilium.io"])


def test_the_ca_signs_every_leaf_and_is_in_each_of_them() -> None:
    made = secrets(options())
    ca = certificate(made["cilium-ca"], "ca.crt")
    assert ca.subject.rfc4514_string() == "CN=Cilium CA"
    assert (days(ca), usages(ca), has_subject_key_id(ca)) == (1095, [SERVER, CLIENT], True)
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    for name in [*LEAVES, "hubble-server-certs"]:
        leaf = certificate(made[name])
        leaf.verify_directly_issued_by(ca)
        assert made[name]["data"]["ca.crt"] == made["cilium-ca"]["data"]["ca.crt"]
        assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        authority = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
        assert authority == ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
        key = serialization.load_pem_private_key(b64decode(made[name]["data"]["tls.key"]), None)
        assert key.public_key() == leaf.public_key()


def test_certgen_makes_ecdsa_leaves_with_one_usage_that_helm_does_not_own() -> None:
    made = secrets(options(tls_method="cronJob", key_type="rsa"))
    for name, (cn, validity, san, usage) in LEAVES.items():
        cert = certificate(made[name])
        assert cert.subject.rfc4514_string() == f"CN={cn}"
        assert (days(cert), names(cert), usages(cert)) == (validity, san, [usage])
        assert has_subject_key_id(cert)
        assert isinstance(cert.public_key(), ec.EllipticCurvePublicKey)
        assert "labels" not in made[name]["metadata"]
    assert isinstance(certificate(made["cilium-ca"], "ca.crt").public_key(), rsa.RSAPublicKey), "Helm makes it, for Hubble"


@pytest.mark.parametrize("version", ["1.16", "1.17", "1.18", "1.19", "1.20"])
def test_the_cronjob_can_make_the_leaves_again(version: str) -> None:
    (job,) = (item for item in build(options(tls_method="cronJob", version=version)) if item["kind"] == "CronJob")
    assert job["metadata"]["name"] == "clustermesh-apiserver-generate-certs"
    (certgen,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert "--ca-reuse-secret" in certgen["args"]
    for name, (cn, _, _, _) in LEAVES.items():
        assert f"- name: {name}\n" in certgen["env"][0]["value"]
        assert f"commonName: {cn}\n" in certgen["env"][0]["value"]
    assert not any(item["kind"] == "CronJob" for item in build(options(version=version)))


def test_provided_leaves_chain_to_a_ca_that_is_not_cilium_ca() -> None:
    made = secrets(options(tls_method="provided"))
    server = made["clustermesh-apiserver-server-cert"]
    certificate(server).verify_directly_issued_by(certificate(server, "ca.crt"))
    assert server["data"]["ca.crt"] != made["cilium-ca"]["data"]["ca.crt"]
    assert "labels" not in server["metadata"]
    certificate(made["hubble-server-certs"]).verify_directly_issued_by(certificate(made["cilium-ca"], "ca.crt"))


def test_only_cluster_mode_names_the_cluster_in_its_outgoing_certificate() -> None:
    for mode, cn in (("legacy", "remote"), ("migration", "remote"), ("cluster", "remote-c1")):
        cert = certificate(secrets(options(auth_mode=mode))["clustermesh-apiserver-remote-cert"])
        assert cert.subject.rfc4514_string() == f"CN={cn}"


def test_a_shared_ca_is_used_as_given() -> None:
    ca = make_ca(key_type="ec")
    one, two = (secrets(options(cluster_name=name, ca=ca)) for name in ("c1", "c2"))
    assert ca_of(one["cilium-ca"]) == ca_of(two["cilium-ca"]) == ca
    assert certificate(secrets(options())["cilium-ca"], "ca.crt") != certificate(one["cilium-ca"], "ca.crt"), (
        "else every cluster has its own"
    )


def test_keys_never_show_in_a_repr() -> None:
    ca = make_ca(key_type="ec")
    assert "PRIVATE" not in repr(ca) + repr(issue(ca, "remote", key_type="ec")) + repr(options(ca=ca))


@pytest.fixture
def ca() -> CaPair:
    return make_ca(key_type="ec")


def test_an_expired_leaf_is_expired_and_nothing_else(ca: CaPair) -> None:
    cert = certificate(reissue.expired(options(), "clustermesh-apiserver-server-cert", ca))
    assert timedelta(hours=23) < datetime.now(UTC) - cert.not_valid_after_utc < timedelta(hours=25)
    assert (names(cert), days(cert)) == (SERVER_NAMES, 1095)
    cert.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.cert_pem.encode()))


def test_server_certificates_that_lack_names(ca: CaPair) -> None:
    assert names(certificate(reissue.without_san(options(), ca))) == []
    assert "*.mesh.cilium.io" not in names(certificate(reissue.without_mesh_name(options(), ca)))
    chosen = reissue.reissue_server_cert(
        options(), ca, dns_names=["mesh.example.org"], ip_addresses=["127.0.9.1"], not_after=datetime(2060, 1, 1, tzinfo=UTC)
    )
    assert names(certificate(chosen)) == ["mesh.example.org", "127.0.9.1"]
    assert certificate(chosen).not_valid_after_utc == datetime(2060, 1, 1, tzinfo=UTC)


def test_a_leaf_of_another_ca_breaks_the_chain(ca: CaPair) -> None:
    secret = reissue.of_other_ca(options(), "clustermesh-apiserver-remote-cert", ca)
    assert b64decode(secret["data"]["ca.crt"]).decode() == ca.cert_pem
    with pytest.raises((ValueError, TypeError, InvalidSignature)):
        certificate(secret).verify_directly_issued_by(certificate(secret, "ca.crt"))


def test_a_ca_replaced_too_late_is_not_the_one_in_the_leaves() -> None:
    asked = options()
    made = secrets(asked)
    late = reissue.other_ca_secret(asked)
    assert late["data"]["ca.crt"] != made["clustermesh-apiserver-server-cert"]["data"]["ca.crt"]
    assert late["metadata"] == made["cilium-ca"]["metadata"]


def test_half_made_secrets(ca: CaPair) -> None:
    secret = reissue.reissue(options(), "clustermesh-apiserver-server-cert", ca)
    assert sorted(reissue.with_key(secret, "tls.key", None)["data"]) == ["ca.crt", "tls.crt"]
    assert b64decode(reissue.with_key(secret, "tls.crt", "no PEM")["data"]["tls.crt"]) == b"no PEM"
    assert len(secret["data"]) == 3, "the original is left alone"


def test_a_leaf_that_an_installation_lacks_is_named(ca: CaPair) -> None:
    with pytest.raises(ValueError, match="clustermesh-apiserver-local-cert"):
        reissue.reissue(options(kvstoremesh=False), "clustermesh-apiserver-local-cert", ca)


@pytest.mark.parametrize("method", ["helm", "cronJob", "provided"])
def test_every_method_makes_the_same_set_of_secrets(method: TlsMethod) -> None:
    assert set(secrets(options(tls_method=method))) == {"cilium-ca", "hubble-server-certs", *LEAVES}
