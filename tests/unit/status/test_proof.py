# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last proof: who may refute a link, whose heartbeat it is, and with what a link is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import Sealed, SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdAccess, EtcdError, ReadFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import ControllerProof, ProofVerdict, parse_heartbeat
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.link_access import link_access
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import TrustMode
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.etcd_config import (
    ca_key,
    certificate_key,
    peer_config,
    private_key,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, HostAlias, LinkFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import cilium_version
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import heartbeats
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.link_proof import (
    LinkProof,
    age_seconds,
    is_stale,
    link_proof,
    proof_columns,
)
from tests.testing.facts_builders import NOW, apiserver_workload, cluster_facts, key_facts, link_facts, mesh_of, peer_secret
from tests.testing.rows import alike, one_test

PROVEN, REFUTED, UNKNOWN = ProofVerdict.PROVEN, ProofVerdict.REFUTED, ProofVerdict.UNKNOWN
ENDPOINT = MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.2", "2001:db8::2"))


def from_there(verdict: str, reader: str = "kvstoremesh", **more: Any) -> LinkFacts:
    return link_facts("c1", "c2", reader=reader, proof=verdict, **more)


def from_here(verdict: ProofVerdict, note: str = "", heartbeat: datetime | None = None) -> ControllerProof:
    return ControllerProof(cluster="c1", peer="c2", verdict=verdict, note=note, heartbeat=heartbeat)


@one_test(
    "there here verdict by",
    (["proven"], PROVEN, PROVEN, "kvstoremesh"),
    (["proven"], UNKNOWN, PROVEN, "kvstoremesh"),
    (["unknown"], PROVEN, PROVEN, "controller"),
    (["unknown"], UNKNOWN, UNKNOWN, ""),
    (["refuted"], PROVEN, REFUTED, "kvstoremesh"),
    (["proven", "refuted"], PROVEN, REFUTED, "kvstoremesh"),
    (["proven"], REFUTED, REFUTED, "controller"),
    ([], PROVEN, PROVEN, "controller"),
    ([], None, UNKNOWN, ""),
    ([""], None, UNKNOWN, ""),
)
def test_a_refutation_counts_most_and_the_place_of_the_link_before_the_controller(
    there: list[str], here: ProofVerdict | None, verdict: ProofVerdict, by: str
) -> None:
    found = link_proof([from_there(word) for word in there], None if here is None else from_here(here))
    assert (found.verdict, found.by) == (verdict, by)


def test_why_a_reader_did_not_know_is_kept_beside_a_proof() -> None:
    found = link_proof([from_there("proven")], from_here(UNKNOWN, "it cannot be reached"))
    assert (found.verdict, found.note) == (PROVEN, "controller: it cannot be reached")


@one_test(
    "value expected",
    (b"2026-09-01T12:00:00Z", NOW),
    (b"2026-09-01T14:00:00+02:00", NOW),
    *alike(None, b"2026-09-01T12:00:00", b"", None, b"\xff\xfe", b"9" * 100_000, b"0001-01-01T00:00:00+14:00"),
    (b"9999-12-31T23:59:59-14:00", None),
)
def test_a_heartbeat_is_a_time_with_a_zone_or_nothing(value: bytes | None, expected: datetime | None) -> None:
    assert parse_heartbeat(value) == expected


def test_a_heartbeat_is_old_after_three_minutes_and_never_younger_than_now() -> None:
    assert [is_stale(NOW - timedelta(seconds=s), NOW) for s in (0, 180, 181)] == [False, False, True]
    assert age_seconds(NOW + timedelta(hours=1), NOW) == 0
    assert not is_stale(None, NOW)


def test_the_last_proof_stays_while_a_link_is_refuted() -> None:
    proven = LinkProof(verdict=PROVEN, by="kvstoremesh", heartbeat=NOW - timedelta(seconds=12))
    first = proof_columns(proven, now=NOW, previous=None)
    assert first["lastProof"] == {"time": "2026-09-01T12:00:00Z", "by": "kvstoremesh", "heartbeatAgeSeconds": 12}
    later = proof_columns(LinkProof(verdict=REFUTED, by="kvstoremesh", note="x"), now=NOW + timedelta(minutes=5), previous=first)
    assert (later["proof"], later["proofNote"], later["lastProof"]) == ("refuted", "x", first["lastProof"])
    assert proof_columns(LinkProof(), now=NOW, previous=None)["lastProof"] is None


def linked(version: str = "1.20.0", mode: TrustMode = TrustMode.MINTED, **facts: Any) -> tuple[ClusterFacts, SecretStore]:
    """c1 with what connect writes for c2, and the values of its Secrets: each is the name of its key."""
    keys = [ca_key("c2"), certificate_key("c2"), private_key("c2")] if mode is TrustMode.MINTED else []
    cluster = cluster_facts("c1", version=version, **facts)
    config = peer_config("c2", ENDPOINT, version=cilium_version(cluster), mode=mode)
    name = "cilium-kvstoremesh" if cluster.runs_kvstoremesh else "cilium-clustermesh"
    secret = peer_secret(name, {"c2": key_facts(config, config=config), **{key: key_facts(key) for key in keys}})
    store = SecretStore()
    for key in keys:
        store.put("c1", name, key, key.encode())
    for key in ("ca.crt", "tls.crt", "tls.key"):
        store.put("c1", "clustermesh-apiserver-remote-cert", key, key.encode())
    if cluster.runs_kvstoremesh:
        return replace(cluster, kvstoremesh=secret), store
    return replace(cluster, clustermesh=secret), store


@pytest.mark.parametrize("kvstoremesh", [True, False])
def test_a_link_is_read_exactly_as_its_secrets_say(kvstoremesh: bool) -> None:
    cluster, store = linked(kvstoremesh=kvstoremesh)
    access = link_access(cluster, "c2", store)
    assert isinstance(access, EtcdAccess)
    assert (access.hostname, access.port, access.ips) == ("c2.mesh.cilium.io", 2379, ("192.0.2.2", "2001:db8::2"))
    assert access.ca.reveal() == b"c2.etcd-client-ca.crt"
    assert (access.certificate.reveal(), access.key.reveal()) == (b"c2.etcd-client.crt", b"c2.etcd-client.key")


def test_with_a_shared_ca_it_is_the_clusters_own_remote_certificate() -> None:
    cluster, store = linked(mode=TrustMode.SAME_CA)
    access = link_access(cluster, "c2", store)
    assert isinstance(access, EtcdAccess)
    assert [part.reveal() for part in (access.ca, access.certificate, access.key)] == [b"ca.crt", b"tls.crt", b"tls.key"]


def test_before_1_20_the_addresses_are_those_of_the_pods_host_aliases() -> None:
    cluster, store = linked(version="1.18.11")
    without = link_access(cluster, "c2", store)
    assert isinstance(without, EtcdAccess) and without.ips == ()
    aliases = [HostAlias(ip="192.0.2.9", hostnames=("c2.mesh.cilium.io",)), HostAlias(ip="192.0.2.8", hostnames=("other",))]
    access = link_access(replace(cluster, apiserver=apiserver_workload("1.18.11", aliases=aliases)), "c2", store)
    assert isinstance(access, EtcdAccess) and access.ips == ("192.0.2.9",)


@one_test(
    "config",
    *("endpoints: []\n", "endpoints:\n- http://c2:2379\n", "endpoints:\n- https://c2:notaport\n"),
    *("endpoints:\n- https://c2:2379\ntrusted-ca-file: /etc/passwd\ncert-file: /x\nkey-file: /x\n", "- list\n", "endpoints: ["),
    *("endpoints: 5\n", "endpoints: !!int ''\n", "endpoints:\n- https://c2:2379\ntrusted-ca-file: [a]\n"),
)
def test_a_configuration_that_cannot_be_used_from_here_says_why(config: str) -> None:
    cluster, store = linked()
    secret = peer_secret("cilium-kvstoremesh", {"c2": key_facts(config, config=config)})
    assert isinstance(link_access(replace(cluster, kvstoremesh=secret), "c2", store), str)
    assert isinstance(link_access(cluster, "c3", store), str)


class PlayedReader:
    """Stands for EtcdReader; ``answers`` by (reading cluster's certificate) tell what a link finds, ``dialled`` who was asked."""

    answers: ClassVar[Mapping[str, bytes | EtcdError]] = {}
    dialled: ClassVar[list[str]] = []

    def __init__(self, access: EtcdAccess) -> None:
        self.who = access.certificate.reveal().decode()

    def __enter__(self) -> PlayedReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get(self, key: str) -> bytes:
        assert key == "cilium/.heartbeat"
        PlayedReader.dialled.append(self.who)
        answer = PlayedReader.answers.get(self.who, b"2026-09-01T12:00:00Z")
        if isinstance(answer, EtcdError):
            raise answer
        return answer


def read(monkeypatch: pytest.MonkeyPatch, hosts: int, **answers: bytes | EtcdError) -> dict[tuple[str, str], ControllerProof]:
    """Heartbeats of a mesh whose links are all configured; keys of ``answers`` are ``reader_peer``."""
    PlayedReader.answers, PlayedReader.dialled = {k.replace("_", " to "): v for k, v in answers.items()}, []
    monkeypatch.setattr(heartbeats, "EtcdReader", PlayedReader)

    def access(local: ClusterFacts, name: str, secrets: SecretStore) -> EtcdAccess:
        sealed = Sealed(f"{local.host} to {name}".encode())
        return EtcdAccess(hostname="x", port=1, ca=sealed, certificate=sealed, key=sealed)

    monkeypatch.setattr(heartbeats, "link_access", access)
    facts = {f"c{n}": cluster_facts(f"c{n}") for n in range(1, hosts + 1)}
    links = mesh_of(*facts).links
    return heartbeats.read_heartbeats(links, {link: link[1] for link in links}, facts, SecretStore())


def test_every_link_of_a_small_mesh_is_read_with_its_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, 3)
    assert {proof.verdict for proof in found.values()} == {PROVEN}
    assert len(PlayedReader.dialled) == len(set(PlayedReader.dialled)) == 6


