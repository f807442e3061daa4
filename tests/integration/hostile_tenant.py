# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A tenant with five workspaces who attacks the operator in every way at once, while another one works.

Each attack says how it is seen to have happened: what an attacker's server was asked for, or what the operator answered in a status. And
its outcome is seen from outside too: what the operator says of it in the end, and what it must not do meanwhile.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from mesh_operator.base.kinds import BINDING, FABRIC, INTENT, SERVICE
from mesh_operator.meshes.status import GOOD
from mesh_operator.source.bounds import OF_ALL
from tests.integration.hostile_api_servers import ELSEWHERE, REDIRECTS, HostileApiServer, hostile_api_servers
from tests.integration.operator_lab import Workspace
from tests.testing.hostile_server import HostileServer

Object = dict[str, Any]

MOST_OBJECTS: Final = 60  # as --max-objects-per-workspace of the operator under attack
FLAGS: Final = (
    *("--max-objects-per-workspace", str(MOST_OBJECTS), "--max-bytes", "16Mi"),
    *("--job-timeout", "15s", "--dry-run-timeout", "10s"),
)
WORKSPACES: Final = 3  # with hostile servers
SLOW_MESHES: Final = 4  # in each workspace with hostile servers
BOMB: Final = "a bomb of aliases in a kubeconfig"
CROWD: Final = "too many objects, with 200 KiB of annotations each"
HEAVY: Final = "objects that take more memory than there is for all workspaces"
EDITS: Final = "edits without end"
_BOMBS: Final = ("x1", "x2")
_HEAVY_OBJECTS: Final = 45  # with 300 KiB of memory each
_INTERVAL: Final = 0.05  # seconds between two observations of the operator's connections


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
    """See the module. ``edits``: how often specs were edited. ``trap``: a server of others, to which redirects lead."""

    servers: list[Workspace]  # with clusters behind hostile servers, and many meshes of them
    objects: Workspace  # too many and too large objects, a bomb, and edits without end
    heavy: Workspace  # objects of which each takes as much memory as its schema allows
    trap: HostileServer
    kinds: Mapping[str, HostileApiServer]
    listeners: dict[str, HostileServer] = field(default_factory=dict)
    edits: int = 0
    _seen: set[str] = field(default_factory=set)  # attacks of which the operator has said what it has to say
    _connections: Mapping[str, frozenset[socket.socket]] = field(default_factory=dict)  # by attack, when last observed
    _at_once: set[str] = field(default_factory=set)

    def not_begun(self) -> list[str]:
        """Return the attacks that have not reached the operator yet."""
        waiting = {name: not server.heads for name, server in self.listeners.items()}
        waiting[BOMB] = self.objects.condition(BINDING, "bomb").get("reason") != "KubeconfigRefused"
        waiting[CROWD] = not any(_is_refused(obj) for obj in self.objects.resources().values())
        waiting[HEAVY] = bool(self._heavy())
        waiting[EDITS] = self.edits <= 20
        return [name for name, waits in waiting.items() if waits]

    def without_outcome(self) -> list[str]:
        """Return the attacks of which the operator has not said yet what it has to say.

        What was seen once counts, as meshes that are edited without end are on the way again and again.
        """
        for name, ready in self._conditions():
            wanted = self.kinds[name]
            if ready.get("reason") in wanted.reasons and wanted.words in ready.get("message", ""):
                self._seen.add(name)
        late = [name for name in self.kinds if name not in self._seen]
        return late + [name for name, problem in self._problems().items() if problem]

    def explanation(self) -> str:
        """Return what is wrong, and what the operator says of each attack now."""
        said = [f"{name}: {ready.get('reason')}: {ready.get('message')}" for name, ready in self._conditions()]
        return "\n".join([*filter(None, (*self.wrongs(), *self._problems().values())), *said])

    def wrongs(self) -> list[str]:
        """Return what the operator did and must not do, whatever a tenant's servers and objects are like, in one line each."""
        heads, trap, found = self.listeners[REDIRECTS].heads, self.trap, []
        kept = {"cookie:": "the cookie of a tenant's server was sent", ELSEWHERE: "a redirect to the same server was followed"}
        for words, what in kept.items():
            asked = [head for head in heads if words in head.lower()]
            found += [f"{what}, in {len(asked)} of {len(heads)} requests: {asked[0][:300]!r}"] if asked else []
        if trap.handshakes:
            asked = [head.partition("\r\n")[0] for head in trap.heads]
            found.append(f"a redirect to a server of others was followed, with {trap.handshakes} connections and the requests {asked}")
        found += [f"two meshes of one workspace had a worker at the same time: {pair}" for pair in sorted(self._at_once)]
        for owner in self.servers:
            phases = {name: (obj.get("status") or {}).get("phase") for name, obj in owner.resources().items()}
            found += [f"{name} of an attacker is called {phase}" for name, phase in phases.items() if phase in GOOD]
        return found

    def observe_connections(self) -> None:
        """Note the meshes of one workspace that have a worker at the same time, which only one may have.

        An observation takes its time. But a connection that two in a row show was open all the time between them.
        """
        before, self._connections = self._connections, {name: server.connections() for name, server in self.listeners.items()}
        lasting = {name for name, now in self._connections.items() if now & before.get(name, frozenset())}
        for number in range(WORKSPACES):
            names = [name for name in list(self.listeners)[number::WORKSPACES] if name in lasting]
            if len(names) > 1:
                self._at_once.add(" and ".join(names))

    def _conditions(self) -> Iterator[tuple[str, Object]]:
        """Yield for each mesh what its servers do, and the condition Ready."""
        for place, owner in enumerate(self.servers):
            names = list(self.kinds)[place::WORKSPACES]
            yield from ((names[number % len(names)], owner.condition(BINDING, f"slow-{number}")) for number in range(SLOW_MESHES))

    def _problems(self) -> dict[str, str]:
        return {BOMB: self._bomb(), CROWD: self._crowd(), HEAVY: self._heavy()}

    def _bomb(self) -> str:
        """ "" or what is wrong with the answer to the bombs: each of them is refused by its name."""
        ready = self.objects.condition(BINDING, "bomb")
        refused = ready.get("reason") == "KubeconfigRefused" and all(f"{name}: " in ready["message"] for name in _BOMBS)
        return "" if refused else f"the mesh with bombs is not refused, but {ready.get('reason')}: {ready.get('message')}"

    def _heavy(self) -> str:
        """ "" or what is wrong with the answer to objects that take much memory: some are taken, and the others refused for that reason."""
        refused = [obj for obj in self.heavy.resources().values() if _is_refused(obj) and OF_ALL in str(obj["status"])]
        return "" if 0 < len(refused) < _HEAVY_OBJECTS else f"{len(refused)} of {_HEAVY_OBJECTS} objects are refused for their memory"

    def _crowd(self) -> str:
        """ "" or what is wrong with the answers to too many objects: as many as may be are taken, which are the oldest ones."""
        objects = list(self.objects.resources().values())
        refused = [obj for obj in objects if _is_refused(obj)]
        taken = [obj for obj in objects if not _is_refused(obj)]
        least = MOST_OBJECTS - len(_BOMBS)  # KubernetesClusters are not listed here, and count if they came before the others by a second
        if not least <= len(taken) <= MOST_OBJECTS:
            return f"{len(taken)} of {len(objects)} objects are not refused, and {least} to {MOST_OBJECTS} may be taken"
        newest, oldest = max(map(_created, taken)), min(map(_created, refused))
        return f"an object of {newest} is taken, and an older one of {oldest} is refused" if oldest < newest else ""


