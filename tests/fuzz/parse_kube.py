# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of what an API server, or whatever answers in its place, sends: answers, pages, watches, frames of exec and port-forward."""

from __future__ import annotations

from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.errors import Request, Server, from_answer
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.streams import decoded_json
from tests.fuzz.hostile_wire import answering
from tests.fuzz.parser import Form, parser

_SERVER: Final = Server(cluster="c1", address="192.0.2.1:6443")
_WRITER: Final = "whatever answers at the address of a kubeconfig"
_CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
_STREAM: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
)


@parser(
    "kube-answer",
    _WRITER,
    "kube/client.py",
    raises=(ClusterError,),
    seconds=4.0,
    growth=2000,  # gzip; and the same page six times
    tries=25,
)
def answer(data: bytes) -> object:
    """Read an object and a list whose every answer is the input, head and body."""
    found: list[object] = []
    with answering(data) as cluster:
        for read in (lambda: cluster.get(_CONFIG_MAP), lambda: cluster.list("/api/v1/pods"), lambda: list(_watched(cluster))):
            try:
                found.append(read())
            except ClusterError as error:
                found.append(str(error))
        found.append(cluster.server_time() and None)
    return found


def _watched(cluster: Any) -> Any:
    return cluster.watch("/api/v1/pods", version="1", seconds=5)


@parser("kube-status", _WRITER, "kube/streams.py", form=Form.JSON, growth=200)
def status(data: bytes) -> object:
    """Make the error of each kind of answer, with the input as body."""
    body = decoded_json(data)
    requests = (Request.of("GET", _CONFIG_MAP), Request.of("PATCH", _CONFIG_MAP))
    return [str(from_answer(_SERVER, request, code, body)) for request in requests for code in (400, 401, 403, 409, 410, 422, 500)]


@parser("exec-stream", f"{_WRITER}, and a pod of a member", "kube/streams.py", "observe/own_names.py", raises=(ClusterError,), tries=25)
def exec_stream(data: bytes) -> object:
    """Run a command whose stream is the input: a head if it has one, else frames."""
    with answering(data if data.startswith(b"HTTP/") else _STREAM + data) as cluster:
        return cluster.exec("pod", "container", ["true"], timeout=10)


@parser("forward-stream", f"{_WRITER}, and a pod of a member", "kube/streams.py", raises=(ClusterError,), tries=25)
def forward_stream(data: bytes) -> object:
    """Send a request through a port-forward whose stream is the input."""
    with answering(data if data.startswith(b"HTTP/") else _STREAM + data) as cluster:
        return cluster.forward_get("pod", 80, "/status", timeout=10)
