# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where labs live on disk, and how one is started."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.collection_path import CHECKOUT
from tests.lab import control
from tests.lab.control import LabError
from tests.lab.options import LabOptions
from tests.lab.patience import Budget
from tests.lab.pki import write_private

_LONGEST_BASE = 60


def base_folder() -> Path:
    """The folder of this user's labs, private to him: below XDG_RUNTIME_DIR, else below the folder for temporary files. Raises LabError."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    parent = Path(runtime if runtime and os.access(runtime, os.W_OK) else tempfile.gettempdir())
    if len(str(parent)) > _LONGEST_BASE:
        parent = Path("/tmp")  # paths below are in every command line; some end in logs that are cut
    base = parent / f"mesh-lab-{os.geteuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise LabError(f"{base} is not a folder of yours alone (mode 0700); remove it or set XDG_RUNTIME_DIR to a private folder")
    return base


def folder_of(name: str) -> Path:
    """The folder of the lab called ``name``, whether or not it exists."""
    return base_folder() / name


@dataclass(frozen=True)
class Running:
    """A lab that this process started: its folder, its outermost process, and its log, readable even when the folder is gone."""

    folder: Path
    keeper: subprocess.Popen[bytes]
    log: BinaryIO

    def wait_ready(self, on_progress: Callable[[str], None] | None = None) -> None:
        """Until all clusters are ready. Raises LabError with the reason, and with the end of the log when it died without one."""
        while True:
            if (self.folder / control.SOCKET).exists():
                try:
                    control.call(self.folder, "wait", on_progress=on_progress)
                    return
                except LabError as error:
                    if self.keeper.poll() is None and "ended before" not in str(error) and "no lab runs" not in str(error):
                        raise
            if self.keeper.poll() is not None:
                raise LabError(f"the lab ended with status {self.keeper.returncode}: {self._last_words()}")
            time.sleep(0.05)

    def stop(self, limit: float = 30.0) -> None:
        """End the lab and wait until nothing is left; twice is fine."""
        if self.keeper.poll() is None:
            self.keeper.terminate()
            try:
                self.keeper.wait(limit)
            except subprocess.TimeoutExpired:
                self.keeper.kill()  # the kernel ends all others with it
                self.keeper.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # in case it was stopped before it could clean up itself
        self.log.close()

    def _last_words(self) -> str:
        self.log.seek(0)
        return "\n".join(self.log.read().decode(errors="replace").splitlines()[-12:]) or "it said nothing"


def start(options: LabOptions, tools: Mapping[str, Path], *, binary_version: str, owned: bool) -> Running:
    """Start a lab's processes and return at once. ``owned``: the lab ends when this process does. Raises LabError when one of that name
    runs."""
    folder = folder_of(options.name)
    _make_way(folder)
    folder.mkdir(mode=0o700)
    plan = {
        "options": json.loads(options.to_json()),
        "tools": {name: str(path) for name, path in tools.items()},
        "binary_version": binary_version,
    }
    write_private(folder / "plan.json", json.dumps(plan).encode())
    log = (folder / "lab.log").open("w+b")
    command = [sys.executable, "-m", "tests.lab.daemon", str(folder), *([str(os.getpid())] if owned else [])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))}
    keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=CHECKOUT, env=env, start_new_session=True)
    return Running(folder, keeper, log)


def _make_way(folder: Path) -> None:
    """Remove what a lab that was killed together with its keeper left behind."""
    if not folder.exists():
        return
    try:
        control.call(folder, "status")
    except LabError:
        shutil.rmtree(folder, ignore_errors=True)
        return
    raise LabError(
        f"a lab called {folder.name!r} already runs; end it with `python -m tests.lab down --name {folder.name}` or choose another --name"
    )


def stop(folder: Path, limit: float = 30.0) -> None:
    """End a lab and wait until its folder is gone. No lab is fine. Raises LabError when it does not end."""
    try:
        control.call(folder, "down")
    except LabError as error:
        if "ended before" not in str(error):
            shutil.rmtree(folder, ignore_errors=True)
            return
    budget = Budget(limit)
    while folder.exists():
        if budget.is_spent():
            raise LabError(f"the lab in {folder} has not ended after {limit:g} s")
        time.sleep(0.05)