def _is_refused(obj: Object) -> bool:
    return any(entry.get("reason") == "QuotaExceeded" for entry in (obj.get("status") or {}).get("conditions") or [])


def _created(obj: Object) -> str:
    return str(obj["metadata"]["creationTimestamp"])


@contextmanager
def hostile_tenant(folder: Path, workspace: Callable[[str], Workspace]) -> Iterator[HostileTenant]:
    """Everything at once, until the end of the block.

    :param workspace: makes a workspace of that name.
    """
    with ExitStack() as stack:
        trap = stack.enter_context(_server(folder / "trap"))
        workspaces = [workspace(f"mallory-{number}") for number in range(WORKSPACES)]
        objects, heavy = (workspace(f"mallory-{name}") for name in ("objects", "memory"))
        tenant = HostileTenant(workspaces, objects, heavy, trap, hostile_api_servers(trap))
        for number, (name, kind) in enumerate(tenant.kinds.items()):
            owner, place = tenant.servers[number % WORKSPACES], folder / f"hostile-{number}"
            server = tenant.listeners[name] = stack.enter_context(_server(place))
            server.speak = partial(kind.speak, server)
            for side in ("a", "b"):
                path = place / f"{side}.kubeconfig"
                path.write_text(yaml.safe_dump(server.kubeconfig()), encoding="utf-8")
                owner.add(f"k{number}{side}", kubeconfig=path)
        stack.enter_context(_again_and_again(tenant.observe_connections, _INTERVAL))
        soon: Object = {"failover": {"detectWithin": "1s"}, "selector": {"namespace": "production", "name": "nginx"}}
        for owner in tenant.servers:
            names = list(owner.clusters)
            pairs = list(zip(names[::2], names[1::2], strict=True))
            for number in range(SLOW_MESHES):
                owner.create(BINDING, f"slow-{number}", clusterRefs=owner.refs(*pairs[number % len(pairs)]))
                owner.create(SERVICE, f"slow-{number}", meshRef={"name": f"slow-{number}"}, **soon)
        _crowd(tenant.objects, folder)
        stack.callback(_lighten, tenant.heavy)
        _heavy(tenant.heavy)
        stack.enter_context(_again_and_again(partial(_edit, tenant), 0.15))
        yield tenant


