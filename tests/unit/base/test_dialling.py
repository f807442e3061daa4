# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The owner of a cluster leads no connection into a denied range, and does not learn what is at an address that cannot be reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.dialling import (
    MOST,
    NO_RULE,
    Dialler,
    DialRule,
    NotDialled,
    connected,
    parsed_address,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, CredentialsInvalid, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd import client as etcd_client
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdAccess, EtcdError, EtcdReader, ReadFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, Timeouts, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from mesh_operator.credentials.tenant_addresses import NETWORKS
from tests.testing.etcd_server import grpc, played_etcd
from tests.testing.hostile_server import HostileServer
from tests.testing.met_ports import STATES, free_port, met_port
from tests.testing.rows import one_test
from tests.testing.scripted_server import Answer, ScriptedServer, kubeconfig

DNS = {
    "api.example.com": ["192.0.2.10", "2001:db8::10"],
    "service.example.com": ["192.0.2.10", "kubernetes.default.svc.cluster.local"],
    "metadata.example.com": ["169.254.169.254"],
    "mixed.example.com": ["192.0.2.10", "127.0.0.1"],
    "zone.example.com": ["fe80::1%eth0"],
    "mapped.example.com": ["::ffff:10.96.0.1"],
    "translated.example.com": ["64:ff9b::10.96.0.1"],
    "empty.example.com": ["alias.example.com"],
    "grafana.monitoring": ["10.96.7.7", "grafana.monitoring.svc.cluster.local"],
    "127.1": ["127.0.0.1"],
    "0x7f.1": ["127.0.0.1"],
    "localhost": ["127.0.0.1"],
}
RULE = DialRule(denied=(*NETWORKS, "10.96.0.0/12"))


def answers(name: str) -> list[str]:
    if name not in DNS:
        raise OSError("no such name")
    return DNS[name]


@one_test(
    "host",
    *(name for name in DNS if name != "api.example.com"),
    "10.96.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "no.example",
)
def test_no_name_and_no_spelling_leads_into_a_denied_range(host: str) -> None:
    with pytest.raises(NotDialled):
        Dialler(RULE, answers).addresses(host)


def test_other_addresses_are_dialled_and_allowed_ranges_go_before_denied_ones() -> None:
    assert Dialler(RULE, answers).addresses("api.example.com") == ("192.0.2.10", "2001:db8::10")
    assert Dialler(RULE, answers).addresses("[2001:db8::1]") == ("2001:db8::1",)
    allowed = replace(RULE, allowed=("127.0.0.0/8", "10.96.0.0/16"))
    reached = {
        "localhost": ("127.0.0.1",),
        "127.1": ("127.0.0.1",),
        "mixed.example.com": ("192.0.2.10", "127.0.0.1"),
        "[::ffff:127.0.0.1]": ("::ffff:127.0.0.1",),
        "mapped.example.com": ("::ffff:10.96.0.1",),
        "grafana.monitoring": ("10.96.7.7",),  # the name of a Service, whose only address is allowed
    }
    assert {host: Dialler(allowed, answers).addresses(host) for host in reached} == reached
    with pytest.raises(NotDialled, match="denied range"):
        Dialler(allowed, answers).addresses("metadata.example.com")


ADDRESSES = st.one_of(
    st.ip_addresses().map(str),
    st.ip_addresses(v=4).map(lambda address: f"::ffff:{address}"),
    st.ip_addresses(v=4).map(lambda address: f"64:ff9b::{address}"),
    st.sampled_from(["127.0.0.1", "10.96.0.1", "169.254.169.254", "fe80::1%eth0", "::1", "10.0.0.1", "192.0.2.1"]),
)
RANGES = st.lists(
    st.one_of(
        st.sampled_from([*NETWORKS, "10.0.0.0/8", "0.0.0.0/1", "::/0", "192.0.2.0/24"]),
        st.ip_addresses().map(lambda a: f"{a}/{a.max_prefixlen}"),
    ),
    max_size=5,
).map(tuple)


