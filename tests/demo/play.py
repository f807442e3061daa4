# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs ``ansible-playbook`` as a person would, in a shell of his own: what it prints is what the person sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.collection_path import link
from tests.lab.addresses import NETWORK

COLLECTION = "edge_portal.cilium_mesh"
GRACE = 15.0  # seconds that Ansible has to end after an interruption


@dataclass(frozen=True, kw_only=True)
class Run:
    """One finished run. Times in seconds, ``cpu`` and ``peak`` (bytes, of the largest single process) with all of its processes."""

    status: int
    wall: float
    cpu: float
    peak: int
    mesh_result: dict[str, Any] | None


class Desk(AbstractContextManager["Desk"]):
    """A place to run playbooks from: an inventory, a file of variables, and a home of its own, free of the user's settings."""

    def __init__(self, kubeconfigs: Mapping[str, Path], variables: Mapping[str, Any]) -> None:
        hosts = {name: {"cilium_mesh_kubeconfig": str(path)} for name, path in kubeconfigs.items()}
        shared = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "cilium_mesh_endpoint_networks": [NETWORK],
        }
        self._inventory = {"all": {"vars": shared, "hosts": hosts}}
        self._variables = variables

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mesh-desk-")
        self.path = Path(self._folder.name)
        (self.path / "home").mkdir()
        self.write("inventory.json", self._inventory)
        self.write("mesh.json", self._variables)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._folder.cleanup()

    def write(self, name: str, content: Any) -> Path:
        """A file of the desk, as JSON (which Ansible reads as YAML)."""
        path = self.path / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    def run(self, playbook: str, *arguments: str, quiet: bool = False, output: Path | None = None) -> Run:
        """Run a playbook: a name of the collection (``connect``) or a path that ends in .json or .yml.

        Its output goes where ours goes, or into a file."""
        name = playbook if playbook.endswith((".json", ".yml")) else f"{COLLECTION}.{playbook}"
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "inventory.json", "-e", "@mesh.json", name, *arguments]
        if output is None:
            return self._measured(command, subprocess.DEVNULL if quiet else None)
        with output.open("wb") as file:
            return self._measured(command, file.fileno())

    def _measured(self, command: Sequence[str], output: int | None) -> Run:
        result = self.path / "mesh_result.json"
        result.unlink(missing_ok=True)
        started = time.monotonic()
        # In a session of its own Ctrl-C reaches it once, from us, and not a second time from the terminal in the middle of its cleaning up.
        child = subprocess.Popen(command, cwd=self.path, env=self._environment(result), stdout=output, start_new_session=True)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            _interrupt(child)
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        return Run(
            status=child.returncode,
            wall=time.monotonic() - started,
            cpu=usage.ru_utime + usage.ru_stime,
            peak=usage.ru_maxrss * 1024,
            mesh_result=json.loads(result.read_text(encoding="utf-8")) if result.exists() else None,
        )

    def _environment(self, result: Path) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        return {
            **inherited,
            "HOME": str(self.path / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(link()),
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callbacks")),
            "ANSIBLE_CALLBACKS_ENABLED": "mesh_result_file",
            "MESH_RESULT_FILE": str(result),
        }


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    """End a playbook and wait for it."""
    child.send_signal(signal.SIGINT)
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
