# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading a peer's etcd: what is found, and why it is not, told apart."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import Sealed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd import client as etcd_read
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import (
    EtcdAccess,
    EtcdError,
    EtcdReader,
    KeyValue,
    Range,
    ReadFailure,
)
from tests.testing.etcd_server import grpc, played_etcd
from tests.testing.made_certificates import make

KEYS = {**{f"cilium/state/nodes/v1/c2/n{i:03}": str(i).encode() for i in range(12)}, "cilium/.heartbeat": b"now", "cilium/z": b""}
NODES = "cilium/state/nodes/v1/"


@pytest.fixture(scope="module")
def etcd() -> Iterator[Any]:
    with played_etcd(KEYS) as played:
        yield played


def why(access: EtcdAccess, timeout: float = 3.0) -> EtcdError:
    with pytest.raises(EtcdError) as caught, EtcdReader(access, timeout=timeout) as reader:
        reader.get("cilium/.heartbeat")
    return caught.value


def test_one_key_is_read_with_the_certificates_of_the_link(etcd: Any) -> None:
    with EtcdReader(etcd.access()) as reader:
        assert reader.get("cilium/.heartbeat") == b"now"
        assert reader.get("cilium/z") == b""
        assert reader.get("cilium/none") is None


def test_a_range_is_read_page_by_page_at_one_revision_and_no_further_than_asked(etcd: Any) -> None:
    etcd.asked.clear()
    with EtcdReader(etcd.access()) as reader:
        found = list(reader.scan(NODES, most=10, page=4))
        assert reader.count(NODES) == 12
    assert [item.value for item in found] == [str(i).encode() for i in range(10)]
    assert [(limit, revision) for _, limit, revision, count in etcd.asked if not count] == [(4, 0), (4, 7), (2, 7)]


def test_keys_that_are_no_text_are_read_all_the_same(etcd: Any) -> None:
    etcd.keys["cilium/state/ip/\udcff\udcfe"] = b"x"
    with EtcdReader(etcd.access()) as reader:
        assert [item.value for item in reader.scan("cilium/state/ip/", most=5, page=1)] == [b"x"]
    del etcd.keys["cilium/state/ip/\udcff\udcfe"]


def test_a_peer_that_hands_out_its_keys_one_by_one_does_not_hold_the_reader(etcd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with EtcdReader(etcd.access()) as reader:
        one = Range(items=(KeyValue(NODES + "x", b""),), count=9, more=True, revision=1)
        monkeypatch.setattr(reader, "_range", lambda **_: one)
        with pytest.raises(EtcdError) as caught:
            list(reader.scan(NODES, most=5000))
    assert caught.value.why is ReadFailure.BROKEN


def test_of_several_addresses_one_that_answers_is_enough(etcd: Any) -> None:
    with EtcdReader(etcd.access(ips=("127.9.9.9", "::1", "127.0.0.1"))) as reader:
        assert reader.get("cilium/.heartbeat") == b"now"


def test_who_does_not_listen_is_unreached_and_not_refuted(etcd: Any) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    problem = why(etcd.access(port=port))
    assert problem.why is ReadFailure.UNREACHED
    assert f":{port} (127.0.0.1) cannot be reached" in problem.message


def test_who_says_nothing_is_unreached_when_time_is_up(etcd: Any) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert why(etcd.access(port=silent.getsockname()[1]), timeout=0.4).why is ReadFailure.UNREACHED


OTHER, STRANGE = make("Cilium CA", ca=True), make("Strange CA", ca=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ca": Sealed(OTHER.pem)}, "not of the CA that the link trusts"),
        ({"ca": Sealed(STRANGE.pem)}, "not of the CA that the link trusts"),
        ({"hostname": "c3.mesh.cilium.io"}, "does not cover the name"),
        ({"hostname": "127.0.0.1", "ips": ()}, "does not cover the name"),
    ],
)
def test_who_is_not_proven_is_not_trusted_and_nothing_is_concluded_from_him(etcd: Any, changes: dict[str, Any], words: str) -> None:
    problem = why(etcd.access(**changes))
    assert problem.why is ReadFailure.UNTRUSTED
    assert words in problem.message


def test_a_peer_that_does_not_take_our_certificate_proves_nothing_from_here(etcd: Any) -> None:
    client = make("remote", issuer=OTHER)
    assert why(etcd.access(certificate=Sealed(client.pem), key=Sealed(client.key))).why in (ReadFailure.UNTRUSTED, ReadFailure.UNREACHED)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("PERMISSION_DENIED", ReadFailure.DENIED),
        ("UNAUTHENTICATED", ReadFailure.DENIED),
        ("INTERNAL", ReadFailure.BROKEN),
        ("RESOURCE_EXHAUSTED", ReadFailure.BROKEN),
    ],
)
def test_a_proven_peer_that_refuses_is_distinguished_from_one_that_is_broken(etcd: Any, status: str, expected: ReadFailure) -> None:
    etcd.deny = getattr(grpc.StatusCode, status)
    try:
        assert why(etcd.access()).why is expected
    finally:
        etcd.deny = None


EMPTY_KEY = b"\x12\x00"  # of a RangeResponse: kvs, of no length
ANSWERS = {
    "a key that was not asked for": (EMPTY_KEY * 2, "another number of keys"),
    "half a million of them": (EMPTY_KEY * 500_000, "greater length"),
    "no message at all": (b"\xff" * 50, "not answer as an etcd does"),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("ask", ["get", "count", "scan"])
def test_an_answer_that_was_not_asked_for_is_refused_before_anything_is_made_of_it(etcd: Any, answer: str, ask: str) -> None:
    etcd.raw, words = ANSWERS[answer]
    asks: dict[str, Callable[[EtcdReader], object]] = {
        "get": lambda reader: reader.get("cilium/.heartbeat"),
        "count": lambda reader: reader.count(NODES),
        "scan": lambda reader: list(reader.scan(NODES, most=1)),
    }
    try:
        with EtcdReader(etcd.access()) as reader, pytest.raises(EtcdError, match=words) as caught:
            asks[ask](reader)
    finally:
        etcd.raw = None
    assert caught.value.why is ReadFailure.BROKEN


def test_credentials_that_are_none_are_an_error_and_never_shown(etcd: Any) -> None:
    problem = why(etcd.access(key=Sealed(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")))
    assert "AAAA" not in problem.message
    assert "AAAA" not in repr(etcd.access(key=Sealed(b"AAAA")))


def test_a_missing_package_is_named(etcd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_grpc(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

    etcd_read._libraries.cache_clear()
    monkeypatch.setattr("importlib.import_module", no_grpc)
    try:
        assert why(etcd.access()).why is ReadFailure.MISSING
        assert "grpcio" in etcd_read.missing_library()
    finally:
        monkeypatch.undo()
        etcd_read._libraries.cache_clear()
    assert etcd_read.missing_library() == ""


@pytest.mark.parametrize(("prefix", "end"), [(b"a/", b"a0"), (b"a\xff", b"b"), (b"\xff\xff", b"\0")])
def test_a_prefix_ends_where_the_next_key_begins(prefix: bytes, end: bytes) -> None:
    assert etcd_read._end(prefix) == end
