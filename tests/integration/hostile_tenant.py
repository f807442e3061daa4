# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A tenant with four workspaces who attacks the operator in every way at once that ``ATTACKS`` lists, while another one works.

Each attack says how it is seen to have happened: what an attacker's server was asked for, or what the operator answered in a status.
"""

from __future__ import annotations

import itertools
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from mesh_operator.kinds import BINDING, FABRIC, INTENT, SERVICE
from tests.integration.operator_lab import Workspace
from tests.testing.hostile_server import HostileServer

Object = dict[str, Any]
Speak = Callable[[HostileServer, ssl.SSLSocket, str], None]

MOST_OBJECTS: Final = 60  # as --max-objects-per-workspace of the operator under attack
FLAGS: Final = ("--max-objects-per-workspace", str(MOST_OBJECTS), "--job-timeout", "15s", "--dry-run-timeout", "10s")
WORKSPACES: Final = 3  # with hostile servers
SLOW_MESHES: Final = 4  # in each workspace with hostile servers
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"


def _body(connection: ssl.SSLSocket, body: bytes, status: bytes = _HEAD) -> None:
    connection.sendall(status + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def _drips(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    server.drip(connection, itertools.chain(_HEAD, itertools.cycle(b"X-More: 1\r\n")))


def _is_silent(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    server.wait(connection)


def _never_ends(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    """A namespace with a uid first, so that the lists are asked for; then pages without end."""
    if "/namespaces/kube-system " in head:
        _body(connection, json.dumps({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "hostile"}}).encode())
        return
    _body(connection, json.dumps({"kind": "List", "metadata": {"continue": "more"}, "items": []}).encode())


def _is_long(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    """64 MiB of objects without content, which cost a parser twenty times as much."""
    connection.sendall(_HEAD + b'Content-Length: 67108864\r\n\r\n{"items":[')
    with suppress(OSError):  # the reader hangs up
        for _ in range(64):
            connection.sendall(b"{}," * (1024 * 1024 // 3))


def _redirects(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    cookie = f"Set-Cookie: stays={'x' * 100_000}; Domain=1\r\n"
    status = f"HTTP/1.1 302 Found\r\nLocation: {server.url}/elsewhere\r\n{cookie}Connection: close\r\n"
    _body(connection, b"", status.encode())


def _is_a_page(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    _body(connection, b"<html>" + b"x" * 200_000)


SERVERS: Final[Mapping[str, Speak]] = {
    "an answer byte by byte": _drips,
    "silence": _is_silent,
    "lists without an end": _never_ends,
    "an answer of 64 MiB": _is_long,
    "redirects with a cookie": _redirects,
    "a page in place of an answer": _is_a_page,
}
"""API servers of the tenant's clusters: what they do with each request."""


def kubeconfig_bomb() -> str:
    """1.5 KiB that take hours to compare: two towers of aliases (trials: D1)."""
    tower = [f"{name}{level}: &{name}{level} [{', '.join([f'*{name}{level - 1}'] * 9)}]" for level in range(1, 15) for name in "ab"]
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]", "b0: &b0 [x, x, x, x, x, x, x, x, y]", *tower]
    document = [
        "contexts: [{name: c, context: {cluster: *a14, user: u}}]",
        "clusters: [{name: *b14, cluster: {server: 'https://192.0.2.1'}}]",
    ]
    return "\n".join([*lines, *document, "users: [{name: u, user: {token: t}}]", "current-context: c", ""])


