# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The kubelet stand-in gives what clients get from a kubelet: streams, exit codes, ports, logs. Skipped where it is not built yet."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import websocket

from tests.lab.patience import scaled
from tests.lab.profiles.pki import issue, make_ca
from tests.lab.tools.provide import Tools, at_hand
from tests.testing.waiting import wait_for

STDOUT, STDERR, STATUS = 1, 2, 3  # channels of v4.channel.k8s.io


@dataclass
class Kubelet:
    program: Path
    folder: Path
    port: int

    @property
    def client(self) -> dict[str, Any]:
        return {"ca_certs": f"{self.folder}/ca.crt", "certfile": f"{self.folder}/client.crt", "keyfile": f"{self.folder}/client.key"}

    def get(self, path: str, *, authenticated: bool = True) -> tuple[int, str]:
        context = ssl.create_default_context(cafile=f"{self.folder}/ca.crt")
        if authenticated:
            context.load_cert_chain(f"{self.folder}/client.crt", f"{self.folder}/client.key")
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}{path}", context=context, timeout=scaled(10)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def open(self, path: str, query: list[tuple[str, str]]) -> websocket.WebSocket:
        url = f"wss://127.0.0.1:{self.port}{path}?{urlencode(query)}"
        return websocket.create_connection(url, sslopt=self.client, subprotocols=["v4.channel.k8s.io"], timeout=scaled(10))

    def start(self, *command: str) -> websocket.WebSocket:
        return self.open("/exec/kube-system/pod-1/main", [("output", "1"), ("error", "1"), *(("command", word) for word in command)])

    def exec(self, *command: str) -> tuple[str, str, dict[str, Any]]:
        """stdout, stderr and the final status."""
        received = drain(self.start(*command))
        return received[STDOUT].decode(), received[STDERR].decode(), json.loads(received[STATUS])


def drain(connection: websocket.WebSocket) -> dict[int, bytes]:
    received = dict.fromkeys(range(5), b"")
    while True:
        try:
            kind, frame = connection.recv_data()
        except websocket.WebSocketConnectionClosedException:
            return received
        if kind == websocket.ABNF.OPCODE_CLOSE:
            connection.close()
            return received
        received[frame[0]] += frame[1:]


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    found = at_hand(["lab-kubelet"], print)
    if not found:
        pytest.skip("not built yet: lab-kubelet (python -m tests.lab.tools build)")
    program, folder = Tools(found)["lab-kubelet"], tmp_path_factory.mktemp("kubelet")
    ca = make_ca("kubelet", key_type="ec")
    (folder / "ca.crt").write_text(ca.cert_pem)
    for name, leaf in {
        "server": issue(ca, "node", ips=["127.0.0.1"], key_type="ec"),
        "client": issue(ca, "apiserver", key_type="ec"),
    }.items():
        (folder / f"{name}.crt").write_text(leaf.cert_pem)
        (folder / f"{name}.key").write_text(leaf.key_pem)
    (folder / "pods").mkdir()
    (folder / "log").write_text("one\ntwo\nthree\n")
    containers = {"main": {"exec": ["env", "INSIDE=yes"], "log": f"{folder}/log"}}
    entry = {"containers": containers, "connect": [str(program), "connect", "127.0.0.1"]}
    (folder / "pods" / "kube-system_pod-1.json").write_text(json.dumps(entry))
    files = [f"--tls-cert={folder}/server.crt", f"--tls-key={folder}/server.key", f"--client-ca={folder}/ca.crt", f"--pods={folder}/pods"]
    child = subprocess.Popen([program, "--listen=127.0.0.1:0", *files], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout
    with child.stdout:
        try:
            yield Kubelet(program, folder, int(child.stdout.readline().rpartition(":")[2]))
        finally:
            child.terminate()
            child.wait(scaled(10))


def test_streams_stay_apart_and_the_container_is_entered(kubelet: Kubelet) -> None:
    out, errors, status = kubelet.exec("sh", "-c", "echo out $INSIDE; echo err >&2")
    assert (out, errors, status["status"]) == ("out yes\n", "err\n", "Success")


@pytest.mark.parametrize(
    ("command", "code"),
    [(["sh", "-c", "exit 3"], "3"), (["no-such-command"], "127"), ([__file__], "126"), (["sh", "-c", "kill -9 $$"], "137")],
)
def test_exit_codes_are_those_of_a_shell(kubelet: Kubelet, command: list[str], code: str) -> None:
    _, _, status = kubelet.exec(*command)
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": code}]


def test_a_command_ends_with_its_client(kubelet: Kubelet) -> None:
    connection = kubelet.start("sh", "-c", "echo $$; exec sleep 300")
    frame = b""
    while not frame[1:]:
        _, frame = connection.recv_data()
    process = Path("/proc") / frame[1:].decode().strip()
    assert process.exists()
    connection.sock.close()
    wait_for(lambda: not process.exists(), what="the command has ended", every=0.02)


def test_a_port_is_forwarded(kubelet: Kubelet) -> None:
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)"
    serve = f"{listen}; c, _ = s.accept(); c.sendall(c.recv(99)[::-1])"
    with subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        port = int(server.stdout.readline())
        connection = kubelet.open("/portForward/kube-system/pod-1", [("port", str(port))])
        connection.send_binary(b"\x00hello")
        received = drain(connection)
    # Both channels begin with the port, two bytes, little end first.
    assert received[0] == port.to_bytes(2, "little") + b"olleh"
    assert received[1] == port.to_bytes(2, "little")


def test_a_refused_port_is_reported_on_the_error_channel(kubelet: Kubelet) -> None:
    received = drain(kubelet.open("/portForward/kube-system/pod-1", [("port", "9")]))
    assert b"connect: connection refused" in received[1]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "one\ntwo\nthree\n"),
        ("?tailLines=2", "two\nthree\n"),
        ("?tailLines=0", ""),
        ("?tailLines=9", "one\ntwo\nthree\n"),
        ("?limitBytes=4", "one\n"),
    ],
)
def test_logs_are_the_file(kubelet: Kubelet, query: str, text: str) -> None:
    assert kubelet.get(f"/containerLogs/kube-system/pod-1/main{query}") == (200, text)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/exec/kube-system/pod-2/main?command=true&output=1", 'pod "pod-2" in namespace "kube-system": not found'),
        ("/exec/kube-system/pod-1/other?command=true&output=1", 'container "other" in pod "pod-1"'),
        ("/portForward/kube-system/pod-2", 'pod "pod-2"'),
        ("/containerLogs/kube-system/..%2F..%2Fpod-1/main", "not found"),
    ],
)
def test_what_is_not_there_is_named(kubelet: Kubelet, path: str, what: str) -> None:
    code, text = kubelet.get(path)
    assert code == 404
    assert what in text


def test_only_the_clusters_own_apiserver_is_let_in(kubelet: Kubelet) -> None:
    assert kubelet.get("/healthz", authenticated=False) == (200, "ok")
    assert kubelet.get("/containerLogs/kube-system/pod-1/main", authenticated=False)[0] == 401
