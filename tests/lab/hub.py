# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab's network: which address answers in which place, and what happens on the way.

A place is a pod's network namespace, or the machine's (source "controller"). In every place the addresses that could be dialled from there
are listened on, so the source of each connection is known and faults can hold for one direction of one pair of clusters. A port is open
only while something would answer: otherwise the dialler gets a real ECONNREFUSED.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.lab import nodeports
from tests.lab.netns import NetNs, listen, new_socket
from tests.lab.options import CONTROLLER
from tests.lab.relay import Link, abort


@dataclass(frozen=True)
class Door:
    """An address of a cluster's Service. ``everywhere``: reachable from other clusters and the machine, else from the cluster's own pods
    only. ``service`` is namespace/name; several doors may lead to one Service."""

    address: str
    port: int
    service: str
    everywhere: bool = True


@dataclass(frozen=True)
class Backend:
    """A port on 127.0.0.1 of a pod."""

    place: NetNs
    port: int


@dataclass
class _Place:
    netns: NetNs | None
    source: str
    host: bool = False
    listeners: dict[tuple[str, int], _Listener] = field(default_factory=dict)
    nodes: dict[tuple[str, str], nodeports.Answering] = field(default_factory=dict)


@dataclass(frozen=True)
class _Listener:
    socket: socket.socket
    task: asyncio.Task[None]


Dial = Callable[[], "asyncio.Future[socket.socket]"]


