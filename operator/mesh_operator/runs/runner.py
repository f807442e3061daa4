# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs of playbooks by ansible-runner; no other file uses it. Inventory and credentials live in a 0700 folder in memory, as long as a run.

ansible-runner starts a client, and the playbook runs in a confined child of a fork server that has imported Ansible (playbook_job.py). The
child ends with all that it started. The operator and all processes of a run hold a lock on the folder, which the kernel releases when the
last of them is gone: a folder that can be locked is one that nothing works in.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import ansible_runner
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import redact

from ..base.cancel import Cancel
from .confined import playbook_client
from .confined.confinement import Limits, Program, memory_folder
from .confined.process import ConfinedProcesses

COLLECTIONS_PATH: Final = Path(redact.__file__).parents[6]  # the engine that is imported here is the one that plays run
DYING: Final = 5.0  # seconds for a killed process to be gone
HANDLER: Final = "mesh_operator.runs.confined.playbook_job:serve"
LIMITS: Final = Limits(memory=1024 * 1024 * 1024, cpu=0, file_size=256 * 1024 * 1024, descriptors=65536)  # of one process of a run


class RunState(StrEnum):
    """End of a run."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Play to run. All texts are a tenant's: they are wrapped on the way to Ansible, so that none is ever a template."""

    playbook: str  # of the collection, e.g. "mesh"; or the absolute path of a .yml file
    hosts: Mapping[str, Mapping[str, Any]]  # inventory name -> host variables
    variables: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""  # for folder and logs: the mesh's owner hash, no tenant text


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a run. ``mesh_result`` None: the run ended without one. ``last_task``: the name of the task that ran last; never stdout."""

    state: RunState
    rc: int
    mesh_result: Mapping[str, Any] | None
    last_task: str
    seconds: float
    error: str = ""  # class of the exception with which ansible-runner itself ended; its text may hold output


class Runner:
    """Runner of playbooks. Thread-safe; each call of ``run`` is one family of processes that is certainly gone when it returns."""

    def __init__(
        self, processes: ConfinedProcesses, folder: Path | None = None, *, job_timeout: int = 900, idle_timeout: int = 300
    ) -> None:
        """Prepare the folder of all runs.

        :param processes: source of confined processes, with ``HANDLER`` and ``settings_of_runs``.
        :param folder: parent of the folders of runs (default: in ``memory_folder``).
        :param job_timeout: seconds for a run.
        :param idle_timeout: seconds without an event.
        :raises PermissionError: when the folder belongs to another user.
        """
        self._folder = (folder or Path(memory_folder(), f"mesh-operator-{os.getuid()}")).absolute()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._folder.lstat().st_uid != os.getuid():  # lstat: for a link, the owner of the link itself
            raise PermissionError(f"{self._folder} belongs to another user. Remove it, so that runs can have it to themselves.")
        # ansible-runner ignores settings given by keyword if there is no settings file (2.4.3, config/_base.py, prepare_env).
        self._settings = {"job_timeout": job_timeout, "idle_timeout": idle_timeout, "pexpect_timeout": 1, "suppress_output_file": True}
        self._processes = processes

    def sweep(self) -> int:
        """Remove the folders of runs whose operator died, once their processes are gone, and return how many there were."""
        swept = 0
        with _locked(self._folder):
            for folder in self._folder.glob("run-*"):
                with suppress(BlockingIOError, FileNotFoundError), _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    shutil.rmtree(folder)
                    swept += 1
        return swept

    def run(self, request: RunRequest, cancel: Cancel, progress: Callable[[str], None] | None = None) -> RunResult:
        """Run a play to its end, its timeout or ``cancel``.

        :param progress: called with the name of each task.
        """
        began, events, error = time.monotonic(), _Events(progress or (lambda _: None)), ""
        with ExitStack() as afterwards:
            with _locked(self._folder):  # no sweep may come between making a folder and locking it
                folder = Path(tempfile.mkdtemp(prefix=f"run-{request.name}-", dir=self._folder))
                lock = afterwards.enter_context(_locked(folder))
            afterwards.callback(_remove, folder)
            config = _configure(folder, request, self._settings)
            config.command = [sys.executable, "-I", "-S", playbook_client.__file__, str(folder), *config.command]
            # The class, unlike ansible_runner.run, never touches signal handlers.
            runner = ansible_runner.Runner(config, cancel_callback=cancel.is_set, event_handler=events.take)
            try:
                with self._processes.program(LIMITS, Program(folder=str(folder), readable=_readable(request)), _listener(folder), lock):
                    runner.run()
            except Exception as caught:  # the text may quote data of the tenant, so only the type is kept
                error = type(caught).__name__
        ended = RunState.SUCCESSFUL if runner.status == "successful" else RunState.FAILED
        canceled = runner.canceled or (ended is RunState.FAILED and cancel.is_set())  # the operator that ends has ended its processes too
        state = RunState.CANCELED if canceled else RunState.TIMEOUT if runner.timed_out else ended
        result = events.mesh_result if state is ended and not error else None  # no genuine one comes before the end
        rc, seconds = 254 if runner.rc is None else runner.rc, time.monotonic() - began
        return RunResult(state=state, rc=rc, mesh_result=result, last_task=events.last_task, seconds=seconds, error=error)


@dataclass
class _Events:
    """Data kept of a run's events. The last result counts: the genuine one comes after all that a play prints."""

    progress: Callable[[str], None]
    last_task: str = ""
    mesh_result: Mapping[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take one event and return False, so that ansible-runner stores nothing."""
        kind, data = event.get("event"), event.get("event_data") or {}
        if kind == "playbook_on_task_start":
            self.last_task = redact.one_line(data.get("task"))
            self.progress(self.last_task)
        elif kind == "playbook_on_stats":
            self.mesh_result = (data.get("artifact_data") or {}).get("mesh_result")
        return False


def settings_of_runs() -> Mapping[str, str]:
    """Return the settings that Ansible reads when it is imported: those of a run, without what is a run's own."""
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, str] = _configure(Path(folder), RunRequest(playbook="mesh", hosts={}), {}).env
    shared = {name: value for name, value in settings.items() if folder not in value}
    return shared | {"ANSIBLE_HOME": "/nonexistent", "ANSIBLE_LOCAL_TEMP": tempfile.gettempdir()}


