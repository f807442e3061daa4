# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a member writes around and into its certificates never reaches the Secrets of others."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.secret_values import resolve_secret_values
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.peer_keys import MINTED_CERTIFICATE_SIZE, MINTED_KEY_SIZE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import (
    MARK,
    Roll,
    RollStage,
    shared_trust,
    write_roll,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import (
    CertificateProblem,
    Issuer,
    load_certificates,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.shared_pem import (
    MOST_BYTES,
    problem_of_shared_key,
    shared_certificates,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.certificates import (
    ca_secret_facts,
    keep_values,
    tls_secret_facts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApplySecret, Literal, Plan, PlanOptions, Step
from tests.testing.facts_builders import cluster_facts, context_of, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.made_certificates import NOW, Made, make

SERVER, REMOTE, CA = "clustermesh-apiserver-server-cert", "clustermesh-apiserver-remote-cert", "cilium-ca"
ENDPOINTS = b"endpoints:\n- https://evil.example:2379\ntrusted-ca-file: /etc/ssl/certs/ca.crt\n"
MESH = mesh_of("c1", "c2")


@cache
def authority() -> Made:
    return make("Cilium CA", ca=True)


@cache
def leaf() -> Made:
    return make("remote", issuer=authority())


@cache
def other(number: int) -> Made:
    return make(f"CA {number}", ca=True)


def secret(name: str, **data: bytes) -> dict[str, Any]:
    values = {key.replace("_", "."): b64encode(value).decode() for key, value in data.items()}
    return {"metadata": {"name": name, "uid": "u"}, "data": values}


def observed(
    ca_crt: bytes, *, tls_crt: bytes = b"", tls_key: bytes = b"", ca_key: bool = True, mark: str = ""
) -> tuple[ClusterFacts, SecretStore]:
    """c2 with this text as the CA of its certificates, and its values as an observation keeps them."""
    made = {"tls_crt": tls_crt or leaf().pem, "tls_key": tls_key or leaf().key, "ca_crt": ca_crt}
    found: dict[str, Any] = {
        "server_cert": secret(SERVER, **made),
        "remote_cert": secret(REMOTE, **made),
        "admin_cert": None,
        "local_cert": None,
    }
    found["ca"] = secret(CA, ca_crt=authority().pem, **({"ca_key": authority().key} if ca_key else {}))
    if mark:
        found["ca"]["metadata"]["annotations"] = {MARK: mark}
    store = SecretStore()
    keep_values(store, "c2", found)
    facts = replace(
        cluster_facts("c2", version="1.20.0"),
        server_cert=tls_secret_facts(found["server_cert"], SERVER),
        remote_cert=tls_secret_facts(found["remote_cert"], REMOTE),
        ca=ca_secret_facts(found["ca"]),
    )
    if facts.server_cert.certificate is None:
        return facts, store
    named = replace(facts.server_cert.certificate, dns_names=("*.mesh.cilium.io",))
    return replace(facts, server_cert=replace(facts.server_cert, certificate=named)), store


def written(plan: Plan, store: SecretStore) -> Mapping[str, bytes]:
    """What the plan writes into Secret cilium-kvstoremesh of c1."""
    steps = [s for s in plan.steps if s.cluster == "c1" and isinstance(s.action, ApplySecret) and s.action.name == "cilium-kvstoremesh"]
    found = resolve_secret_values(steps, store, NOW)
    return {key: value.reveal() for values in found.values() for key, value in values.items()}


def planned(facts: ClusterFacts) -> Plan:
    return plan_links(MESH, {"c1": cluster_facts("c1", version="1.20.0"), "c2": facts}, PlanOptions(), NOW)


PIECES = st.one_of(
    st.sampled_from([authority().pem, leaf().pem, *(other(n).pem for n in range(3))]),
    st.sampled_from([ENDPOINTS, b"\n", b"\r\n", b" ", b"# Issuer: CN=x\n", b"endpoints:", b"-----BEGIN CERTIFICATE-----\n", b"\xff\x00"]),
    st.sampled_from([b"-----BEGIN X-----\nendpoints: x\n-----END X-----\n", b"-----BEGIN CERTIFICATE-----\nA: endpoints:\n\n"]),
    st.binary(max_size=20),
)


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_only_certificates_few_and_small_are_shared_and_they_are_the_same_ones(text: bytes) -> None:
    try:
        shared = shared_certificates(text)
    except CertificateProblem:
        return
    assert b":" not in shared and len(shared) <= MOST_BYTES
    assert load_certificates(shared) == load_certificates(text)
    assert shared_certificates(shared) is shared


@given(st.lists(PIECES, max_size=8).map(b"".join), st.lists(PIECES, max_size=3).map(b"".join), st.booleans())
def test_whatever_stands_in_ca_crt_no_file_but_the_configuration_names_endpoints(before: bytes, after: bytes, with_key: bool) -> None:
    facts, store = observed(
        before + authority().pem, tls_crt=leaf().pem + after, tls_key=leaf().key + (b"" if with_key else after), ca_key=with_key
    )
    plan = planned(facts)
    if plan.blocked:
        return
    for key, value in written(plan, store).items():
        assert (b"endpoints:" in value) == (key == "c2"), key
        assert len(value) <= MOST_BYTES


def test_text_before_the_certificates_is_not_written_and_the_link_is_made() -> None:
    facts, store = observed(ENDPOINTS + b"x" * 900_000 + b"\n" + authority().pem)
    plan = planned(facts)
    assert not plan.blocked
    assert written(plan, store)["c2.etcd-client-ca.crt"] == authority().pem


@pytest.mark.parametrize("text", [b"%s", b"\n%s\n\n", b"%s  \r\n"])
def test_plain_certificates_are_written_byte_for_byte(text: bytes) -> None:
    pem = text % authority().pem
    facts, store = observed(pem)
    assert facts.server_cert.reencoded == facts.server_cert.unshareable == {}
    assert written(planned(facts), store)["c2.etcd-client-ca.crt"] == pem
    dos = authority().pem.replace(b"\n", b"\r\n")
    assert shared_certificates(dos) is dos


def test_too_many_certificates_are_reported_and_no_link_gets_them() -> None:
    facts, _store = observed(authority().pem + b"".join(other(n % 3).pem for n in range(8)))
    plan = planned(facts)
    assert {(p.code, p.cluster, p.peer) for p in plan.problems} >= {("CM-TRUST-01", "c1", "c2")}
    assert not any(isinstance(step.action, ApplySecret) and "c2" in step.action.data for step in plan.steps if step.cluster == "c1")
    codes = {f.code: f for f in run_checks(context_of(cluster_facts("c1"), facts))}
    assert codes["CM-CERT-11"].cluster == "c2" and "9 certificates" in codes["CM-CERT-11"].evidence


def test_a_copied_key_has_no_text_beside_it() -> None:
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggq\n-----END EC PARAMETERS-----\n"
    assert problem_of_shared_key(leaf().key) == "" == problem_of_shared_key(parameters + leaf().key)
    assert problem_of_shared_key(ENDPOINTS + leaf().key) and problem_of_shared_key(leaf().key + b"\n" * MOST_BYTES)
    facts, _store = observed(authority().pem, tls_key=ENDPOINTS + leaf().key, ca_key=False)
    assert {p.code for p in planned(facts).problems} >= {"CM-TRUST-01"}


@pytest.mark.parametrize("stage", [stage for stage in RollStage if stage is not RollStage.PREPARE])
def test_the_mark_of_a_ca_roll_is_shared_like_ca_crt(stage: RollStage) -> None:
    old, new = authority().pem.decode(), other(0).pem.decode()
    clean = Roll(stage=stage, owner="0" * 12, old=old, new=new)
    assert shared_trust(clean) == clean.trusted
    dirty = replace(clean, old=ENDPOINTS.decode() + old, new=ENDPOINTS.decode() + new)
    assert shared_trust(dirty) == clean.trusted
    facts, store = observed(authority().pem, mark=write_roll(dirty))
    plan = planned(facts)
    assert not plan.blocked and written(plan, store)["c2.etcd-client-ca.crt"].decode() == clean.trusted
    facts, _store = observed(authority().pem, mark=write_roll(replace(clean, new=new * 9)))
    assert {(p.code, p.cluster) for p in planned(facts).problems} >= {("CM-TRUST-01", "c1")}


def test_no_write_carries_a_configuration_under_the_key_of_a_certificate() -> None:
    action = ApplySecret(namespace="kube-system", name="cilium-kvstoremesh", data={"c2.etcd-client-ca.crt": Literal(ENDPOINTS.decode())})
    step = Step(wave=2, cluster="c1", verb="apply", object="Secret", why="", disruption="", undo="", action=action)
    with pytest.raises(WriteConflict, match=r"c2\.etcd-client-ca\.crt"):
        resolve_secret_values([step], SecretStore(), NOW)


def test_a_secret_that_would_be_too_large_is_reported_before_anything_is_written() -> None:
    c2 = cluster_facts("c2", version="1.20.0")
    fat = replace(c2, server_cert=replace(c2.server_cert, sizes={"ca.crt": 1024 * 1024}))
    plan = planned(fat)
    (problem,) = [p for p in plan.problems if p.code == "CM-CERT-12"]
    assert plan.blocked and problem.cluster == "c1" and "c2" in problem.evidence


@pytest.mark.parametrize("bits", [2048, pytest.param(4096, marks=pytest.mark.slow)])
def test_a_minted_certificate_and_its_key_are_no_larger_than_planned(bits: int) -> None:
    ca = make("Cilium CA of a cluster with a long name", ca=True, private=rsa.generate_private_key(public_exponent=65537, key_size=bits))
    minted, key = Issuer(ca.pem, ca.key).client_certificate("remote-" + "c" * 32, now=NOW, days=1095)
    assert len(minted) <= MINTED_CERTIFICATE_SIZE and len(key) <= MINTED_KEY_SIZE


def test_the_secret_of_255_clusters_with_a_ca_each_is_small_enough() -> None:
    hosts = [f"c{number}" for number in range(1, 256)]
    mesh = mesh_of(*hosts, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c1",)))
    plan = plan_links(mesh, {host: cluster_facts(host, version="1.20.0") for host in hosts}, PlanOptions(), NOW)
    assert not plan.blocked and len(plan.links) == 2 * 254
