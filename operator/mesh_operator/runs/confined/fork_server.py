# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fork server: a process without secrets that has imported everything, and forks a confined child for each request.

``python -m mesh_operator.runs.confined.fork_server DESCRIPTOR FOLDER MODULE:FUNCTION…`` is started by process.py with an environment of
its own, so the operator names the FOLDER in which those of children are. A child calls the FUNCTION that it is for with its socket, and
ends when that returns. A request has two sockets, the child's and a lifeline, and may have a third descriptor, which the child and what
it forks keep open. When the other end of the lifeline is shut or closed, also because the operator died, the child is killed; when the
child is gone, with all that it started and its folder, the server writes how it ended to the lifeline.

The server has one thread: a fork copies only the thread that forks, and locks of others would stay closed in the child. It imports gRPC
and OpenSSL and uses neither, as gRPC asks of programs that fork (grpc, doc/fork_support.md).
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .confinement import Measures, ProcessLimits, Program, confine, measures_here, readable_here
from .messages import PART, Broken, receive_job, send

OUT_OF_MEMORY: Final = 71  # exit status of a child
NOT_CONFINED: Final = 72
JOB_LIMIT: Final = 64 * 1024 * 1024  # bytes of one job; it comes from the operator
STACK: Final = 2 * 1024 * 1024  # bytes of the stack of a thread
FOLDERS: Final = "mesh-operator-confined-"

_SET_CHILD_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_BURY: Final = 5.0  # seconds for killed processes to be gone
Handler = Callable[[socket.socket], None]


@dataclass(frozen=True)
class _Child:
    """Child that works. ``lifeline``: our end."""

    pid: int
    handle: int  # pidfd
    lifeline: socket.socket
    folder: str


class _Server:
    def __init__(self, requests: socket.socket, handlers: Mapping[str, Handler], folder: str) -> None:
        self._requests, self._handlers, self._folder = requests, handlers, folder
        self._readable = readable_here()
        self._measures: Measures = measures_here(self._readable, folder)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}  # by pidfd

    def serve(self) -> None:
        """Serve until the operator closes its end. Children are gone when it returns."""
        self._requests.send(json.dumps(asdict(self._measures)).encode())
        self._selector.register(self._requests, selectors.EVENT_READ, "requests")
        try:
            while self._turn():
                pass
        finally:
            for child in list(self._children.values()):
                _kill(child)
            until = time.monotonic() + _BURY
            while self._children and time.monotonic() < until:
                self._turn()
            _kill_strays(set())

    def _turn(self) -> bool:
        """Handle what has happened, and return False when the operator has closed its end."""
        for key, _events in self._selector.select(1.0):
            if key.data == "requests":
                if not self._take():
                    self._selector.unregister(self._requests)
                    return False
            elif key.data[0] == "lifeline":  # shut: the operator wants no more of it
                child: _Child = key.data[1]
                if self._children.get(child.handle) is child:  # else it was buried in this turn
                    _kill(child)
                    self._selector.unregister(key.fileobj)
            else:
                self._bury(key.data[1])
        return True

    def _take(self) -> bool:
        message, descriptors, _flags, _address = socket.recv_fds(self._requests, 65536, 3, socket.MSG_CMSG_CLOEXEC)
        if not message or len(descriptors) < 2:
            return False
        asked = json.loads(message)
        program = Program(**asked["program"]) if asked["program"] else None
        ours, *kept = descriptors[:1] + descriptors[2:]
        lifeline = socket.socket(fileno=descriptors[1])
        try:
            child = self._fork(self._handlers[asked["handler"]], [ours, *kept], lifeline, ProcessLimits(**asked["limits"]), program)
        except OSError:  # no process, file or memory is to be had just now: one request fails, and the others go on
            _report(lifeline, status=NOT_CONFINED)
        else:
            self._children[child.handle] = child
            self._selector.register(lifeline, selectors.EVENT_READ, ("lifeline", child))
            self._selector.register(child.handle, selectors.EVENT_READ, ("ended", child))
        finally:
            for descriptor in (ours, *kept):
                os.close(descriptor)
        return True

    def _fork(self, handler: Handler, kept: list[int], lifeline: socket.socket, limits: ProcessLimits, program: Program | None) -> _Child:
        folder, parent = tempfile.mkdtemp(prefix="process-", dir=self._folder), os.getpid()
        try:
            if self._measures.user >= 0 and program is None:
                os.chown(folder, self._measures.user, self._measures.user)
            pid = os.fork()
        except OSError:
            os.rmdir(folder)
            raise
        if pid == 0:
            self._be_child(handler, kept, limits, folder, parent, program)
        return _Child(pid, os.pidfd_open(pid), lifeline, folder)

    def _be_child(
        self, handler: Handler, kept: list[int], limits: ProcessLimits, folder: str, parent: int, program: Program | None
    ) -> None:
        """Confine this process, call the handler, and end the process without returning."""
        status = NOT_CONFINED
        try:
            os.setsid()
            silent = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(silent, number)
            first = 3 + len(kept)
            moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, first) for descriptor in kept]  # out of the way of what they become
            for number, descriptor in enumerate(moved, 3):
                os.dup2(descriptor, number, inheritable=False)
            os.closerange(first, os.sysconf("SC_OPEN_MAX"))
            own = program.folder if program else folder
            os.environ["TMPDIR"] = tempfile.tempdir = own
            confine(limits, self._measures, own, self._readable, parent, program)
            status = 1
            handler(socket.socket(fileno=3))
            status = 0
        except MemoryError:
            status = OUT_OF_MEMORY
        except BaseException:  # no trace is written, as its text may quote a tenant's data; the status tells where it happened
            pass
        finally:
            os._exit(status)

    def _bury(self, child: _Child) -> None:
        """Reap a child that ended, and what it left: processes, whatever their group, and its folder."""
        self._selector.unregister(child.handle)
        with suppress(KeyError, ValueError):
            self._selector.unregister(child.lifeline)
        del self._children[child.handle]
        _pid, status, used = os.wait4(child.pid, 0)
        os.close(child.handle)
        _kill_strays({other.pid for other in self._children.values()})
        shutil.rmtree(child.folder, ignore_errors=True)
        _report(child.lifeline, status=os.waitstatus_to_exitcode(status), cpu=used.ru_utime + used.ru_stime)