class Hub:
    """All places, doors and links of a lab. Event loop only, not thread-safe."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self._places = [_Place(None, CONTROLLER)]
        self._doors: dict[str, tuple[Door, ...]] = dict.fromkeys(clusters, ())
        self._backends: dict[tuple[str, str], tuple[Backend, ...]] = {}
        self._fixed: dict[str, tuple[str, int]] = {}
        self._turn = itertools.count()
        self._nodes: dict[str, tuple[str, ...]] = {}
        self.links = {(source, target): Link(source, target) for source in (*clusters, CONTROLLER) for target in clusters}
        self.troubles: list[str] = []

    # What there is

    def set_doors(self, cluster: str, doors: Iterable[Door]) -> None:
        """The addresses of ``cluster``'s Services, all of them."""
        self._doors[cluster] = tuple(doors)
        self._settle()

    def doors(self, cluster: str) -> tuple[Door, ...]:
        """The addresses of ``cluster``'s Services, open or not."""
        return self._doors[cluster]

    def set_backends(self, cluster: str, service: str, backends: Iterable[Backend]) -> None:
        """The ready pods behind a Service; none closes its doors."""
        self._backends[cluster, service] = tuple(backends)
        self._settle()

    def set_fixed(self, cluster: str, address: str, port: int) -> None:
        """An address of the machine that pods of ``cluster`` reach as it is: the kube-apiserver."""
        self._fixed[cluster] = (address, port)

    def set_nodes(self, cluster: str, addresses: Iterable[str]) -> None:
        """The addresses of ``cluster``'s nodes, which answer to the nodes of every cluster (nodeports.py)."""
        self._nodes[cluster] = tuple(addresses)
        self._settle()

    def add_place(self, netns: NetNs, cluster: str, *, host: bool = False) -> None:
        """``host``: it is the network of the cluster's nodes."""
        self._places.append(_Place(netns, cluster, host))
        self._settle()

    def remove_place(self, netns: NetNs) -> None:
        for place in [place for place in self._places if place.netns is netns]:
            for listener in place.listeners.values():
                _close(listener)
            self._places.remove(place)
        for key, backends in self._backends.items():
            self._backends[key] = tuple(backend for backend in backends if backend.place is not netns)
        self._settle()

    # What ails it

    def cut(self, source: str, target: str) -> None:
        """From now on connections from ``source`` to ``target`` are refused; existing ones end."""
        link = self.links[source, target]
        link.cut = True
        link.reset()
        self._settle()

    def freeze(self, source: str, target: str) -> None:
        self.links[source, target].freeze()

    def block(self, source: str, target: str, ports: Iterable[str]) -> None:
        """From now on these ports of ``target``'s nodes do not answer to the nodes of ``source``."""
        unknown = sorted(set(ports) - set(nodeports.PORTS))
        if unknown:
            raise ValueError(f"nodes do not answer at {', '.join(unknown)}; use {' or '.join(nodeports.PORTS)}")
        self.links[source, target].blocked |= set(ports)
        self._settle()

    def slow(self, source: str, target: str, seconds: float) -> None:
        self.links[source, target].delay = seconds

    def heal(self, source: str, target: str) -> None:
        self.links[source, target].heal()
        self._settle()

    def close(self) -> None:
        """Stop listening everywhere and end every connection."""
        for place in self._places:
            for listener in place.listeners.values():
                _close(listener)
            place.listeners.clear()
            for answering in place.nodes.values():
                answering.close()
            place.nodes.clear()
        for link in self.links.values():
            link.reset()

    # How it comes about

    def _settle(self) -> None:
        """Open the ports that should be open and are not; close the others."""
        for place in self._places:
            wanted = self._wanted(place)
            for key in [key for key in place.listeners if key not in wanted]:
                _close(place.listeners.pop(key))
            for key, (link, dial) in wanted.items():
                if key not in place.listeners:
                    self._open(place, key, link, dial)
            if place.host:
                self._settle_nodes(place)

    def _settle_nodes(self, place: _Place) -> None:
        """Let the nodes of all clusters answer in a place, at the ports that are not blocked on the way from it."""
        wanted = {
            (address, port)
            for cluster, addresses in self._nodes.items()
            for address in addresses
            for port in nodeports.PORTS
            if port not in self.links[place.source, cluster].blocked
        }
        for key in [key for key in place.nodes if key not in wanted]:
            place.nodes.pop(key).close()
        for key in sorted(wanted - place.nodes.keys()):
            try:
                place.nodes[key] = nodeports.answer(place.netns, *key)
            except OSError as error:
                self.troubles.append(str(error))

    def _wanted(self, place: _Place) -> dict[tuple[str, int], tuple[Link, Dial]]:
        wanted: dict[tuple[str, int], tuple[Link, Dial]] = {}
        for cluster, doors in self._doors.items():
            link = self.links[place.source, cluster]
            for door in doors:
                if link.cut or not self._backends.get((cluster, door.service)):
                    continue
                if door.everywhere or place.source == cluster:
                    wanted[door.address, door.port] = (link, self._dialler(cluster, door.service))
        if place.netns and place.source in self._fixed:
            fixed = self._fixed[place.source]
            wanted[fixed] = (self.links[place.source, place.source], lambda: _dial_machine(fixed))
        return wanted

    def _open(self, place: _Place, key: tuple[str, int], link: Link, dial: Dial) -> None:
        try:
            opened = listen(place.netns, *key)
        except OSError as error:
            self.troubles.append(str(error))
            return
        task = asyncio.get_running_loop().create_task(_accept(opened, link, dial))
        place.listeners[key] = _Listener(opened, task)

    def _dialler(self, cluster: str, service: str) -> Dial:
        async def dial() -> socket.socket:
            backends = self._backends.get((cluster, service))
            if not backends:
                raise ConnectionRefusedError(f"{cluster}: nothing behind {service}")
            backend = backends[next(self._turn) % len(backends)]
            return await dial_place(backend.place, backend.port)

        return lambda: asyncio.ensure_future(dial())


async def dial_place(place: NetNs, port: int) -> socket.socket:
    """Connect to 127.0.0.1:port of a pod. Raises OSError."""
    return await _connect(new_socket(place), ("127.0.0.1", port))


def _dial_machine(address: tuple[str, int]) -> asyncio.Future[socket.socket]:
    return asyncio.ensure_future(_connect(new_socket(None), address))


async def _connect(made: socket.socket, address: tuple[str, int]) -> socket.socket:
    try:
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made


async def _accept(listener: socket.socket, link: Link, dial: Dial) -> None:
    loop = asyncio.get_running_loop()
    while True:
        client, _ = await loop.sock_accept(listener)
        if link.cut:
            abort(client)
        else:
            link.carry(client, dial)


def _close(listener: _Listener) -> None:
    # Cancelling alone leaves the descriptor registered until the task runs; the port must be refused from this moment on.
    asyncio.get_running_loop().remove_reader(listener.socket.fileno())
    listener.task.cancel()
    listener.socket.close()
