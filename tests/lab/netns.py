# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A pod's network namespace: its own loopback, so that every pod can have 127.0.0.1:2379 as the charts want it.

A namespace belongs to the thread that made it; that thread stays in it and makes sockets there on request. It never goes back, because an
ordinary user (lab in a user namespace) may not re-enter the machine's own network namespace.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from tests.lab.sandbox import CLONE_NEWNET, PROC, check, libc

SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
T = TypeVar("T")
_Job = tuple[Callable[[], Any], "Future[Any]"]


class NetNs:
    """``path`` is good for setns(2) by every process of the lab as long as this object is open."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        ready: Future[int] = Future()
        threading.Thread(target=self._work, args=(ready,), name=f"netns-{name}", daemon=True).start()
        self._handle = ready.result()
        # /proc may be that of the machine while the lab has process ids of its own: the link says which id this process has there.
        self.path = f"/proc/{os.readlink('/proc/self')}/fd/{self._handle}"

    @property
    def node_path(self) -> str:
        """The same for processes of a node with a real agent, which see procfs of the lab's process ids (sandbox.py)."""
        return f"{PROC}/{os.getpid()}/fd/{self._handle}"

    def call(self, job: Callable[[], T]) -> T:
        """Run ``job`` inside the namespace and wait for it; it must be quick (make a socket, bind it)."""
        done: Future[T] = Future()
        self._jobs.put((job, done))
        return done.result()

    def close(self) -> None:
        """Give the namespace up; the kernel removes it with its last process and socket."""
        self._jobs.put(None)
        os.close(self._handle)

    def _work(self, ready: Future[int]) -> None:
        try:
            check(libc.unshare(CLONE_NEWNET), "unshare the network namespace")
            _loopback_up()
            ready.set_result(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            ready.set_exception(error)
            return
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                done.set_result(job())
            except Exception as error:  # it belongs to the caller that waits for the job; this thread goes on
                done.set_exception(error)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP, b""))


def new_socket(place: NetNs | None) -> socket.socket:
    """A TCP socket of ``place``; None is the machine's own namespace."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        return made

    return place.call(make) if place else make()


def listen(place: NetNs | None, address: str, port: int) -> socket.socket:
    """A listening socket in ``place``. Raises OSError that names address and port."""
    made = new_socket(place)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"listen on {address}:{port} in {place.name if place else 'the host'}: {error.strerror}") from None
    return made
