# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a TLS handshake with a mesh endpoint proves, against real TLS servers on loopback."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.dialling import DialRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ProbeResult, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import Move, decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import describe
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.tls_probe import (
    TlsTarget,
    probe,
    probe_endpoints,
    unproven_moves,
)
from tests.testing.facts_builders import cluster_facts, mesh_of
from tests.testing.made_certificates import NOW, Made, make
from tests.testing.met_ports import STATES, free_port, met_port

NAME = "c2.mesh.cilium.io"
CA = make("Cilium CA", ca=True)
SERVER = make("server", issuer=CA, names=["*.mesh.cilium.io", "127.0.0.1"])
STRANGER = make("Another CA", ca=True)


class Server:
    """Listens on loopback and treats each connection in its own way; counts them."""

    def __init__(self, context: ssl.SSLContext | None, answer: bytes = b"", where: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._context = context
        self._answer = answer
        self._socket = socket.create_server(where)
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        self.names: list[str | None] = []
        if context is not None:
            context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                try:
                    if self._context is not None:
                        self._context.wrap_socket(connection, server_side=True).close()
                    elif self._answer:
                        connection.recv(4096)
                        connection.sendall(self._answer)
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


def context_of(tmp_path: Path, made: Made, *, chain: bytes = b"", newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """As etcd serves: a client certificate is wanted."""
    certificate, key, authorities = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    certificate.write_bytes(made.pem + chain)
    key.write_bytes(made.key)
    authorities.write_bytes(CA.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authorities)
    context.load_cert_chain(certificate, key)
    return context


@contextmanager
def serving(context: ssl.SSLContext | None, answer: bytes = b"", *, address: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    server = Server(context, answer, (address, port))
    try:
        yield server
    finally:
        server.close()


def target(port: int, *, made: Made = SERVER, ca: Made = CA, hostname: str = NAME, address: str = "127.0.0.1") -> TlsTarget:
    fingerprint = describe(made.certificate).fingerprint
    return TlsTarget(cluster="c2", address=address, port=port, hostname=hostname, fingerprint=fingerprint, authorities=ca.pem.decode())


def test_a_server_that_wants_a_client_certificate_is_proven_without_one(tmp_path: Path) -> None:
    with serving(context_of(tmp_path, SERVER)) as server:
        result = probe(target(server.port))
    assert (result.outcome, result.verified, result.error) == ("proven", True, "")
    assert result.fingerprint == describe(SERVER.certificate).fingerprint
    assert (result.cluster, result.address, result.port, result.hostname) == ("c2", "127.0.0.1", server.port, NAME)
    assert server.names == [NAME]
    assert 0 <= result.milliseconds < 3000


def test_an_address_in_the_url_is_verified_as_an_address(tmp_path: Path) -> None:
    with serving(context_of(tmp_path, SERVER)) as server:
        assert probe(target(server.port, hostname="127.0.0.1")).outcome == "proven"
        assert probe(target(server.port, hostname="127.0.0.2")).outcome == "refuted"


def test_another_ca_is_refuted_and_the_certificate_that_was_shown_is_named(tmp_path: Path) -> None:
    with serving(context_of(tmp_path, SERVER)) as server:
        result = probe(target(server.port, ca=STRANGER))
    assert (result.outcome, result.verified) == ("refuted", False)
    assert "certificate" in result.error and "\n" not in result.error
    assert result.fingerprint == describe(SERVER.certificate).fingerprint
    assert server.connections == 2


@pytest.mark.parametrize(
    "shown",
    [
        make("server", issuer=CA, names=["elsewhere.example.com"]),
        make(NAME, issuer=CA),  # Go does not look at the common name
        make("server", issuer=CA, names=["*.mesh.cilium.io"], ends=NOW - timedelta(hours=1)),
        make("server", issuer=CA, names=["*.cilium.io"]),
    ],
    ids=["another name", "common name only", "expired", "wildcard too high"],
)
def test_a_certificate_that_peers_would_not_accept_is_refuted(tmp_path: Path, shown: Made) -> None:
    with serving(context_of(tmp_path, shown)) as server:
        result = probe(target(server.port, made=shown))
    assert (result.outcome, result.verified, result.fingerprint) == ("refuted", False, describe(shown.certificate).fingerprint)


def test_a_trusted_certificate_that_is_not_the_one_of_the_secret_is_refuted(tmp_path: Path) -> None:
    """One CA for two clusters, and the address of one leads to the other."""
    other = make("server", issuer=CA, names=["*.mesh.cilium.io"])
    with serving(context_of(tmp_path, other)) as server:
        result = probe(target(server.port))
    assert (result.outcome, result.verified, result.fingerprint) == ("refuted", True, describe(other.certificate).fingerprint)


def test_an_intermediate_in_the_bundle_is_an_anchor_and_one_that_is_sent_is_a_link(tmp_path: Path) -> None:
    between = make("Intermediate", issuer=CA, ca=True)
    leaf = make("server", issuer=between, names=["*.mesh.cilium.io"])
    with serving(context_of(tmp_path, leaf)) as server:
        assert probe(target(server.port, made=leaf, ca=between)).outcome == "proven"
        assert probe(target(server.port, made=leaf)).outcome == "refuted"
    with serving(context_of(tmp_path, leaf, chain=between.pem)) as server:
        assert probe(target(server.port, made=leaf)).outcome == "proven"


def test_tls_1_2_with_a_wanted_client_certificate_proves_nothing_either_way(tmp_path: Path) -> None:
    with serving(context_of(tmp_path, SERVER, newest=ssl.TLSVersion.TLSv1_2)) as server:
        result = probe(target(server.port))
    assert (result.outcome, result.verified) == ("unreachable", False)
    assert "breaks off" in result.error


def test_tls_1_2_without_one_is_proven(tmp_path: Path) -> None:
    context = context_of(tmp_path, SERVER, newest=ssl.TLSVersion.TLSv1_2)
    context.verify_mode = ssl.CERT_NONE
    with serving(context) as server:
        assert probe(target(server.port)).outcome == "proven"


def test_a_server_without_tls_is_refuted() -> None:
    with serving(None, b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        result = probe(target(server.port))
    assert result.outcome == "refuted"
    assert "no TLS server" in result.error


def test_a_connection_that_ends_at_once_reports_nothing() -> None:
    """What a load balancer with nothing behind it does."""
    with serving(None) as server:
        assert probe(target(server.port)).outcome == "unreachable"


def test_an_address_without_a_listener_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = probe(target(port))
    assert (result.outcome, result.error) == ("unreachable", "the connection is refused")


def test_a_server_that_never_answers_costs_one_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        result = probe(target(silent.getsockname()[1]), timeout=0.2)
    assert (result.outcome, result.error) == ("unreachable", "no answer in time")
    assert 150 <= result.milliseconds < 2000


def test_a_name_that_is_not_found_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert probe(target(2379, address="lb.example.com")).error == "the name is not found in DNS from here"


@pytest.mark.parametrize("name", ["a..b", "a" * 70 + ".example.com"])
def test_a_name_that_cannot_be_a_name_is_unreachable(name: str) -> None:
    result = probe(target(2379, address=name))
    assert (result.outcome, result.error) == ("unreachable", "the name cannot be asked for")
    with serving(None) as server:
        assert probe(target(server.port, hostname=name)).error == "the name cannot be asked for"


def test_a_ca_that_openssl_does_not_take_is_said_and_nothing_is_asked() -> None:
    broken = replace(target(1), authorities="-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    result = probe(broken)
    assert (result.outcome, result.error) == ("unreachable", "ca.crt beside the server certificate cannot be loaded")


def observed(host: str, port: int, *ips: str, made: Made = SERVER) -> ClusterFacts:
    facts = cluster_facts(host)
    leaf, authority = describe(made.certificate), describe(CA.certificate)
    return replace(
        facts,
        server_cert=replace(facts.server_cert, certificate=leaf, ca=(authority,)),
        service=ServiceFacts(type="LoadBalancer", cluster_ip="10.96.2.10", port=port, ingress_ips=ips),
        endpoint_networks=("127.0.0.0/8",),
    )


def probed(
    *clusters: ClusterFacts, secrets: SecretStore | None = None, resolved: dict[str, tuple[str, ...]] | None = None
) -> list[ProbeResult]:
    facts = {cluster.host: cluster for cluster in clusters}
    if secrets is None:
        secrets = SecretStore()
        for host in facts:
            secrets.put(host, "clustermesh-apiserver-server-cert", "ca.crt", CA.pem)
    endpoints = decide_links(mesh_of(*facts), facts, LinkPolicy(resolved=resolved or {}), NOW).endpoints
    return list(probe_endpoints(facts, endpoints, secrets, resolved=resolved, timeout=2))


def test_every_address_of_every_cluster_is_asked_in_order(tmp_path: Path) -> None:
    with serving(context_of(tmp_path, SERVER)) as server:
        results = probed(observed("c1", server.port, "127.0.0.2", "127.0.0.1"), observed("c2", server.port, "127.0.0.1"))
    assert [(r.cluster, r.address, r.outcome) for r in results] == [
        ("c1", "127.0.0.1", "proven"),
        ("c1", "127.0.0.2", "unreachable"),
        ("c2", "127.0.0.1", "proven"),
    ]
    assert set(server.names) == {"c1.mesh.cilium.io", NAME}


def test_an_address_in_a_denied_range_is_not_asked(tmp_path: Path) -> None:
    port = free_port("127.0.0.2")
    with met_port("hangs up", "127.0.0.2", port, tmp_path) as accepted:
        cluster = replace(observed("c2", port, "127.0.0.2"), endpoint_networks=("127.0.0.2/32",))
        rule = DialRule(denied=("127.0.0.0/8",))
        assert probe(replace(target(port, address="127.0.0.2"), rule=rule)).outcome == "unreachable"
        assert probe(replace(target(port, address="localhost"), rule=rule)).outcome == "unreachable"
        assert accepted == []
        assert [result.outcome for result in probed(replace(cluster, denied_networks=("127.0.0.0/8",)))] == ["unreachable"]
        assert accepted, "an allowed address is dialled"


def test_where_ranges_are_denied_a_probe_does_not_tell_what_it_met(tmp_path: Path) -> None:
    rule = DialRule(denied=("10.96.0.0/12",), allowed=("127.0.0.0/8",))
    found = set()
    for state in STATES:
        port = free_port("127.0.0.2")
        with met_port(state, "127.0.0.2", port, tmp_path):
            found.add(replace(probe(replace(target(port, address="127.0.0.2"), rule=rule), timeout=0.3), port=0, address=""))
    found.add(replace(probe(replace(target(1, address="10.96.0.1"), rule=rule)), port=0, address=""))
    found.add(replace(probe(replace(target(1, address="no-such-name.invalid"), rule=rule)), port=0, address=""))
    assert {(result.outcome, result.error, result.milliseconds) for result in found} == {
        ("unreachable", "the controller cannot reach the cluster's server there", 0)
    }
    assert len(found) == 1
    with serving(context_of(tmp_path, SERVER)) as server:
        assert probe(replace(target(server.port), rule=rule)).outcome == "proven"


def test_a_name_that_is_not_found_is_still_probed_where_nothing_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: (_ for _ in ()).throw(socket.gaierror()))
    cluster = observed("c2", 1, made=make("server", issuer=CA, names=["lb.example.com"]))
    service = ServiceFacts(type="LoadBalancer", port=1, ingress_hostnames=("lb.example.com",))
    [result] = probed(replace(cluster, service=service))
    assert (result.address, result.error) == ("lb.example.com", "the name is not found in DNS from here")


@pytest.mark.parametrize(
    ("new", "used", "unproven"),
    [
        ("ours", "ours", False),
        ("a member", "ours", True),
        ("another", "ours", True),
        ("another", "nothing", True),
        ("nothing", "ours", True),
        ("nothing", "nothing", False),
    ],
)
def test_new_addresses_are_unproven_where_another_server_is_or_nothing_while_those_in_use_answer(
    tmp_path: Path, new: str, used: str, unproven: bool
) -> None:
    """127.0.0.1 is the new address, 127.0.0.2 the one in use; each shows our certificate, that of a member with
    our CA, that of another CA, or nothing."""
    other = make("server", issuer=make("other CA", ca=True), names=[NAME])
    member = make("server", issuer=CA, names=["*.mesh.cilium.io"])
    contexts = {"ours": context_of(tmp_path, SERVER), "another": context_of(tmp_path, other), "a member": context_of(tmp_path, member)}
    with ExitStack() as stack:
        port = 0
        for address, there in (("127.0.0.1", new), ("127.0.0.2", used)):
            if there != "nothing":
                port = stack.enter_context(serving(contexts[there], address=address, port=port)).port
        cluster = observed("c2", port or 1, "127.0.0.1")
        endpoint = MeshEndpoint(hostname=NAME, port=port or 1, ips=("127.0.0.1",))
        secrets = SecretStore()
        secrets.put("c2", "clustermesh-apiserver-server-cert", "ca.crt", CA.pem)
        found = unproven_moves({"c2": Move(endpoint, replace(endpoint, ips=("127.0.0.2",)))}, {"c2": cluster}, secrets)
    assert found == ({"c2"} if unproven else set())


def test_a_name_is_asked_at_the_addresses_that_it_has(tmp_path: Path) -> None:
    named = make("server", issuer=CA, names=["lb.example.com"])
    cluster = observed("c2", 0, made=named)
    with serving(context_of(tmp_path, named)) as server:
        service = ServiceFacts(type="LoadBalancer", port=server.port, ingress_hostnames=("lb.example.com",))
        results = probed(replace(cluster, service=service), resolved={"lb.example.com": ("127.0.0.1",)})
    assert [(r.address, r.hostname, r.outcome) for r in results] == [("127.0.0.1", "lb.example.com", "proven")]


def test_clusters_without_endpoint_certificate_or_ca_are_left_to_other_findings() -> None:
    whole = observed("c2", 1, "127.0.0.1")
    without_certificate = replace(whole, server_cert=replace(whole.server_cert, certificate=None))
    assert probed(replace(whole, service=None)) == []
    assert probed(without_certificate) == []
    assert probed(whole, secrets=SecretStore()) == []
    assert probed() == []