def test_a_peer_that_cannot_be_reached_is_tried_once_and_its_links_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    away = EtcdError(ReadFailure.UNREACHED, "c3 cannot be reached")
    found = read(monkeypatch, 4, c1_c3=away, c2_c3=away, c4_c3=away)
    assert {link: (p.verdict, p.note) for link, p in found.items() if link[1] == "c3"} == {
        (host, "c3"): (UNKNOWN, "c3 cannot be reached") for host in ("c1", "c2", "c4")
    }
    assert len([who for who in PlayedReader.dialled if who.endswith("c3")]) == 1
    assert all(p.verdict is PROVEN for link, p in found.items() if link[1] != "c3")


def test_only_a_proven_peer_that_refuses_the_user_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(
        monkeypatch,
        3,
        c1_c2=EtcdError(ReadFailure.DENIED, "no"),
        c3_c2=EtcdError(ReadFailure.UNTRUSTED, "who?"),
        c1_c3=EtcdError(ReadFailure.BROKEN, "oh"),
        c2_c3=b"no time",
    )
    assert {link: p.verdict for link, p in found.items()} == {
        ("c1", "c2"): REFUTED,
        ("c3", "c2"): UNKNOWN,
        ("c1", "c3"): UNKNOWN,
        ("c2", "c3"): PROVEN,
        ("c2", "c1"): PROVEN,
        ("c3", "c1"): PROVEN,
    }
    assert found["c2", "c3"].heartbeat is None and found["c2", "c1"].heartbeat == datetime(2026, 9, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(("version", "seconds"), [("1.18.11", 5), ("1.20.2", 65)])
def test_a_peer_that_has_just_started_is_proven_without_a_heartbeat(version: str, seconds: int) -> None:
    """1.20 writes the first one after one interval, older ones at once: both prove the link, and the note says what to expect."""
    note = heartbeats.without_heartbeat(cluster_facts("c2", version=version))

    assert note == f"the peer shows no heartbeat; its clustermesh-apiserver writes the first one up to {seconds} s after its start"
    assert heartbeats.without_heartbeat(None).endswith("up to 65 s after its start")


def test_a_large_mesh_costs_one_read_per_peer_and_all_know_its_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, 20)
    assert len(PlayedReader.dialled) == 20
    assert len(found) == 380
    assert {proof.heartbeat for proof in found.values()} == {NOW}
    assert sum(proof.verdict is PROVEN for proof in found.values()) == 20
