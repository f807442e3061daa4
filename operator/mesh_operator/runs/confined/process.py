# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Confined processes, as the operator uses them: questions and answers within a deadline, and a certain end.

The operator never forks itself: it starts the fork server (fork_server.py) with a clean environment, which holds no secret that a child
could find in its memory, its environment or its open files.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from logging import WARNING
from threading import Lock
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import redact

from ...base.log import log
from .confinement import Measures, ProcessLimits, Program, memory_folder
from .fork_server import NOT_CONFINED, OUT_OF_MEMORY
from .messages import PART, Broken, Invalid, Late, decoded, receive, send_job

ANSWER_LIMIT: Final = 16 * 1024 * 1024  # bytes; the status of a mesh of 255 clusters, the most that fits into a resource, has 2 MiB
STARTING: Final = 120.0  # seconds for the server to import everything
STEP: Final = 0.2  # seconds after which it is checked whether the operator ends meanwhile
SERVER: Final = 5.0  # seconds for the server to take a request, and to end
ENDING: Final = 15.0  # seconds for a killed child to be gone; beyond it, the server is ended with all its children

_KEPT: Final = ("KUBERNETES_SERVICE_HOST", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "TZ")
"""Environment that children need: none names a secret. Runs have no proxy variables either (runs.py)."""


Take = Callable[[Any, bytes], None]
"""Callback with a part, and the message that it came in. It raises Invalid where it refuses the part."""


class Cause(StrEnum):
    """Cause for which a confined process failed. Values are labels of a metric."""

    DEADLINE = "deadline"
    MEMORY = "memory"
    CPU = "cpu"
    CRASHED = "crashed"
    INVALID = "invalid"  # what it answered is not valid
    NOT_STARTED = "not_started"


class ConfinedProcessFailed(Exception):
    """End of a confined process without an answer. The text is the project's own."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(cause.value + (f" ({detail})" if detail else ""))
        self.cause, self.detail = cause, detail


@dataclass(frozen=True, kw_only=True)
class _End:
    """End of a child: exit status, or minus the signal; seconds of processor time."""

    status: int
    cpu: float


@dataclass
class _Lifeline:
    """Our end of a child's lifeline."""

    connection: socket.socket
    _ended: bool = field(default=False, init=False)
    _end: _End | None = field(default=None, init=False)

    def end(self) -> _End | None:
        """End the child, and return how it ended: nothing of it is left then. None if the server did not say so in time."""
        if not self._ended:
            self._ended, self._end = True, self._give_up()
        return self._end

    def _give_up(self) -> _End | None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        try:
            self.connection.settimeout(ENDING)
            said = json.loads(self.connection.recv(4096))
            return _End(status=int(said["status"]), cpu=float(said["cpu"]))
        except (OSError, ValueError):
            return None
        finally:
            self.connection.close()