def answer_all(connection: socket.socket, answer: Callable[[Any], Any]) -> None:
    """Answer each job of the operator, a value of JSON for a value of JSON, until it closes its end.

    What a generator yields are parts, each of which is sent before the next one is made; what it returns is the answer.
    """
    with suppress(Broken):
        while True:
            for said in _said(answer, receive_job(connection, JOB_LIMIT)):
                send(connection, said)


def _said(answer: Callable[[Any], Any], job: Any) -> Iterator[dict[str, Any]]:
    try:
        found = answer(job)
        if isinstance(found, Generator):
            found = yield from parts_first(found)
        last = {"answer": found}
    except MemoryError:
        raise
    except Exception as error:  # the text may quote a tenant's data, so only the class is kept
        last = {"failed": type(error).__name__}
    yield last


def parts_first(found: Generator[Any, None, Any]) -> Generator[dict[str, Any], None, Any]:
    """Yield the messages of the parts that a generator yields, and return what it returns."""
    while True:
        try:
            part = next(found)
        except StopIteration as ended:
            return ended.value
        yield {PART: part}


def _report(lifeline: socket.socket, *, status: int, cpu: float = 0.0) -> None:
    """Tell the operator how a child ended: exit status or minus the signal, seconds of processor time."""
    with suppress(OSError), lifeline:
        lifeline.send(json.dumps({"status": status, "cpu": cpu}).encode())


def _kill(child: _Child) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(child.handle, signal.SIGKILL)


def _kill_strays(known: set[int]) -> None:
    """Kill and reap our children that we did not fork: what children started becomes ours when its parent dies, as we are its subreaper."""
    until = time.monotonic() + _BURY
    while (strays := _children_of(os.getpid()) - known) and time.monotonic() < until:
        for pid in strays:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def _children_of(parent: int) -> set[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    with suppress(FileNotFoundError):  # a kernel without CONFIG_PROC_CHILDREN
        return {int(pid) for pid in listed.read_text(encoding="ascii").split()}
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[1] == str(parent):
                found.add(int(place.name))
    return found


@contextmanager
def _folder_of_folders(parent: str) -> Iterator[str]:
    """Make the folder of the children's folders, and remove those that a killed server left."""
    for left in Path(parent).glob(f"{FOLDERS}*"):
        with suppress(OSError):
            if left.lstat().st_uid == os.getuid():
                with _locked(str(left)):
                    shutil.rmtree(left, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=FOLDERS, dir=parent)
    with _locked(made):
        os.chmod(made, 0o711)  # a child of another user passes through; it cannot list
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold the lock of a folder. BlockingIOError: a server that lives holds it; children inherit it and are gone before their server."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _with_small_stacks() -> None:
    """Replace this process by one whose threads have small stacks: libc takes the size from this limit when it starts.

    The limit of memory counts stacks as a whole, and gRPC starts threads by the number of processors.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft == resource.RLIM_INFINITY or soft > STACK:
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, hard))
        os.execv(sys.executable, sys.orig_argv)


def _imported(name: str) -> Handler:
    module, _, function = name.partition(":")
    handler: Handler = getattr(importlib.import_module(module), function)
    return handler


def main(arguments: list[str]) -> int:
    """Serve until the operator closes its end."""
    _with_small_stacks()
    descriptor, parent, *names = arguments
    for number in (signal.SIGINT, signal.SIGTERM):  # the operator ends it by closing its end
        signal.signal(number, signal.SIG_IGN)
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, *(ctypes.c_ulong(value) for value in (1, 0, 0, 0))) != 0:
        return 1
    handlers = {name: _imported(name) for name in names}
    if len(os.listdir("/proc/self/task")) > 1:
        return 1  # a library has started a thread when it was imported: a fork would not be safe
    gc.collect()
    gc.freeze()  # the collector of a child does not copy the pages of what is here now
    with socket.socket(fileno=int(descriptor)) as requests, _folder_of_folders(parent) as folder:
        _Server(requests, handlers, folder).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