@given(RANGES, RANGES, st.lists(st.lists(st.one_of(ADDRESSES, st.sampled_from(["a.svc", "host.example.com"])), max_size=4), min_size=1))
def test_whatever_the_resolver_says_and_however_it_changes_only_what_was_judged_is_dialled(
    denied: tuple[str, ...], allowed: tuple[str, ...], said: list[list[str]]
) -> None:
    rule, turns, dialled = DialRule(denied=denied, allowed=allowed), iter(said), list[str]()

    def connect(where: tuple[str, int], timeout: float | None = None) -> socket.socket:
        dialled.append(where[0])
        raise ConnectionRefusedError

    dialler = Dialler(rule, lambda name: next(turns, ["127.0.0.1"]))
    with mock.patch("socket.create_connection", connect):
        for _ in range(3):
            with pytest.raises(OSError):
                dialler.first("name.example.com", lambda address, seconds: connected(address, 6443, seconds), timeout=1)
    judged = [text for text in said[0] if parsed_address(text) is not None]
    assert set(dialled) <= set(judged) and all(rule.permits(address) for address in dialled)
    assert not dialled or all(rule.permits(address) for address in judged), "one denied address refuses the name"


def spellings(address: IPv4Address) -> list[str]:
    """IPv6 addresses that lead, or once led, to an IPv4 address: mapped, compatible, NAT64, 6to4, server and client of Teredo."""
    number, inverted = int(address), int(address) ^ 0xFFFFFFFF
    found = [0xFFFF << 32 | number, number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80]
    found += [0x20010000 << 96 | number << 64, 0x20010000 << 96 | inverted]
    return [str(IPv6Address(each)) for each in found]


@given(st.integers(2, 2**32 - 1).map(IPv4Address), st.integers(0, 32), st.sampled_from(["", "%eth0", "%1"]))
def test_every_spelling_of_a_denied_address_is_refused_and_allowing_the_range_allows_it(
    address: IPv4Address, length: int, zone: str
) -> None:
    network = str(ip_network((address, length), strict=False))
    for text in spellings(address):
        assert not DialRule(denied=(network,)).permits(text + zone), text
        assert not DialRule(denied=(network,), allowed=("::/0",)).permits(text), "allowing all of IPv6 allows no IPv4 address"
        assert DialRule(denied=(network,), allowed=(network,)).permits(text), text


@given(st.ip_addresses(v=4), st.booleans())
def test_a_range_of_translated_addresses_is_denied_where_it_is_named_itself(address: IPv4Address, mapped: bool) -> None:
    prefix = "::ffff:0:0/96" if mapped else "64:ff9b::/96"
    text = spellings(address)[0 if mapped else 2]
    assert not DialRule(denied=(prefix,)).permits(text) and not DialRule(denied=(f"{text}/128",)).permits(text)
    assert DialRule(denied=("::/8",)).permits(text), "a wide range has them in it by accident"


def test_without_denied_ranges_everything_is_permitted() -> None:
    assert NO_RULE.permits("127.0.0.1") and NO_RULE.permits("a-name.example.com")
    assert not DialRule(denied=("10.0.0.0/8",)).permits("a-name.example.com")


def test_all_addresses_are_judged_and_the_first_few_are_dialled() -> None:
    many = [f"192.0.2.{n}" for n in range(1, 40)]
    assert len(Dialler(RULE, lambda name: many).addresses("many.example.com")) == MOST
    with pytest.raises(NotDialled):
        Dialler(RULE, lambda name: [*many, "127.0.0.1"]).addresses("many.example.com")


# Real listeners


@contextmanager
def counting_listener() -> Iterator[tuple[int, list[Any]]]:
    """A listener on loopback, and the connections that it got."""
    got: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    connection, _ = listener.accept()
                    connection.close()
                    got.append(1)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1], got
        finally:
            ended.set()
            thread.join()