@dataclass
class HostileTenant:
    """See the module. ``edits``: how often specs were edited."""

    servers: list[Workspace]  # with clusters behind hostile servers, and many meshes of them
    objects: Workspace  # too many and too large objects, a bomb, and edits without end
    listeners: dict[str, HostileServer] = field(default_factory=dict)
    edits: int = 0

    def happened(self) -> dict[str, bool]:
        """Return by attack whether it has reached the operator."""
        seen = {name: bool(server.heads) for name, server in self.listeners.items()}
        seen["a bomb of aliases in a kubeconfig"] = self.objects.condition(BINDING, "bomb").get("reason") == "KubeconfigRefused"
        seen["too many objects, with 200 KiB of annotations each"] = any(
            (entry or {}).get("reason") == "QuotaExceeded"
            for obj in self.objects.resources().values()
            for entry in (obj.get("status") or {}).get("conditions") or []
        )
        seen["edits without end"] = self.edits > 20
        return seen


ATTACKS: Final = (
    *SERVERS,
    "a bomb of aliases in a kubeconfig",
    "too many objects, with 200 KiB of annotations each",
    "edits without end",
)


@contextmanager
def hostile_tenant(folder: Path, workspace: Callable[[str], Workspace]) -> Iterator[HostileTenant]:
    """Everything at once, until the end of the block.

    :param workspace: makes a workspace of that name.
    """
    with ExitStack() as stack:
        tenant = HostileTenant([workspace(f"mallory-{number}") for number in range(WORKSPACES)], workspace("mallory-objects"))
        for number, (name, speak) in enumerate(SERVERS.items()):
            owner = tenant.servers[number % WORKSPACES]
            place = folder / f"hostile-{number}"
            place.mkdir()
            server = tenant.listeners[name] = HostileServer(place)
            server.speak = partial(speak, server)
            stack.enter_context(server)
            for side in ("a", "b"):
                path = place / f"{side}.kubeconfig"
                path.write_text(yaml.safe_dump(server.kubeconfig()), encoding="utf-8")
                owner.add(f"k{number}{side}", kubeconfig=path)
        soon: Object = {"failover": {"detectWithin": "1s"}, "selector": {"namespace": "production", "name": "nginx"}}
        for owner in tenant.servers:
            names = list(owner.clusters)
            pairs = list(zip(names[::2], names[1::2], strict=True))
            for number in range(SLOW_MESHES):
                owner.create(BINDING, f"slow-{number}", clusterRefs=owner.refs(*pairs[number % len(pairs)]))
                owner.create(SERVICE, f"slow-{number}", meshRef={"name": f"slow-{number}"}, **soon)
        _crowd(tenant.objects, folder)
        ended = threading.Event()
        thread = threading.Thread(target=_edit, args=(tenant, ended))
        thread.start()
        try:
            yield tenant
        finally:
            ended.set()
            thread.join()


def _crowd(workspace: Workspace, folder: Path) -> None:
    bomb = folder / "bomb.kubeconfig"
    bomb.write_text(kubeconfig_bomb(), encoding="utf-8")
    for name in ("x1", "x2"):
        workspace.add(name, kubeconfig=bomb)
    workspace.create(BINDING, "bomb", clusterRefs=workspace.refs("x1", "x2"))
    ends: Object = {side: {"namespace": "production", "selector": {"app": "web"}} for side in ("source", "destination")}
    for number in range(MOST_OBJECTS + 20):
        name = f"crowd-{number}"
        workspace.create(INTENT, name, meshRef={"name": "bomb"}, action="Allow", ports=[{"protocol": "TCP", "port": 80}], **ends)
        if number % 4 == 0:
            workspace.merge(INTENT, name, {"metadata": {"annotations": {"example.com/notes": "x" * 200 * 1024}}})
        if number % 8 == 0:
            workspace.create(FABRIC, name, meshRefs=[{"name": "bomb"}])


def _edit(tenant: HostileTenant, ended: threading.Event) -> None:
    while not ended.wait(0.15):
        kind = ("NodePort", "LoadBalancer")[tenant.edits // SLOW_MESHES % 2]
        owner = tenant.servers[tenant.edits % WORKSPACES]
        owner.change(BINDING, f"slow-{tenant.edits % SLOW_MESHES}", meshConfig={"serviceType": kind})
        tenant.edits += 1
