# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs one long child process: alive on the screen, its output kept for the error, ended with us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.progress import Heartbeat, Progress

LAST_LINES = 15
GRACE = 5.0  # seconds between asking a child to end and making it


def run_long(
    argv: Sequence[str | Path], *, what: str, progress: Progress, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run to the end and return stdout. :raises ToolUnavailable: with the last lines of stderr when it fails or cannot be started.

    The child and all that it starts (compilers) are a process group of their own, ended on any exception, Ctrl-C included.
    """
    heartbeat = Heartbeat(what, progress)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        try:
            child = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolUnavailable(f"{what}: {argv[0]} cannot be started: {error.strerror}.") from error
        try:
            while child.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.5)
                heartbeat.beat()
        except BaseException:
            end(child)
            raise
        finally:
            heartbeat.wipe()
        output.seek(0)
        errors.seek(0)
        text, complaint = output.read(), errors.read()
    if child.returncode:
        raise ToolUnavailable(f"{what} failed with status {child.returncode}:\n{last_lines(complaint or text)}")
    return text


def end(child: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """End a child's whole group and reap the child."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
        # A compiler may outlive `go`; the group's id is still ours while one member is left.
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def last_lines(text: str, count: int = LAST_LINES) -> str:
    """The end of a program's output, indented; "(no output)" for nothing."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-count:]
    return "\n".join(f"    {line}" for line in lines) or "    (no output)"