WAYS: dict[str, Callable[[Cluster], Any]] = {
    "read": lambda cluster: cluster.get("/api/v1/secrets/a"),
    "write": lambda cluster: cluster.apply("/api/v1/secrets/a", {}, manager="m"),
    "list": lambda cluster: cluster.list("/api/v1/secrets"),
    "watch": lambda cluster: list(cluster.watch("/api/v1/secrets", version="1", seconds=1)),
    "exec": lambda cluster: cluster.exec("p", "c", ["true"], timeout=1),
    "forward": lambda cluster: cluster.forward_get("p", 9889, "/", timeout=1),
}


def opened(document: dict[str, Any], *, denied: tuple[str, ...], allowed: tuple[str, ...] = (), patience: float = 1.0) -> Cluster:
    access = ClusterAccess(host="c1", kubeconfig=document, context=None, denied_networks=denied, endpoint_networks=allowed)
    return open_cluster(access, timeouts=Timeouts(connect=patience, read=patience, answer=2 * patience))


def patience_with(state: str) -> float:
    """Seconds: nothing is missed of who never answers."""
    return 0.25 if state in ("silent", "full") else 1.0


@pytest.mark.parametrize("way", WAYS)
def test_nothing_connects_to_a_denied_address_by_any_request(way: str) -> None:
    with counting_listener() as (port, got):
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1"):
            document = kubeconfig({"server": f"https://{host}:{port}"}, {"token": "t"})
            with opened(document, denied=NETWORKS) as cluster, pytest.raises(ClusterError) as caught:
                WAYS[way](cluster)
            assert caught.value.message == "The API server cannot be reached."
        assert got == []
        with opened(kubeconfig({"server": "https://127.0.0.1"}, {"token": "t"}), denied=NETWORKS) as cluster:
            with pytest.raises(Unreachable) as caught:
                WAYS["read"](cluster)
            assert "denied range" in caught.value.detail


def test_no_link_dials_an_etcd_at_a_denied_address_in_whatever_form_it_is_named() -> None:
    with counting_listener() as (port, got), played_etcd({"k": b"v"}) as etcd:
        for changes in (
            {"ips": ("127.0.0.1",)},
            {"ips": (), "hostname": "localhost"},
            {"ips": ("192.0.2.1", "127.0.0.1")},
            {"ips": ("::ffff:127.0.0.1",)},
        ):
            access = etcd.access(port=port, rule=DialRule(denied=NETWORKS), **changes)
            with pytest.raises(EtcdError) as caught, EtcdReader(access, timeout=1) as reader:
                reader.get("k")
            assert caught.value.message == "Its mesh endpoint cannot be reached from the controller."
        assert got == []
        allowed = etcd.access(rule=DialRule(denied=NETWORKS, allowed=("127.0.0.0/8",)))
        with EtcdReader(allowed) as reader:
            assert reader.get("k") == b"v"


def test_an_error_does_not_tell_what_is_at_an_address(tmp_path: Path) -> None:
    """Refused, silent, hung up, another certificate, no TLS, no API server, denied, unresolvable: one message, one class, one remedy."""
    said: set[tuple[Any, ...]] = set()
    anywhere: dict[str, Any] = {"denied": ("10.96.0.0/12",), "allowed": ("127.0.0.0/8",)}
    with counting_listener() as (hangs_up, _got), ScriptedServer(tmp_path) as server, HostileServer(tmp_path) as silent:
        server.answer = lambda asked: Answer(404, b"<html>a page</html>")
        silent.speak = lambda connection, head: silent.wait(connection)
        with socket.create_server(("127.0.0.1", 0)) as once:
            closed = once.getsockname()[1]
        documents = {
            "refused": kubeconfig({"server": f"https://127.0.0.1:{closed}"}, {"token": "t"}),
            "hung up": kubeconfig({"server": f"https://127.0.0.1:{hangs_up}"}, {"token": "t"}),
            "another certificate": kubeconfig({"server": server.url}, {"token": "t"}),
            "a page": server.kubeconfig(),
            "silent": silent.kubeconfig(),
            "denied": kubeconfig({"server": "https://10.96.0.1"}, {"token": "t"}),
            "unresolvable": kubeconfig({"server": "https://no-such-name.invalid"}, {"token": "t"}),
        }
        for state, document in documents.items():
            patience = patience_with(state)
            for ask in (WAYS["read"], lambda cluster, patience=patience: cluster.exec("p", "c", ["true"], timeout=patience)):
                with opened(document, **anywhere, patience=patience) as cluster, pytest.raises(ClusterError) as caught:
                    ask(cluster)
                error = caught.value
                assert isinstance(error, Unreachable) and error.detail not in ("", error.message)
                said.add((type(error), error.code, error.message, error.remedy, str(error)))
    assert len(said) == 1


