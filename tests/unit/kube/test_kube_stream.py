# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""exec and port-forward: the channel protocols, their ends and their limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.testing.scripted_server import CANARY, Answer, ScriptedServer

OK = b'\x03{"status":"Success"}'
HTTP = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path) as server:
        yield server


@pytest.fixture
def cluster(server: ScriptedServer) -> Iterator[Cluster]:
    with open_cluster(ClusterAccess(host="c1", kubeconfig=server.kubeconfig(), context=None, namespace="cilium")) as cluster:
        yield cluster


def exited(code: Any) -> bytes:
    causes = [{"reason": "ExitCode", "message": code}]
    return b"\x03" + json.dumps({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}).encode()


def streams(server: ScriptedServer, *frames: bytes) -> None:
    server.answer = lambda asked: Answer(frames=list(frames))


def test_output_and_exit_code_of_a_command_come_back(server: ScriptedServer, cluster: Cluster) -> None:
    streams(server, b"\x01", b"\x02", b"\x01one ", b"\x02oops", b"\x01t\xc3\xa4", b"\xff\x01", exited("7"))
    result = cluster.exec("pod-1", "cilium-agent", ["cilium", "status", "-o", "json"])
    assert (result.stdout, result.stderr, result.exit_code) == ("one t\u00e4", "oops", 7)
    asked = server.asked[0]
    assert urlsplit(asked.path).path == "/api/v1/namespaces/cilium/pods/pod-1/exec"
    wanted = {"container": ["cilium-agent"], "command": ["cilium", "status", "-o", "json"], "stdout": ["true"], "stderr": ["true"]}
    assert parse_qs(urlsplit(asked.path).query) == wanted
    assert asked.headers["authorization"] == f"Bearer {CANARY}"
    assert asked.headers["sec-websocket-protocol"] == "v5.channel.k8s.io,v4.channel.k8s.io"
    assert "origin" not in asked.headers


def test_success_is_exit_code_zero(server: ScriptedServer, cluster: Cluster) -> None:
    streams(server, b"\x01done", OK)
    assert cluster.exec("p", "c", ["true"]).exit_code == 0


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (
            b"\x03" + json.dumps({"status": "Failure", "message": CANARY, "reason": "InternalError"}).encode(),
            "container or the command is missing",
        ),
        (exited(CANARY), "container or the command is missing"),
        (b"\x01cut off", "ended without an exit code"),
        (b"\x03not json", "ended without an exit code"),
    ],
)
def test_a_command_that_did_not_run_is_an_error_that_quotes_nothing(
    server: ScriptedServer, cluster: Cluster, last: bytes, words: str
) -> None:
    streams(server, last)
    with pytest.raises(ServerRefused, match=words) as caught:
        cluster.exec("p", "c", ["true"])
    assert CANARY not in str(caught.value)


def test_a_command_that_does_not_end_is_given_up(server: ScriptedServer, cluster: Cluster) -> None:
    server.answer = lambda asked: Answer(frames=[b"\x01x"], delay=5)
    with pytest.raises(Unreachable, match=r"0\.2 s"):
        cluster.exec("p", "c", ["sleep", "9"], timeout=0.2)


def test_a_refused_stream_names_what_rbac_wants(server: ScriptedServer, cluster: Cluster) -> None:
    server.answer = lambda asked: Answer(403, {"kind": "Status", "reason": "Forbidden", "message": CANARY})
    with pytest.raises(Forbidden, match=r'pods/exec "p".*Grant create and get on pods/exec'):
        cluster.exec("p", "c", ["true"])


def forwarded(server: ScriptedServer, *data: bytes) -> None:
    port = (9889).to_bytes(2, "little")
    streams(server, b"\x00" + port, b"\x01" + port, *data)


@pytest.mark.parametrize("head", [HTTP + b"Content-Length: 9\r\n\r\n", HTTP + b"\r\n"])
def test_a_pods_localhost_is_read_through_a_port_forward(server: ScriptedServer, cluster: Cluster, head: bytes) -> None:
    forwarded(server, b"\x00" + head, b'\x00[{"name"', b"\x00]")
    assert cluster.forward_get("p", 9889, "/v1/cluster") == '[{"name"]'
    assert urlsplit(server.asked[0].path).query == "ports=9889"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([b"\x01dial tcp4 127.0.0.1:9889: " + CANARY.encode()], "refused a forwarded connection"),
        ([b"\x00HTTP/1.0 500 " + CANARY.encode() + b"\r\n\r\n"], "answered 500"),
        ([b"\x00" + CANARY.encode() + b"\r\n\r\n"], "did not answer in HTTP"),
        ([], "did not answer in HTTP"),
    ],
)
def test_a_port_that_does_not_answer_is_an_error_that_quotes_nothing(
    server: ScriptedServer, cluster: Cluster, data: list[bytes], words: str
) -> None:
    forwarded(server, *data)
    with pytest.raises(ServerRefused, match=words) as caught:
        cluster.forward_get("p", 9889, "/v1/cluster")
    assert CANARY not in str(caught.value)


def test_a_proxy_with_tls_is_refused_by_name(server: ScriptedServer) -> None:
    document = server.kubeconfig()
    document["clusters"][0]["cluster"]["proxy-url"] = f"https://me:{CANARY}@127.0.0.1:1"
    with open_cluster(ClusterAccess(host="c1", kubeconfig=document, context=None)) as cluster, pytest.raises(Unreachable) as refused:
        cluster.exec("p", "c", ["true"])
    assert "a proxy that has TLS itself" in refused.value.message and CANARY not in str(refused.value)


def test_streams_are_counted_as_requests(server: ScriptedServer, cluster: Cluster) -> None:
    streams(server, OK)
    cluster.exec("p", "c", ["true"])
    assert cluster.requests == {"create pods/exec": 1}
