# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a hostile confined process tries: a handler for the fork server, which reports what it got, or misbehaves as it is told."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

HANDLER = "tests.testing.confined_probe:answer"


def answer(job: Mapping[str, Any]) -> Any:
    """Do what the job names. A job of the operator is a dry run whose first kubeconfig names what to do."""
    if job.get("job") == "open":
        return _opened(job["kubeconfigs"])
    function: Callable[..., Any] = globals()[f"do_{job['do']}"]
    return function(*job.get("with", ()))


def _opened(kubeconfigs: Mapping[str, str]) -> Any:
    for text in kubeconfigs.values():
        if f"do_{text}" in globals():
            return globals()[f"do_{text}"]()
    user, cluster = {"token": "t"}, {"server": "https://192.0.2.1"}
    made = {"apiVersion": "v1", "kind": "Config", "current-context": "context"}
    for kind, entry in (("cluster", cluster), ("user", user), ("context", {"cluster": "cluster", "user": "user"})):
        made[f"{kind}s"] = [{"name": kind, kind: entry}]  # type: ignore[assignment]
    return {name: {"kubeconfig": made} for name in kubeconfigs}


# Looking around


def do_read(*paths: str) -> dict[str, str]:
    """Return "read" or the name of the error, by path."""
    return {path: _tried(partial(_opened_once, path, os.O_RDONLY), "read") for path in paths}


def do_list(*paths: str) -> dict[str, str]:
    return {path: _tried(partial(os.listdir, path), "listed") for path in paths}


def do_write(*paths: str) -> dict[str, str]:
    return {path: _tried(partial(_opened_once, path, os.O_WRONLY | os.O_CREAT), "written") for path in paths}


def do_private(size: int) -> list[str]:
    """Write a file of that size in the own folder."""

    def write() -> None:
        with open(os.path.join(os.environ["TMPDIR"], "key"), "wb", buffering=0) as file:
            for _ in range(size // 4096):
                file.write(bytes(4096))

    return [os.environ["TMPDIR"], _tried(write, "written")]


def do_environment() -> dict[str, str]:
    return dict(os.environ)


def do_descriptors() -> dict[str, list[int]]:
    """Return type and device of every open file, by its number."""
    found = {}
    for number in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        found[str(number)] = [status.st_mode, status.st_rdev]
    return found


def do_rights() -> dict[str, Any]:
    libc = ctypes.CDLL(None)
    sets = (ctypes.c_uint32 * 6)()
    libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), sets)
    limits = {name: list(resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))) for name in ("CORE", "CPU", "FSIZE", "NOFILE")}
    more = {"capabilities": list(sets), "threads": threading.active_count(), "session": os.getsid(0) == os.getpid()}
    return {"no_new_privs": libc.prctl(39, 0, 0, 0, 0), "dumpable": libc.prctl(3, 0, 0, 0, 0), "limits": limits, "pid": os.getpid(), **more}


def do_threads(count: int) -> int:
    """Have so many threads at a time, and return how many there were."""
    barrier = threading.Barrier(count + 1)
    threads = [threading.Thread(target=barrier.wait) for _ in range(count)]
    for thread in threads:
        thread.start()
    found = threading.active_count() - 1
    barrier.wait()
    for thread in threads:
        thread.join()
    return found


def do_signal(pid: int) -> str:
    return _tried(lambda: os.kill(pid, 0), "sent")


def do_execute(program: str) -> str:
    return _tried(lambda: os.execv(program, [program]), "executed")


def do_listen() -> str:
    def listen() -> None:
        with socket.socket() as made:
            made.bind(("127.0.0.1", 0))

    return _tried(listen, "bound")


def do_connect(port: int) -> str:
    return _tried(lambda: socket.create_connection(("127.0.0.1", port), 5).close(), "connected")


def do_fork() -> list[int]:
    """Start processes that leave the group and outlive this one, one the child of the other. Returns their ids and our own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            os.setsid()
        else:
            os.write(writer, str(grandchild).encode())
        time.sleep(3600)
    return [os.getpid(), child, int(os.read(reader, 20))]


def _opened_once(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def _tried(action: Callable[[], Any], done: str) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return done


# Misbehaving


def do_memory() -> int:
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def do_loop() -> None:
    while True:
        pass


def do_hang() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def do_crash() -> None:
    ctypes.string_at(0)


def do_end() -> None:
    os._exit(0)


def do_raise() -> None:
    raise ValueError("c4n4ry-of-a-tenant")


def do_say(text: str, repeat: int = 1, length: int | None = None) -> None:
    """Write something else than an answer, and wait."""
    content = text.encode() * repeat
    with socket.socket(fileno=os.dup(3)) as connection:
        connection.sendall((len(content) if length is None else length).to_bytes(8, "big") + content)
        time.sleep(3600)


def do_nonsense() -> Any:
    return {"c1": {"kubeconfig": {"users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]}}, "c2": []}
