# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a hostile confined process tries: a handler for the fork server, which reports what it got, or misbehaves as it is asked to."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import resource
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.whole import kubeconfig_of
from mesh_operator.runs.confined.fork_server import answer_all
from mesh_operator.runs.confined.messages import PART, send

HANDLER = "tests.testing.confined_probe:serve"


def serve(connection: socket.socket) -> None:
    answer_all(connection, answer)


def answer(job: Mapping[str, Any]) -> Any:
    """Do what the job names. A job of the operator is a dry run whose first kubeconfig names what to do."""
    if job.get("job") == "open":
        return _opened(job["kubeconfigs"])
    if job.get("job") == "dry_run":  # there is something to do
        return None
    function: Callable[..., Any] = globals()[f"do_{job['do']}"]
    return function(*job.get("with", ()))


def _opened(kubeconfigs: Mapping[str, str]) -> Any:
    for text in kubeconfigs.values():
        if f"do_{text}" in globals():
            return globals()[f"do_{text}"]()
    made = kubeconfig_of({"server": "https://192.0.2.1"}, {"token": "t"})
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
    limits = {name: list(resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))) for name in ("CORE", "CPU", "FSIZE", "MEMLOCK", "NOFILE")}
    more = {"capabilities": list(sets), "threads": threading.active_count(), "session": os.getsid(0) == os.getpid()}
    return {"no_new_privs": libc.prctl(39, 0, 0, 0, 0), "dumpable": libc.prctl(3, 0, 0, 0, 0), "limits": limits, "pid": os.getpid(), **more}


def do_everything(operator: int, files: Mapping[str, str], port: int) -> dict[str, str]:
    """Try everything of the table in docs/threat-model.md, and return the result, a word or the name of the error, by row.

    :param operator: id of the operator's process.
    :param files: of the operator: "kubeconfig", a file; "folder", the one that it is in; "socket", the name of an abstract socket on which
        it listens.
    :param port: of a server on loopback.
    """
    own = os.environ["TMPDIR"]
    rights = do_rights()
    return {
        "read a file of the operator": _tried(partial(_opened_once, files["kubeconfig"], os.O_RDONLY), "done"),
        "list the folder of that file": _tried(partial(os.listdir, files["folder"]), "done"),
        "write into that folder": _tried(partial(_opened_once, f"{files['folder']}/new", os.O_WRONLY | os.O_CREAT), "done"),
        "list /": _tried(partial(os.listdir, "/"), "done"),
        "list /tmp": _tried(partial(os.listdir, "/tmp"), "done"),
        "list /dev/shm": _tried(partial(os.listdir, "/dev/shm"), "done"),
        "write into /dev/shm": _tried(partial(_opened_once, "/dev/shm/mesh-operator-new", os.O_WRONLY | os.O_CREAT), "done"),
        "list /proc": _tried(partial(os.listdir, "/proc"), "done"),
        "read /etc/shadow": _tried(partial(_opened_once, "/etc/shadow", os.O_RDONLY), "done"),
        "read the operator's environment": _tried(partial(_opened_once, f"/proc/{operator}/environ", os.O_RDONLY), "done"),
        "read the operator's memory": _tried(partial(_opened_once, f"/proc/{operator}/mem", os.O_RDONLY), "done"),
        "trace the operator": _tried(partial(_traced, operator), "done"),
        "signal the operator": do_signal(operator).replace("sent", "done"),
        "connect to an abstract socket of the operator": _tried(partial(_connected_abstractly, files["socket"]), "done"),
        "start a program": do_execute("/bin/sh").replace("executed", "done"),
        "listen on a TCP port": do_listen().replace("bound", "done"),
        "open a raw socket": _tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close(), "done"),
        "become root": _tried(partial(_became, 0), "done"),
        "mount": _tried(partial(_called, "mount", b"none", own.encode(), b"tmpfs", 0, None), "done"),
        "make a namespace": _tried(partial(_called, "unshare", 0x00020000), "done"),  # CLONE_NEWNS of linux/sched.h
        "raise a limit": _tried(_raised_a_limit, "done"),
        "write a file of 1 MiB in its folder": do_private(1 << 20)[1].replace("written", "done"),
        "write a larger one": do_private((1 << 20) + 4096)[1].replace("written", "done"),
        "read Python": _tried(partial(_opened_once, os.__file__, os.O_RDONLY), "done"),
        "read the files of the resolver": _tried(partial(_opened_once, "/etc/hosts", os.O_RDONLY), "done"),
        "read random bytes": _tried(partial(_opened_once, "/dev/urandom", os.O_RDONLY), "done"),
        "connect to a server": do_connect(port).replace("connected", "done"),
        "its environment": " ".join(sorted(os.environ)),
        "its open files": " ".join(f"{number}:{_kind(mode)}" for number, (mode, _device) in do_descriptors().items()),
        "its capabilities": "none" if not any(rights["capabilities"]) else "some",
        "new privileges": "never" if rights["no_new_privs"] == 1 else "possible",
        "debugging by another process of its user": "no" if rights["dumpable"] == 0 else "yes",
        "its session and threads": f"{'its own' if rights['session'] else 'shared'}, {rights['threads']}",
        "its limits": " ".join(f"{name}={most}" for name, (_soft, most) in sorted(rights["limits"].items())),
        "its memory": "bounded" if all(_bound(kind) >= 0 for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)) else "unbounded",
    }


def do_user() -> list[int]:
    """Return all its user ids, and its groups."""
    return [*os.getresuid(), *os.getgroups()]


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


def _traced(pid: int) -> None:
    """Attach to a process, and let it go at once."""
    _called("ptrace", ctypes.c_long(0x4206), ctypes.c_long(pid), None, None)  # PTRACE_SEIZE of linux/ptrace.h, which stops nothing
    _called("ptrace", ctypes.c_long(17), ctypes.c_long(pid), None, None)  # PTRACE_DETACH


def _became(user: int) -> None:
    os.setresuid(user, user, user)


def _raised_a_limit() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    except ValueError:  # which Python makes of EPERM
        raise OSError(errno.EPERM, "setrlimit") from None


def _connected_abstractly(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(f"\0{name}")


def _called(function: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)


def _bound(kind: int) -> int:
    """Return the hard limit, -1 without one (getrlimit(2), RLIM_INFINITY)."""
    return resource.getrlimit(kind)[1]


def _kind(mode: int) -> str:
    return "socket" if stat.S_ISSOCK(mode) else "device" if stat.S_ISCHR(mode) else "other"


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


def do_messages(messages: list[Any]) -> None:
    """Send messages that are given, or one half of one, or parts without end; then end."""
    with socket.socket(fileno=os.dup(3)) as connection:
        for message in messages:
            if message == "half":
                connection.sendall((1000).to_bytes(8, "big") + b"{")
            elif message == "endless":
                for number in itertools.count():
                    send(connection, {PART: {"item": f"globalServices/{number}", "status": {"phase": "Exported", "conditions": []}}})
            else:
                send(connection, message)
    if not any(isinstance(message, dict) and "answer" in message for message in messages):
        os._exit(0)


def do_count(values: list[int]) -> int:
    """Return how many values there are."""
    return len(values)


def do_nonsense() -> Any:
    return {"c1": {"kubeconfig": {"users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]}}, "c2": []}
