# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A proxy before real API servers, which names every call of a run and lets one chosen call fail in one chosen way.

    with FaultProxy({"c1": kubeconfig, "c2": other}, folder) as proxy:
        proxy.begin()                                    # a run that is only recorded
        …                                                # a playbook with proxy.kubeconfigs
        for call in proxy.calls:
            proxy.begin(call, FAULTS["lost"])            # the same run again, and this call loses its answer

It ends TLS with a certificate of its own and speaks to the servers with the credentials of the kubeconfigs. Requests of several clusters
run side by side, so a call is named by cluster, verb, path and how many of that name came before it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import ssl
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

import yaml

from tests.lab import pki

TOKEN: Final = "token-that-no-output-may-show"
"""What the kubeconfigs of a proxy present; the proxy does not look at it."""
_HEAD: Final = 1 << 20  # bytes of a request's or an answer's head at most
_DEEP: Final = 50_000
SWITCHING: Final = 101
_KEPT: Final = ("labelSelector", "container", "watch", "dryRun")  # of a query; the rest says nothing of what is asked
_HASHES: Final = re.compile(r"(/pods/[a-z-]+?)(?:-[a-z0-9]{7,10})?-[a-z0-9]{5}(?=[/:?]|$)")

_T = TypeVar("_T")


@dataclass(frozen=True, order=True)
class Call:
    """One call of a run. ``number`` counts the calls of the same name, from 1."""

    cluster: str
    verb: str
    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.cluster} {self.verb} {self.path} #{self.number}"

    @property
    def writes(self) -> bool:
        return self.verb != "GET"

    @property
    def is_of_the_lock(self) -> bool:
        return "/leases/" in self.path


@dataclass(frozen=True)
class Fault:
    """What happens to a call. ``arrives``: the server carries it out. ``then``: what the client gets, a whole answer if it is bytes."""

    name: str
    arrives: bool
    then: Literal["reset", "silence", "half", "kill"] | bytes
    lasting: bool = False  # so do all later calls of the same name


def _http(status: int, body: bytes, media: str = "application/json", more: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def _status(code: int, reason: str, more: str = "") -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": TOKEN, "code": code}
    return _http(code, json.dumps(body).encode(), more=more)


_PAGE: Final = f"<html><body>Sign in to go on. {TOKEN}</body></html>".encode()
_OTHER: Final = {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "other"}, "conditions": []}
FAULTS: Final[dict[str, Fault]] = {
    fault.name: fault
    for fault in (
        Fault("refused", False, "reset"),
        Fault("refused lasting", False, "reset", lasting=True),
        Fault("lost", True, "reset"),
        Fault("half", True, "half"),
        Fault("silent", False, "silence"),
        Fault("silent lasting", False, "silence", lasting=True),
        Fault("silent late", True, "silence"),
        Fault("500", False, _status(500, "InternalError")),
        Fault("500 lasting", False, _status(500, "InternalError"), lasting=True),
        Fault("503", False, _status(503, "ServiceUnavailable")),
        Fault("504 late", True, _status(504, "Timeout")),
        Fault("429", False, _status(429, "TooManyRequests", "Retry-After: 1\r\n")),
        Fault("401", False, _status(401, "Unauthorized")),
        Fault("403", False, _status(403, "Forbidden")),
        Fault("409", False, _status(409, "Conflict")),
        Fault("404 of a proxy", False, _http(404, _PAGE, "text/html")),
        Fault("HTML", False, _http(200, _PAGE, "text/html")),
        Fault("another kind", False, _http(200, json.dumps(_OTHER).encode())),
        Fault("null", False, _http(200, b"null")),
        Fault("broken JSON", False, _http(200, b'{"kind": "Secret", "metadata": {')),
        Fault("deep JSON", False, _http(200, b'{"a":' * _DEEP + b"1" + b"}" * _DEEP)),
        Fault("killed before", False, "kill"),
        Fault("killed after", True, "kill"),
    )
}
_WRITES_ONLY: Final = {"lost", "silent late", "504 late", "409", "killed before", "killed after"}
_READS_ONLY: Final = {"refused lasting", "silent lasting", "500 lasting"}
OF_READS: Final = tuple(name for name in FAULTS if name not in _WRITES_ONLY)
OF_WRITES: Final = tuple(name for name in FAULTS if name not in _READS_ONLY)