def unsafe(value: Any) -> str:
    """Return ``value``, of JSON's types, as a YAML document in which no text is ever a template, keys of mappings included.

    ``!unsafe`` holds for all below it. JSON with ``__ansible_unsafe`` around each text is not used: if a tenant uses such a key, that is
    unreadable, and Ansible then takes it for YAML, where every text is a template (ansible-core 2.19, parsing/utils/yaml.py).
    """
    tree = json.loads(json.dumps(value, default=dict))  # a tree needs no anchors; an error about a value names its class alone
    return "!unsafe " + yaml.dump(tree, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), default_flow_style=True, sort_keys=False)


def _configure(folder: Path, request: RunRequest, settings: Mapping[str, Any]) -> Any:
    (folder / "env").mkdir()
    inventory = {"all": {"hosts": request.hosts, "vars": {"ansible_connection": "local"}}}
    (folder / "inventory.yml").write_text(unsafe(inventory), encoding="utf-8")
    (folder / "env/extravars").write_text(unsafe(request.variables), encoding="utf-8")
    (folder / "env/settings").write_text(json.dumps(settings), encoding="utf-8")
    ours = {
        **dict.fromkeys(("HOME", "TMPDIR", "ANSIBLE_LOCAL_TEMP"), str(folder)),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LANG": "C.UTF-8",  # Ansible refuses to run without UTF-8
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS_PATH),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",  # no run without the inventory
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_PLUGINS": "",  # ansible-runner adds its own
    }
    playbook = request.playbook if request.playbook.endswith(".yml") else f"edge_portal.cilium_mesh.{request.playbook}"
    config = ansible_runner.RunnerConfig(str(folder), playbook, str(folder / "inventory.yml"), envvars=ours, quiet=True, fact_cache_type="")
    config.prepare()
    # ansible-runner starts from the operator's whole environment, and writes it to disk too.
    config.env = {name: config.env[name] for name in (*ours, "AWX_ISOLATED_DATA_DIR", "ANSIBLE_STDOUT_CALLBACK")}
    return config


def _readable(request: RunRequest) -> tuple[str, ...]:
    """Return what a run may read besides its folder and the files of every confined process: the collection, and its playbook."""
    own = [request.playbook] if request.playbook.endswith(".yml") else []
    collection = [os.path.realpath(place) for place in (COLLECTIONS_PATH / "ansible_collections/edge_portal/cilium_mesh").iterdir()]
    return (str(COLLECTIONS_PATH), *collection, *own)


def _listener(folder: Path) -> socket.socket:
    """Return the socket by which the client reaches the child. The name of the folder is random: other runs cannot know it."""
    listener = socket.socket(socket.AF_UNIX)
    place = os.open(folder, os.O_PATH)
    try:
        listener.bind(f"/proc/self/fd/{place}/{playbook_client.LISTENER}")  # a longer name than 108 bytes would be refused
        listener.listen(1)
    finally:
        os.close(place)
    return listener


def _remove(folder: Path) -> None:
    """Remove the folder of a run. Where the fork server had to be killed, dying processes may write to it for a moment."""
    until = time.monotonic() + DYING
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def _locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)  # programs that are started do not inherit it
    try:
        fcntl.flock(descriptor, how)
        yield descriptor
    finally:
        os.close(descriptor)