@contextmanager
def _again_and_again(what: Callable[[], None], every: float) -> Iterator[None]:
    """Do something in a thread of its own, with so many seconds in between, until the end of the block."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every):
            what()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _server(folder: Path) -> HostileServer:
    folder.mkdir()
    return HostileServer(folder)


def _crowd(workspace: Workspace, folder: Path) -> None:
    bomb = folder / "bomb.kubeconfig"
    bomb.write_text(kubeconfig_bomb(), encoding="utf-8")
    for name in _BOMBS:
        workspace.add(name, kubeconfig=bomb)
    workspace.create(BINDING, "bomb", clusterRefs=workspace.refs(*_BOMBS))
    ends: Object = {side: {"namespace": "production", "selector": {"app": "web"}} for side in ("source", "destination")}
    for number in range(MOST_OBJECTS + 20):
        name = f"crowd-{number}"
        workspace.create(INTENT, name, meshRef={"name": "bomb"}, action="Allow", ports=[{"protocol": "TCP", "port": 80}], **ends)
        if number % 4 == 0:
            workspace.merge(INTENT, name, {"metadata": {"annotations": {"example.com/notes": "x" * 200 * 1024}}})
        if number % 8 == 0:
            workspace.create(FABRIC, name, meshRefs=[{"name": "bomb"}])


def _heavy(workspace: Workspace) -> None:
    values = [f"{number:03}{'x' * 60}" for number in range(64)]
    expressions = [{"key": f"app-{number}", "operator": "In", "values": values} for number in range(16)]
    ends: Object = {side: {"namespace": "production", "expressions": expressions} for side in ("source", "destination")}
    ports = [{"protocol": "TCP", "port": 1000 + number} for number in range(256)]
    for number in range(_HEAVY_OBJECTS):
        workspace.create(INTENT, f"heavy-{number}", meshRef={"name": "edge"}, action="Allow", ports=ports, **ends)


def _lighten(workspace: Workspace) -> None:
    """Delete the heavy objects: a workspace keeps the memory that it has got, also beside the next operator's tenants."""
    for number in range(_HEAVY_OBJECTS):
        workspace.delete(INTENT, f"heavy-{number}")


def _edit(tenant: HostileTenant) -> None:
    kind = ("NodePort", "LoadBalancer")[tenant.edits // SLOW_MESHES % 2]
    owner = tenant.servers[tenant.edits % WORKSPACES]
    owner.change(BINDING, f"slow-{tenant.edits % SLOW_MESHES}", meshConfig={"serviceType": kind})
    tenant.edits += 1