GOOD = Answer(200, {"kind": "Secret", "metadata": {"name": "a"}})
LAB = DialRule(denied=("10.96.0.0/12",), allowed=("127.0.0.0/8", "::1/128"))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("first", ["127.0.0.2", "127.0.0.1"])
def test_a_good_server_behind_a_name_does_not_tell_what_is_at_another_address_of_it(state: str, first: str, tmp_path: Path) -> None:
    """Else a name with two addresses would scan ports: reached with a closed one, not reached with an open one."""
    resolver = partial(resolved_as, [first, "127.0.0.1" if first == "127.0.0.2" else "127.0.0.2"])
    with ScriptedServer(tmp_path) as server, mock.patch("socket.getaddrinfo", resolver):
        server.answer = lambda asked: Answer(101, frames=[b'\x03{"status":"Success"}']) if "/exec" in asked.path else GOOD
        port = int(server.url.rpartition(":")[2])
        document = server.kubeconfig(server=f"https://two.example.com:{port}", tls_server_name="127.0.0.1")
        with met_port(state, "127.0.0.2", port, tmp_path), opened(document, denied=LAB.denied, allowed=LAB.allowed) as cluster:
            assert WAYS["read"](cluster) == GOOD.body
            assert WAYS["exec"](cluster).exit_code == 0


