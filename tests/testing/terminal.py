# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A program in a terminal of its own: what a person sees there, and Ctrl-C as the terminal sends it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.testing.killed_playbook import kill_run
from tests.testing.playbooks import COLLECTION, SETTINGS, _environment
from tests.testing.waiting import wait_for

LINES: Final = 500
INTERRUPT: Final = b"\x03"
_PARTS: Final = re.compile(r"\r|\n|\x1b\[1A|\x1b\[[\d;]*m|[^\r\n\x1b]+")


class Terminal:
    """A terminal and the program in it."""

    def __init__(self, pid: int, master: int) -> None:
        self.pid, self._master = pid, master
        self._written = b""
        self._status: int | None = None

    @property
    def seen(self) -> str:
        """What stands in the terminal now."""
        return shown(self._written.decode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._master, INTERRUPT)

    def wait_for_text(self, pattern: str) -> None:
        """Wait until the terminal shows a text that matches."""
        wait_for(lambda: self._read(0.05) or re.search(pattern, self.seen), what=f"the terminal shows {pattern}", every=0.02)
        assert re.search(pattern, self.seen), self.seen

    def wait(self) -> int:
        """Wait until the program ends, and return its exit status, or the negative number of the signal that ended it."""
        wait_for(lambda: self._read(0.2), what="the program ends", every=0.02)
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def _read(self, seconds: float) -> bool:
        """Read what there is, and return whether it was the last."""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                part = os.read(self._master, 1 << 16)
            except OSError:  # of a terminal in which no process is any more
                return True
            if not part:
                return True
            self._written += part
            seconds = 0
        return False

    def close(self) -> None:
        if self._status is None:
            kill_run(self.pid)
            os.waitpid(self.pid, 0)
        os.close(self._master)


@contextmanager
def terminal(command: Sequence[str], *, columns: int, folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Run a program in a terminal, which it has for itself. It is killed at the end where it still runs."""
    pid, master = pty.fork()
    if pid == 0:
        try:
            termios.tcsetwinsize(0, (LINES, columns))
            os.chdir(folder)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execve(command[0], list(command), dict(environment))
        finally:
            os._exit(127)
    found = Terminal(pid, master)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def playbook_in_terminal(
    name: str, *, inventory: Mapping[str, Any], variables: Mapping[str, Any], columns: int, python: str = sys.executable, **more: str
) -> Iterator[Terminal]:
    """Run a playbook of the collection in a terminal, without colours.

    :param python: of the virtual environment that has ansible-core.
    :param more: variables of the environment.
    """
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="mesh-play-", dir=scratch) as folder:
        for file, content in (("inventory.json", inventory), ("variables.json", variables)):
            Path(folder, file).write_text(json.dumps(dict(content)), encoding="utf-8")
        Path(folder, "ansible.cfg").write_text(SETTINGS, encoding="ascii")
        program = str(Path(python).parent / "ansible-playbook")
        command = [python, program, "-i", f"{folder}/inventory.json", "-e", f"@{folder}/variables.json", f"{COLLECTION}.{name}"]
        environment = {**os.environ, **_environment(folder), **more}
        del environment["COLUMNS"]  # the terminal says how wide it is
        with terminal(command, columns=columns, folder=Path(folder), environment=environment) as found:
            yield found


def shown(written: str) -> str:
    """Return what a terminal shows after a program wrote this: a carriage return begins the line anew, and CSI A goes up one line."""
    lines, row, column = [""], 0, 0
    for part in _PARTS.findall(written):
        if part == "\r":
            column = 0
        elif part == "\n":
            row, lines = row + 1, lines if row + 1 < len(lines) else [*lines, ""]
        elif part == "\x1b[1A":
            row = max(0, row - 1)
        elif not part.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return "\n".join(line.rstrip() for line in lines)