@dataclass
class _Message:
    """The head of a request or an answer as it came, and what its body needs."""

    head: bytes
    first: list[str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def status(self) -> int:
        return int(self.first[1])


class FaultProxy:
    """Use as a context manager. ``kubeconfigs``: by cluster, files that lead through the proxy.

    :param targets: kubeconfigs of the servers, by the name that calls have; one context each, everything embedded.
    """

    def __init__(self, targets: Mapping[str, Path], folder: Path) -> None:
        self._targets = {name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in targets.items()}
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self.kubeconfigs: dict[str, Path] = {}
        self.begin()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def begin(
        self,
        call: Call | None = None,
        fault: Fault | None = None,
        kill: Callable[[], None] = lambda: None,
        *,
        write: int = 0,
        choose: Callable[[Call], Fault | None] = lambda _call: None,
    ) -> None:
        """Forget what was recorded, and let ``call``, or the write of that number, meet ``fault`` from now on.

        :param kill: ends the run, for the faults that do.
        :param write: counts from 1 over all clusters, without those of the lock.
        :param choose: says which fault a call meets, where that is not known before.
        """
        self._call, self._fault, self._kill, self._write, self._choose = call, fault, kill, write, choose
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self.calls: list[Call] = []
        self.carried_out: list[Call] = []  # writes that a server answered with success, dry runs not among them
        self.met = False

    @property
    def kills(self) -> bool:
        """Whether the run is to be killed."""
        return self._fault is not None and self._fault.then == "kill"

    @property
    def written(self) -> list[Call]:
        """Writes that a server carried out, other than of the lock."""
        return [call for call in self.carried_out if not call.is_of_the_lock]

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Host variables of an inventory that leads through the proxy."""
        return {name: {"cilium_mesh_kubeconfig": str(path)} for name, path in self.kubeconfigs.items()}

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        authority = pki.Authority(self._folder, "fault-proxy-ca")
        pair = authority.issue("proxy", "fault-proxy", names=["127.0.0.1"])
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.cert, pair.key)
        for name, document in self._targets.items():
            cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
            server = await asyncio.start_server(self._handler(name, cluster, user), "127.0.0.1", 0, ssl=context, limit=_HEAD)
            self._servers.append(server)
            port = server.sockets[0].getsockname()[1]
            made = pki.kubeconfig(name, f"https://127.0.0.1:{port}", authority.cert, pair)
            made["users"] = [{"name": name, "user": {"token": TOKEN}}]
            self.kubeconfigs[name] = self._folder / f"{name}.kubeconfig"
            pki.write_yaml(self.kubeconfigs[name], made)

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _handler(
        self, name: str, cluster: Mapping[str, str], user: Mapping[str, str]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
        server = urlsplit(cluster["server"])
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as file:  # ssl takes certificates from files only
            file.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            file.flush()
            context.load_cert_chain(file.name)

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
            try:
                while (request := await _message(reader)) is not None:
                    call, fault = self._meet(name, request)
                    if fault is not None and not fault.arrives:
                        await self._give(fault, None, reader, writer)
                        return
                    if upstream is None:
                        upstream = await asyncio.open_connection(server.hostname, server.port, ssl=context, limit=_HEAD)
                    upstream[1].write(_without_token(request.head) + request.body)
                    streamed = "watch=" in call.path
                    answer = await _message(upstream[0], answers=not streamed)
                    if answer is None:
                        return
                    if call.writes and answer.status < 300 and "dryRun" not in call.path:
                        self.carried_out.append(call)
                    if fault is not None:
                        await self._give(fault, answer, reader, writer)
                        return
                    writer.write(answer.head + answer.body)
                    if answer.status == SWITCHING or streamed:
                        await _pump(reader, writer, *upstream)
                        return
            except (OSError, asyncio.IncompleteReadError):
                pass  # one of the two has hung up
            finally:
                for end in (writer, *(upstream or ())[1:]):
                    end.transport.abort()

        return handle

    def _meet(self, cluster: str, request: _Message) -> tuple[Call, Fault | None]:
        """Name a request, and return what it meets."""
        name = (cluster, request.first[0], name_of(request.first[1]))
        self._counts[name] += 1
        call = Call(*name, number=self._counts[name])
        self.calls.append(call)
        if call.writes and not call.is_of_the_lock:
            self._write -= 1
        hit = self._fault is not None and (self._is_chosen(call) or (call.writes and not call.is_of_the_lock and self._write == 0))
        self.met = self.met or hit
        return call, self._fault if hit else self._choose(call)

    def _is_chosen(self, call: Call) -> bool:
        chosen, fault = self._call, self._fault
        if chosen is None or fault is None or replace(call, number=chosen.number) != chosen:
            return False
        return call.number == chosen.number or (fault.lasting and call.number > chosen.number)

    async def _give(self, fault: Fault, answer: _Message | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give the client what a fault makes of the answer; the connection ends afterwards."""
        if isinstance(fault.then, bytes):
            writer.write(fault.then)
            await writer.drain()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        elif fault.then == "half" and answer is not None:
            writer.write(answer.head + answer.body[: len(answer.body) // 2])
            await writer.drain()
        elif fault.then == "silence":
            await reader.read()
        elif fault.then == "kill":
            await asyncio.to_thread(self._kill)


def name_of(target: str) -> str:
    """Return the path of a request with what is asked of it, under a name that the next run gives it too."""
    path, _, query = target.partition("?")
    words = [value for key, value in parse_qsl(query) if key == "command" and not value.startswith("-")][:3]
    kept = [f"{key}={value}" for key, value in parse_qsl(query) if key in _KEPT] + ([f"command={' '.join(words)}"] if words else [])
    return _HASHES.sub(r"\1", path) + (f"?{'&'.join(kept)}" if kept else "")


def _without_token(head: bytes) -> bytes:
    return re.sub(rb"(?im)^authorization:.*\r\n", b"", head)


async def _message(reader: asyncio.StreamReader, *, answers: bool | None = None) -> _Message | None:
    """Read a request or an answer; None where the other side has hung up in between.

    :param answers: an answer is read with its body (True), or without, which then streams (False).
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    found = _Message(head, first.split(" ", 2), {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)})
    if answers is False:
        return found
    if "chunked" in found.headers.get("transfer-encoding", ""):
        found.body = await _chunks(reader)
    elif "content-length" in found.headers:
        found.body = await reader.readexactly(int(found.headers["content-length"]))
    elif answers and found.status not in (SWITCHING, 204, 304):
        found.body = await reader.read()
    return found


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """Read a chunked body (RFC 9112, 7.1) as it is on the wire."""
    raw = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        raw += line + await reader.readexactly(size + 2)
        if not size:
            return raw


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: asyncio.StreamReader, sink: asyncio.StreamWriter
) -> None:
    """Carry bytes both ways until one side ends."""

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()

    ways = [asyncio.ensure_future(carry(reader, sink)), asyncio.ensure_future(carry(upstream, writer))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
