# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One child process of the supervisor: started through the launcher, ended by its own process id, its output in a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

FRUGAL = {"GOMAXPROCS": "1", "GOGC": "400"}
"""Variables of servers written in Go. One thread and less garbage collection are worth a third of kube-apiserver's start and half of what a
server takes while it is idle, and cost some hundred MiB."""

_LAUNCH = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import sandbox; sys.exit(sandbox.main(sys.argv[1:]))"
LAUNCHER = (sys.executable, "-I", "-S", "-c", _LAUNCH)
"""Command line of sandbox.py. Python compiles a script in each run, and a module once."""


def plain(argv: Sequence[str]) -> list[str]:
    """Command line of a process of the lab outside any pod."""
    return [*LAUNCHER, "exec", "--", *argv]


def contained(spec: Path, container: str, argv: Sequence[str]) -> list[str]:
    """Command line of a process inside a container; ``spec``: see sandbox.py."""
    return [*LAUNCHER, "run", str(spec), container, "--", *argv]


class Process:
    """A running or ended child. Must be made on the event loop's thread, which has to be the main thread: the kernel ends a child together
    with the *thread* that started it (PR_SET_PDEATHSIG)."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._handle = os.pidfd_open(self._child.pid)
        loop.add_reader(self._handle, self._reap, loop)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """SIGKILL, now."""
        if not self._ended.done():
            os.killpg(self._child.pid, signal.SIGKILL)

    async def stop(self, grace: float = 3.0) -> int:
        """SIGTERM, and SIGKILL when ``grace`` seconds have passed. Returns the exit status."""
        if not self._ended.done():
            signal.pidfd_send_signal(self._handle, signal.SIGTERM)
            try:
                return await asyncio.wait_for(asyncio.shield(self._ended), grace)
            except TimeoutError:
                self.kill()
        return await asyncio.shield(self._ended)

    def last_lines(self, count: int = 5) -> str:
        """The end of its output, for an error message."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 4096))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-count:])
        except OSError:
            return ""

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._handle)
        # Like a container, a process takes what it started with it (etcdinit runs an etcd). Not yet waited for, its id is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        code = self._child.wait()
        os.close(self._handle)
        if not self._ended.done():
            self._ended.set_result(code)
