# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The owner of a cluster leads no connection into a denied range, and is not told what is at an address that cannot be reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.dialling import Dialler, DialRule, NotDialled, parsed_address
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdError, EtcdReader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, ClusterAccess, Timeouts, open_cluster
from mesh_operator.tenant_addresses import NETWORKS
from tests.unit.engine.etcd_server import played_etcd
from tests.unit.engine.hostile_server import HostileServer
from tests.unit.engine.scripted_server import Answer, ScriptedServer, kubeconfig

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


@pytest.mark.parametrize(
    "host",
    [
        *(name for name in DNS if name != "api.example.com"),
        "10.96.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "no.example",
    ],
)
def test_no_name_and_no_spelling_leads_into_a_denied_range(host: str) -> None:
    with pytest.raises(NotDialled):
        Dialler(RULE, answers).addresses(host)


def test_other_addresses_are_dialled_and_allowed_ranges_go_before_denied_ones() -> None:
    assert Dialler(RULE, answers).addresses("api.example.com") == ("192.0.2.10", "2001:db8::10")
    assert Dialler(RULE, answers).addresses("[2001:db8::1]") == ("2001:db8::1",)
    allowed = replace(RULE, allowed=("127.0.0.0/8", "10.96.0.0/16"))
    for host in ("localhost", "127.1", "mixed.example.com", "[::ffff:127.0.0.1]", "mapped.example.com", "grafana.monitoring"):
        with suppress(NotDialled) if host == "grafana.monitoring" else ExitStack():
            assert all(allowed.permits(address) for address in Dialler(allowed, answers).addresses(host))
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
                dialler.connect("name.example.com", 6443, timeout=1)
    judged = [text for text in said[0] if parsed_address(text) is not None]
    assert set(dialled) <= set(judged) and all(rule.permits(address) for address in dialled)
    assert not dialled or all(rule.permits(address) for address in judged), "one denied address refuses the name"


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


def opened(document: dict[str, Any], *, denied: tuple[str, ...], allowed: tuple[str, ...] = ()) -> Cluster:
    access = ClusterAccess(host="c1", kubeconfig=document, context=None, denied_networks=denied, endpoint_networks=allowed)
    return open_cluster(access, timeouts=Timeouts(connect=1.0, read=1.0, answer=2.0))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_connects_to_a_denied_address_by_any_request(way: str) -> None:
    with counting_listener() as (port, got):
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1"):
            document = kubeconfig({"server": f"https://{host}:{port}"}, {"token": "t"})
            with opened(document, denied=NETWORKS) as cluster, pytest.raises(ClusterError) as caught:
                WAYS[way](cluster)
            assert caught.value.message == "The API server cannot be reached."
        assert got == []


def test_no_link_dials_an_etcd_at_a_denied_address_whoever_names_it() -> None:
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
    anywhere = {"denied": ("10.96.0.0/12",), "allowed": ("127.0.0.0/8",)}
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
        for document in documents.values():
            for ask in (WAYS["read"], WAYS["exec"]):
                with opened(document, **anywhere) as cluster, pytest.raises(ClusterError) as caught:
                    ask(cluster)
                error = caught.value
                said.add((type(error), error.code, error.message, error.remedy, str(error)))
    assert len(said) == 1


def test_an_api_server_is_reached_by_its_name_at_the_address_that_was_judged(tmp_path: Path) -> None:
    """TLS and the Host header keep the name: servers behind a proxy are told apart by it."""
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