class ConfinedProcess:
    """One confined child. Used by one thread, but for ``interrupt``."""

    def __init__(self, connection: socket.socket, lifeline: _Lifeline, limits: ProcessLimits, deadline: float) -> None:
        self._connection, self._lifeline, self._limits = connection, lifeline, limits
        self._until = time.monotonic() + deadline

    def ask(self, job: Mapping[str, Any], take: Take | None = None) -> Any:
        """Return the answer of the child to a job; both are values of JSON.

        :param take: called with each part that comes before the answer; without it, there may be none.
        :raises ConfinedProcessFailed: when there is none.
        """
        try:
            send_job(self._connection, job, until=self._until)
            while True:
                content = receive(self._connection, ANSWER_LIMIT, until=self._until)
                answer = decoded(content)
                if not isinstance(answer, dict) or PART not in answer:
                    break
                if take is None:
                    raise Invalid("it is in parts")
                take(answer[PART], content)
        except Late:
            raise ConfinedProcessFailed(Cause.DEADLINE) from None
        except Invalid as invalid:
            raise ConfinedProcessFailed(Cause.INVALID, str(invalid)) from None
        except Broken:
            raise self._failure(self.end()) from None
        if isinstance(answer, dict) and "answer" in answer:
            return answer["answer"]
        failed = answer.get("failed") if isinstance(answer, dict) else None
        raise ConfinedProcessFailed(Cause.CRASHED, redact.one_line(failed, 80) if isinstance(failed, str) else "")

    def interrupt(self) -> None:
        """Make a question under way fail, from another thread."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> _End | None:
        """End the child, and return how it ended: nothing of it is left then. None if the server did not say so in time."""
        self._connection.close()
        return self._lifeline.end()

    def _failure(self, end: _End | None) -> ConfinedProcessFailed:
        """Return the failure of a child that ended by itself."""
        if end is None:
            return ConfinedProcessFailed(Cause.CRASHED, "the fork server is gone")
        if end.status == -signal.SIGXCPU or (end.status == -signal.SIGKILL and end.cpu >= self._limits.cpu):
            return ConfinedProcessFailed(Cause.CPU)
        if end.status == OUT_OF_MEMORY:
            return ConfinedProcessFailed(Cause.MEMORY)
        if end.status == NOT_CONFINED:
            return ConfinedProcessFailed(Cause.NOT_STARTED, "it could not be confined")
        if end.status == -signal.SIGKILL:  # by the kernel: no other process kills a child that was not given up
            return ConfinedProcessFailed(Cause.MEMORY, "killed by the kernel")
        return ConfinedProcessFailed(Cause.CRASHED, f"signal {-end.status}" if end.status < 0 else f"status {end.status}")


class ConfinedProcesses:
    """Source of confined processes. Thread-safe; the server is started anew when it is gone."""

    def __init__(self, answers: str, programs: str = "", environment: Callable[[], Mapping[str, str]] = dict) -> None:
        """Prepare the source. What children do is a ``MODULE:FUNCTION``, imported by the fork server alone.

        :param answers: of children that answer.
        :param programs: of children that are programs; imported first.
        :param environment: returns the variables that the server has besides those of every server.
        """
        self._answers, self._programs, self._environment = answers, programs, environment
        self._lock = Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._closed = False
        self.measures: Measures | None = None  # of the server, once it has answered

    def start(self) -> None:
        """Start the server, without waiting until it has imported everything."""
        with self._lock:
            self._start()

    @contextmanager
    def open(self, limits: ProcessLimits, deadline: float) -> Iterator[ConfinedProcess]:
        """Fork a child that answers, and is certainly gone at the end of the ``with`` block.

        :param deadline: seconds for all its answers together.
        :raises ConfinedProcessFailed: when the server does not work.
        """
        connection, child_end = socket.socketpair()
        with connection, child_end, self._fork(self._answers, limits, None, child_end.fileno()) as lifeline:
            child_end.close()
            process = ConfinedProcess(connection, lifeline, limits, deadline)
            try:
                yield process
            finally:
                process.end()

    @contextmanager
    def program(self, limits: ProcessLimits, program: Program, listener: socket.socket, kept: int) -> Iterator[None]:
        """Fork a child that works with a socket on which it listens; all of it is certainly gone at the end of the ``with`` block.

        :param kept: descriptor that the child and all that it forks keep open.
        :raises ConfinedProcessFailed: when the server does not work.
        """
        with ExitStack() as stack:
            with listener:
                stack.enter_context(self._fork(self._programs, limits, program, listener.fileno(), kept))
            yield

    @contextmanager
    def _fork(self, handler: str, limits: ProcessLimits, program: Program | None, end: int, *kept: int) -> Iterator[_Lifeline]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                message = {"handler": handler, "limits": asdict(limits), "program": asdict(program) if program else None}
                server = self._request(message, end, theirs.fileno(), *kept)
            lifeline = _Lifeline(ours)
            try:
                yield lifeline
            finally:
                if lifeline.end() is None:
                    self._replace(server)

    def close(self) -> None:
        """End the server and all its children, whose questions fail."""
        self._closed = True
        with self._lock:
            self._end()

    def _replace(self, server: subprocess.Popen[bytes]) -> None:
        """End a server that hangs or is gone, unless another thread has done so."""
        with self._lock:
            if server is self._server and not self._closed:
                log("fork_server_failed", level=WARNING)
                self._end()

    def _request(self, message: Mapping[str, Any], *descriptors: int) -> subprocess.Popen[bytes]:
        """Ask the server for a child, and return the server."""
        with self._lock:
            for attempt in (1, 2):
                server, requests = self._start()
                try:
                    self._wait_ready(requests)
                    socket.send_fds(requests, [json.dumps(message).encode()], descriptors)
                except (OSError, ValueError, TypeError):
                    self._end()
                    if attempt == 2:
                        break
                else:
                    return server
        raise ConfinedProcessFailed(Cause.NOT_STARTED, "the fork server does not work")

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        if self._closed:
            raise ConfinedProcessFailed(Cause.NOT_STARTED, "the operator ends")
        if self._server is not None and self._requests is not None and self._server.poll() is None:
            return self._server, self._requests
        self._end()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": "/",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isabs(path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MALLOC_ARENA_MAX": "2",  # each reserves 64 MiB of addresses, which are limited
            **self._environment(),
        }
        # -P: the working folder is not where modules are searched for.
        handlers = filter(None, (self._programs, self._answers))
        command = [sys.executable, "-P", "-m", "mesh_operator.runs.confined.fork_server", str(theirs.fileno()), memory_folder(), *handlers]
        with theirs:
            self._server = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                start_new_session=True,
            )
        self._requests, self.measures = ours, None
        return self._server, ours

    def _wait_ready(self, requests: socket.socket) -> None:
        if self.measures is not None:
            return
        requests.settimeout(STEP)
        until = time.monotonic() + STARTING
        while True:
            try:
                said = json.loads(requests.recv(65536))
                break
            except TimeoutError:
                if self._closed or time.monotonic() > until:
                    raise
        requests.settimeout(SERVER)
        self.measures = Measures(**{**said, "missing": tuple(said["missing"])})
        log("dry_runs_confined", state=self.measures.words(), level=WARNING if self.measures.missing else 20)
        for sentence in self.measures.missing:
            log("dry_runs_less_confined", level=WARNING, reason=sentence)

    def _end(self) -> None:
        """End the server: by closing our end, upon which it ends its children; killed, they die with it (PR_SET_PDEATHSIG)."""
        if self._requests is not None:
            self._requests.close()
        if self._server is not None:
            try:
                self._server.wait(SERVER if self.measures is not None else STEP)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._server = self._requests = None
        self.measures = None