@pytest.mark.parametrize("state", STATES)
def test_a_good_etcd_does_not_tell_what_is_at_another_address_of_it(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with played_etcd({"k": b"v"}) as etcd, met_port(state, "127.0.0.2", etcd.port, tmp_path):
        for ips in (("127.0.0.2", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")):
            with EtcdReader(etcd.access(rule=LAB, ips=ips)) as reader:
                assert reader.get("k") == b"v"
        # addresses of two families are two targets
        two = [f"ipv4:{ip}:{etcd.port}" for ip in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(etcd_client, "_targets", lambda access: iter(two))
        with EtcdReader(etcd.access(rule=LAB), timeout=1) as reader:
            assert reader.get("k") == b"v"


def resolved_as(addresses: list[str], host: str, *_args: Any, **_options: Any) -> list[Any]:
    """As socket.getaddrinfo: one name has these addresses, and addresses are themselves."""
    found = addresses if host == "two.example.com" else [host]
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, _args[0] if _args else 0)) for ip in found]


def test_an_etcd_that_is_not_reached_has_one_message_and_the_reason_is_for_the_log(tmp_path: Path) -> None:
    with played_etcd({}) as etcd:
        errors = dict[str, EtcdError]()
        for state in STATES:
            port = free_port("127.0.0.2")
            with met_port(state, "127.0.0.2", port, tmp_path):
                errors[state] = failure(etcd.access(rule=LAB, port=port, ips=("127.0.0.2",)), patience_with(state))
        errors["denied"] = failure(etcd.access(rule=LAB, ips=("10.96.0.1",)))
        errors["unresolvable"] = failure(etcd.access(rule=LAB, ips=(), hostname="no-such-name.invalid"))
        etcd.deny = grpc.StatusCode.UNAUTHENTICATED  # as gRPC calls a page of an HTTP server with status 401
        errors["a page"] = failure(etcd.access(rule=LAB))
        etcd.told = "etcdserver: permission denied"
        refused = failure(etcd.access(rule=LAB))
    assert {(error.why, error.message, str(error)) for error in errors.values()} == {
        (ReadFailure.UNREACHED, "Its mesh endpoint cannot be reached from the controller.", errors["denied"].message)
    }
    assert (
        "denied range" in errors["denied"].detail and "refused" in errors["closed"].detail and "CA" in errors["another certificate"].detail
    )
    assert all(error.detail for error in errors.values())
    assert refused.why is ReadFailure.DENIED and not refused.detail


def failure(access: EtcdAccess, patience: float = 1.0) -> EtcdError:
    with pytest.raises(EtcdError) as caught, EtcdReader(access, timeout=patience) as reader:
        reader.get("k")
    return caught.value


@pytest.mark.parametrize("name", [".", "..", ".example.com", f"{'a' * 64}.example.com"])
def test_a_name_that_fits_in_no_handshake_does_not_tell_what_is_at_the_address(name: str, tmp_path: Path) -> None:
    texts = set()
    for state in ("closed", "silent", "another certificate"):
        port = free_port("127.0.0.2")
        document = kubeconfig({"server": f"https://127.0.0.2:{port}", "tls-server-name": name}, {"token": "t"})
        with met_port(state, "127.0.0.2", port, tmp_path), opened(document, denied=LAB.denied, allowed=LAB.allowed) as cluster:
            for way in ("read", "exec"):
                with pytest.raises(ClusterError) as caught:
                    WAYS[way](cluster)
                texts.add(str(caught.value))
    assert len(texts) == 1


def test_a_server_without_tls_is_refused_where_ranges_are_denied() -> None:
    with pytest.raises(CredentialsInvalid, match="https"):
        opened(kubeconfig({"server": "http://192.0.2.1:8080"}, {"token": "t"}), denied=("10.96.0.0/12",))


def test_an_api_server_is_reached_by_its_name_at_the_address_that_was_judged(tmp_path: Path) -> None:
    """TLS and the Host header keep the name: a proxy distinguishes the servers behind it by that."""
    with ScriptedServer(tmp_path) as server:
        server.answer = lambda asked: Answer(200, {"kind": "Secret", "metadata": {"name": "a"}}, frames=None)
        document = server.kubeconfig(server=server.url.replace("127.0.0.1", "localhost"), tls_server_name="127.0.0.1")
        with opened(document, denied=NETWORKS, allowed=("127.0.0.0/8", "::1/128")) as cluster:
            assert cluster.get("/api/v1/secrets/a") == {"kind": "Secret", "metadata": {"name": "a"}}
        assert {asked.headers["host"] for asked in server.asked} == {server.url.replace("https://127.0.0.1", "localhost")}
        server.answer = lambda asked: Answer(101, frames=[b'\x03{"status":"Success"}'])
        with opened(document, denied=NETWORKS, allowed=("127.0.0.0/8", "::1/128")) as cluster:
            cluster.exec("p", "c", ["true"], timeout=5)
        assert server.asked[-1].headers["host"] == server.url.replace("https://127.0.0.1", "localhost")


def test_a_refusal_by_the_api_server_itself_is_reported(tmp_path: Path) -> None:
    with ScriptedServer(tmp_path) as server:
        server.answer = lambda asked: Answer(403, {"kind": "Status", "code": 403, "reason": "Forbidden"})
        with (
            opened(server.kubeconfig(), denied=("10.96.0.0/12",), allowed=("127.0.0.0/8",)) as cluster,
            pytest.raises(ClusterError) as caught,
        ):
            WAYS["read"](cluster)
        assert "RBAC forbids" in caught.value.message
