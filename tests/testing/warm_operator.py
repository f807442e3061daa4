# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator whose plays are forks of a warm process: ansible-runner, its events and its settings stay, the imports are done before.

    python -m tests.testing.warm_operator SOCKET [flags of mesh-operator]

A play costs a quarter of the CPU time. Tests about the processes of plays, which are killed with their operator or are cancelled,
start the operator as it is.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mesh_operator import __main__ as command
from mesh_operator import runs
from tests.collection_path import CHECKOUT
from tests.testing import warm_ansible

Configure = Callable[[Path, runs.RunRequest, Mapping[str, Any]], Any]
PLAY = Path(__file__).with_name("warm_play.py")
_configure = runs._configure


@cache
def warm_socket() -> str:
    """Start the process that runs the plays of this test run's operators, and return its socket. It ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="mesh-warm-operator-")
    path, place = f"{folder.name}/socket", Path(folder.name, "run")
    place.mkdir()
    settings = _configure(place, runs.RunRequest(playbook="mesh", hosts={}), {}).env
    environment = {warm_ansible.ROOM: "-" * 400, **settings, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'operator'}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.testing.warm_ansible", path, "operator"],
        cwd=place,  # its ansible.cfg counts
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        folder.cleanup()

    atexit.register(end)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the warm process did not start; its errors stand above"
    return path


def configure_at(path: str) -> Configure:
    """Return what configures a play as the operator does, but for the program, which asks the warm process at ``path`` for it."""

    def configure(folder: Path, request: runs.RunRequest, settings: Mapping[str, Any]) -> Any:
        config = _configure(folder, request, settings)
        config.command = [sys.executable, "-I", "-S", str(PLAY), path, *config.command]
        return config

    return configure


def _as_it_is(command: list[str], folder: Path, request: runs.RunRequest) -> list[str]:
    """Return the command alone: the warm process runs the play, and so confinement of the client would confine nothing."""
    del folder, request
    return command


if __name__ == "__main__":
    vars(runs)["_configure"] = configure_at(sys.argv.pop(1))
    vars(runs)["_launch"] = _as_it_is
    sys.exit(command.main())
