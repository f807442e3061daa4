# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exec and port-forward over WebSockets, in Kubernetes' channel protocols.

A frame is one byte of channel number and then data. exec: 1 stdout, 2 stderr, 3 a metav1.Status with the exit code
(k8s.io/apimachinery/pkg/util/remotecommand). Port-forward: 0 data, 1 error text; the first frame of each holds the port, two bytes,
little endian (kubelet's portforward/websocket.go).

``kubernetes.stream`` does the same but wants keys in files for as long as it may connect, and no time limit for the handshake.
"""

from __future__ import annotations

import http.client
import io
import re
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ..base.dialling import connected
from ..base.errors import ServerRefused, Unreachable
from ..base.json_reader import NotJson, load_json
from ..base.optional_imports import optional
from .credentials import Credentials
from .deadlines import all_within
from .errors import Request, Server, from_answer, transport_errors

if TYPE_CHECKING:
    import urllib3
    import websocket
else:
    urllib3 = optional("urllib3")
    websocket = optional("websocket")

OUTPUT_LIMIT: Final = 8 * 1024 * 1024  # bytes of one command or one answer
EXEC_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_EXIT_CODE: Final = re.compile(r"[0-9]{1,10}")  # of a process: an integer of 32 bits
FORWARD_PROTOCOL: Final = "v4.channel.k8s.io"


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """Output of a command in a pod, decoded as UTF-8, and its exit code."""

    stdout: str
    stderr: str
    exit_code: int


def run_exec(
    credentials: Credentials,
    server: Server,
    path: str,
    container: str,
    command: Sequence[str],
    *,
    connect: float,
    timeout: float,
    partial: bool = False,
) -> ExecResult:
    """Run ``command`` in a pod and wait for its end, at most ``timeout`` seconds with the handshake.

    :param path: the pod's ``…/exec``.
    :param connect: seconds for the connection and its handshake.
    :param partial: when time runs out, return the output so far with exit code -1, instead of raising Unreachable.
    :raises Unreachable: when the connection fails, or the command has not ended in time.
    :raises ServerRefused: when the container or the command is missing.
    :raises ClusterError: for any other answer that refuses the stream.
    """
    request = Request.of("GET", path)
    query = urlencode([("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", c) for c in command)])
    deadline = time.monotonic() + timeout
    outputs: dict[int, bytearray] = {1: bytearray(), 2: bytearray(), 3: bytearray()}
    late = False
    with connected_stream(credentials, server, request, f"{path}?{query}", EXEC_PROTOCOLS, connect, timeout) as stream:
        try:
            for channel, data in channel_frames(stream, server, request, deadline, timeout):
                outputs.get(channel, bytearray()).extend(data)
                if channel == 3 or sum(map(len, outputs.values())) > OUTPUT_LIMIT:
                    break
        except Unreachable:
            late = partial
            if not partial:
                raise
    return ExecResult(
        stdout=outputs[1].decode("utf-8", "replace"),
        stderr=outputs[2].decode("utf-8", "replace"),
        exit_code=-1 if late else _exit_code(server, request, bytes(outputs[3])),
    )


def run_forward(credentials: Credentials, server: Server, path: str, port: int, target: str, *, connect: float, timeout: float) -> str:
    """Return the body of ``GET target`` from ``port`` of a pod's own localhost.

    :param path: the pod's ``…/portforward``.
    :param connect: seconds for the connection and its handshake.
    :param timeout: seconds for all of it.
    :raises ServerRefused: when the port refuses the connection, answers outside 2xx, or does not answer in HTTP.
    :raises Unreachable: when the connection fails, or there is no answer in time.
    :raises ClusterError: for any other answer that refuses the stream.
    """
    request = Request.of("GET", path)
    deadline = time.monotonic() + timeout
    received = bytearray()
    with connected_stream(credentials, server, request, f"{path}?ports={port}", (FORWARD_PROTOCOL,), connect, timeout) as stream:
        # HTTP/1.0: the answer is not chunked and ends with the connection
        stream.send_binary(b"\x00" + f"GET {target} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode())
        opened: set[int] = set()
        for channel, data in channel_frames(stream, server, request, deadline, timeout):
            if channel not in opened:
                opened.add(channel)  # the frame that only repeats the port
            elif channel == 1:
                raise ServerRefused(f"Port {port} of the pod refused a forwarded connection ({request}).", cluster=server.cluster)
            else:
                received += data
                if len(received) > OUTPUT_LIMIT or _complete(received):
                    break
    return _body(server, request, port, bytes(received))


@contextmanager
def connected_stream(
    credentials: Credentials, server: Server, request: Request, target: str, protocols: Sequence[str], connect: float, timeout: float
) -> Iterator[websocket.WebSocket]:
    """Open a WebSocket to an API server and close it at the end, without waiting for the server's closing frame.

    :param protocols: subprotocols, the preferred one first.
    :raises ClusterError: when the connection fails or the server refuses the upgrade, also for failures inside the ``with`` block.
    """
    headers = [f"{name}: {value}" for name, value in credentials.headers()]
    options: dict[str, Any] = {"context": credentials.tls} if credentials.tls else {}
    if credentials.tls is not None and not credentials.verifies:
        options |= {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
    if credentials.tls_server_name:
        options["server_hostname"] = credentials.tls_server_name
    with transport_errors(server, connect=connect, read=timeout):
        stream = websocket.WebSocket(sslopt=options, skip_utf8_validation=True)
        try:
            stream.settimeout(min(connect, timeout))
            stream.frame_buffer = _BoundedFrames(stream.frame_buffer.recv, True)
            url = "ws" + credentials.server.removeprefix("http") + target
            options = {"header": headers, "subprotocols": list(protocols), "suppress_origin": True, **_proxy(credentials)}
            with all_within(timeout):
                with all_within(2 * connect):  # the connection, and then the handshakes
                    _forget_cookies()
                    stream.connect(url, redirect_limit=0, **options, **_dialled(credentials, min(connect, timeout)))
                yield stream
        except websocket.WebSocketBadStatusException as error:
            raise from_answer(server, request, error.status_code, decoded_json(error.resp_body or b"")) from None
        except (websocket.WebSocketException, OSError):
            answer = stream.handshake_response
            if answer is not None and 300 <= answer.status < 400:  # the token is for this server alone
                raise from_answer(server, request, answer.status, None) from None
            raise
        finally:
            stream.shutdown()  # not close(): that would wait for the other side's closing frame


def _dialled(credentials: Credentials, seconds: float) -> dict[str, Any]:
    """Return the connection to the API server as an option of websocket-client, where ranges are denied; else {}: it connects itself.

    :raises OSError: when no connection comes about.
    """
    if credentials.dialler is None or credentials.tls is None:  # open_cluster gives no dialler without TLS
        return {}
    tls, url = credentials.tls, urllib3.util.parse_url(credentials.server)
    host = str(url.host or "").strip("[]")

    def connect(address: str, share: float | None) -> ssl.SSLSocket:
        connection = connected(address, url.port or 443, share)
        try:
            return tls.wrap_socket(connection, server_hostname=credentials.tls_server_name or host.rstrip("."))
        except BaseException:
            connection.close()
            raise

    return {"socket": credentials.dialler.first(host, connect, timeout=seconds)}


def _proxy(credentials: Credentials) -> dict[str, Any]:
    """Return the proxy as options of websocket-client.

    Without these, it would read the environment itself, although no_proxy was evaluated already.

    :raises Unreachable: for a proxy that is spoken to by TLS, which websocket-client cannot do.
    """
    proxy = credentials.proxy
    if proxy is None:
        return {"http_proxy_host": "unused", "http_no_proxy": ["*"]}  # the second is read only beside the first
    if proxy.scheme == "https":
        why = "No command runs in a pod and no port is forwarded through a proxy that has TLS itself."
        raise Unreachable(why, remedy="Name a proxy with http:// or socks5:// in proxy-url.", cluster=credentials.cluster)
    settings: dict[str, Any] = {
        "http_proxy_host": proxy.host.strip("[]"),
        "http_proxy_port": proxy.port,
        "proxy_type": "socks5h" if proxy.scheme.startswith("socks") else "http",
        "http_no_proxy": ["none"],
    }
    if proxy.user is not None:
        settings["http_proxy_auth"] = (proxy.user, proxy.password or "")
    return settings


def channel_frames(
    stream: websocket.WebSocket, server: Server, request: Request, deadline: float, timeout: float
) -> Iterator[tuple[int, bytes]]:
    """Yield (channel, data) until the server closes the stream.

    :param deadline: of ``time.monotonic``.
    :raises Unreachable: at ``deadline``.
    """
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            why = f"It took longer than {timeout:g} s to {request}."
            raise Unreachable(why, remedy="Check the pod and its node, and run again.", cluster=server.cluster)
        stream.settimeout(left)
        try:
            frame = stream.recv_frame()  # recv_data_frame would join fragments, however many
        except websocket.WebSocketTimeoutException:
            continue
        except websocket.WebSocketConnectionClosedException:
            return
        if frame.opcode == websocket.ABNF.OPCODE_CLOSE:
            return
        if frame.opcode == websocket.ABNF.OPCODE_PING:
            stream.pong(frame.data)
        if not frame.fin or frame.opcode == websocket.ABNF.OPCODE_CONT:
            raise ServerRefused(f"What answered to {request} sent a message in parts, which no API server does.", cluster=server.cluster)
        if frame.opcode in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT) and frame.data:
            data = frame.data if isinstance(frame.data, bytes) else frame.data.encode()
            if data[0] != 255:  # v5: a channel was closed
                yield data[0], data[1:]


class _BoundedFrames(websocket.frame_buffer):  # type: ignore[misc]  # the package has no types
    """Buffer of received frames, which refuses a long one before it is read."""

    def recv_length(self) -> None:
        """Read the length of a frame.

        :raises websocket.WebSocketPayloadException: when it is longer than any output that is accepted.
        """
        super().recv_length()
        if (self.length or 0) > OUTPUT_LIMIT:
            raise websocket.WebSocketPayloadException("the frame is too long")


class _NoCookies:
    """Cookie jar that keeps nothing. websocket-client has one jar for the whole process, and finds cookies by the end of a host's name."""

    def add(self, cookies: str | None) -> None:
        """Keep nothing."""

    def get(self, host: str) -> str:
        """Return no cookie."""
        del host  # the interface of websocket-client's own jar
        return ""


def _forget_cookies() -> None:
    module = sys.modules["websocket._handshake"]
    if not isinstance(getattr(module, "CookieJar", None), _NoCookies):
        module.CookieJar = _NoCookies()  # type: ignore[attr-defined]  # the package has no types


def _exit_code(server: Server, request: Request, status: bytes) -> int:
    body = decoded_json(status)
    if isinstance(body, Mapping) and body.get("status") == "Success":
        return 0
    details = body.get("details") if isinstance(body, Mapping) else None
    causes = details.get("causes") if isinstance(details, Mapping) else None
    for cause in causes if isinstance(causes, list) else []:
        code = str(cause.get("message", "")) if isinstance(cause, Mapping) and cause.get("reason") == "ExitCode" else ""
        if _EXIT_CODE.fullmatch(code):
            return int(code)
    why = "the container or the command is missing" if body else "the stream ended without an exit code"
    raise ServerRefused(f"Could not {request}: {why}.", cluster=server.cluster)


class _Answer:
    """Bytes in the form of a socket, for http.client."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        """Return the bytes as a file."""
        del mode  # http.client passes "rb" and nothing else
        return io.BytesIO(self._data)


def _parsed(data: bytes) -> http.client.HTTPResponse:
    answer = http.client.HTTPResponse(_Answer(data))  # type: ignore[arg-type]  # it reads a file and asks for nothing else of a socket
    answer.begin()
    return answer


def _complete(data: bytearray) -> bool:
    """Return whether all the bytes that Content-Length promises are there. Without one, only the closed connection marks the end."""
    head, separator, body = bytes(data).partition(b"\r\n\r\n")
    if not separator:
        return False
    try:
        length = _parsed(head + separator).length
    except Exception:  # an HTTPException, and ValueError or OverflowError for lengths that are none
        return True  # not HTTP; _body says so
    return length is not None and len(body) >= length


def _body(server: Server, request: Request, port: int, data: bytes) -> str:
    try:
        answer = _parsed(data)
        body = answer.read()
    except Exception:  # an HTTPException, ValueError, or OverflowError for a length beyond any file
        raise ServerRefused(f"Port {port} of the pod did not answer in HTTP ({request}).", cluster=server.cluster) from None
    if not 200 <= answer.status < 300:
        raise ServerRefused(f"Port {port} of the pod answered {answer.status} ({request}).", cluster=server.cluster)
    return body.decode("utf-8", "replace")


def decoded_json(data: bytes) -> Any:
    """Parse JSON; None if it is not valid."""
    try:
        return load_json(data)
    except NotJson:
        return None
