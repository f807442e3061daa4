# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an error is called, where a real connection would make it a matter of timing."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import urllib3

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, CredentialsInvalid, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.errors import Request, Server, from_answer, from_transport
from tests.testing.rows import one_test

NOW = datetime.now(UTC)
HUNG_UP = ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:2427)")


def error(cause: BaseException, *, ends: datetime | None = None, proxied: bool = False) -> ClusterError:
    server = Server(cluster="c1", address="10.0.0.1:6443", client_certificate_ends=ends, proxied=proxied)
    return from_transport(server, cause, connect=5.0, read=20.0)


def test_a_server_that_hangs_up_on_an_expired_certificate_is_about_the_certificate() -> None:
    found = error(urllib3.exceptions.ProtocolError("x", HUNG_UP), ends=NOW - timedelta(days=1))
    assert isinstance(found, CredentialsInvalid) and "expired on" in found.message


def test_a_server_that_hangs_up_otherwise_is_unreachable() -> None:
    found = error(HUNG_UP, ends=NOW + timedelta(days=1))
    assert isinstance(found, Unreachable) and "hung up" in found.message


@one_test(
    "cause words",
    (urllib3.exceptions.ConnectTimeoutError(), "did not accept a connection within 5 s"),
    (urllib3.exceptions.ReadTimeoutError(None, "/", "canary"), "did not answer within 20 s"),  # type: ignore[arg-type]  # without a pool, of which only the text is read
    (TimeoutError("canary"), "did not accept a connection within 5 s"),
    (ConnectionResetError("canary"), "closed the connection"),
    (urllib3.exceptions.ProtocolError("canary", ConnectionResetError()), "closed the connection"),
    (OSError("canary"), "cannot be reached"),
)
def test_connection_faults_have_words_of_ours(cause: BaseException, words: str) -> None:
    found = error(cause)
    assert isinstance(found, Unreachable) and words in found.message
    assert "canary" not in str(found)
    assert "10.0.0.1:6443" in found.message


def test_behind_a_proxy_it_may_have_been_the_proxy() -> None:
    assert "or the proxy before it refused" in error(ConnectionRefusedError(), proxied=True).message


def test_a_chain_of_causes_that_goes_round_ends() -> None:
    first, second = OSError("a"), OSError("b")
    first.__cause__, second.__cause__ = second, first
    assert "cannot be reached" in error(first).message


@one_test(
    "method path words",
    ("GET", "/api/v1/namespaces/kube-system", 'get namespaces "kube-system"'),
    ("GET", "/api/v1/namespaces", "list namespaces"),
    ("GET", "/api/v1/namespaces/a/pods?limit=5&continue=x", 'list pods in namespace "a"'),
    ("GET", "/apis/cilium.io/v2/ciliumnodes", "list ciliumnodes"),
    ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d", 'patch deployments "d" in namespace "a"'),
    ("POST", "/api/v1/namespaces/a/secrets", 'create secrets in namespace "a"'),
    ("GET", "/api/v1/namespaces/a/pods/p/exec?command=secret", 'create pods/exec "p" in namespace "a"'),
    ("GET", "/api/v1/namespaces/a/pods/p:9964/proxy/metrics", 'get pods/proxy "p:9964" in namespace "a"'),
    ("GET", "/version", 'get "/version"'),
    ("GET", "/clusters/*/apis/networking.edge-portal.eu/v1alpha1/globalservices?limit=500", "list globalservices"),
    (
        "PATCH",
        "/clusters/abc/apis/networking.edge-portal.eu/v1alpha1/namespaces/a/fabrics/f/status",
        'patch fabrics/status "f" in namespace "a"',
    ),
)
def test_a_request_is_described_in_the_words_of_rbac(method: str, path: str, words: str) -> None:
    assert str(Request.of(method, path)) == words


def test_a_field_that_the_server_does_not_know_is_named_and_nothing_else_of_its_words() -> None:
    request = Request.of("PATCH", "/apis/cilium.io/v2/namespaces/production/ciliumnetworkpolicies/x?fieldManager=m")
    message = "failed to create typed patch object (canary): .spec.ingress[0].toPorts[0].ports[0].endPort: field not declared in schema"
    found = from_answer(Server(cluster="c1", address="10.0.0.1:6443"), request, 500, {"kind": "Status", "message": message})
    assert "does not know the field .spec.ingress[0].toPorts[0].ports[0].endPort; it refused to patch" in found.message
    assert "canary" not in str(found)
