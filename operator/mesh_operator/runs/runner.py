# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs of playbooks by ansible-runner; no other file uses it. Inventory and credentials live in a 0700 folder in memory, as long as a run.

ansible-runner starts a client, and the playbook runs in a confined child of a fork server that has imported Ansible (playbook_job.py). The
child ends with all that it started. The operator and all processes of a run hold a lock on the folder, which the kernel releases when the
last of them is gone: a folder that can be locked is one that nothing works in.

Variables and hosts are files of JSON, which the child reads and hands to Ansible as values: no text in them is ever a template (decision
0065). Nothing that a run writes is read but its events, within bounds (run_events.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import ansible_runner

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import redact

from ..base.cancel import Cancel
from ..base.container_memory import RUN_PROCESS, RUN_PROCESSES
from .confined import playbook_client
from .confined.confinement import ProcessLimits, Program, memory_folder
from .confined.json_pieces import json_pieces
from .confined.messages import Invalid
from .confined.process import ConfinedProcesses
from .item_parts import ITEMS_FILE, ItemParts
from .run_events import LARGEST, EventRefused, Events

COLLECTIONS_PATH: Final = Path(redact.__file__).parents[6]  # the engine that is imported here is the one that runs use
OWN: Final = "own"  # folder in that of a run, the only one in which the run may write
DYING: Final = 5.0  # seconds for a killed process to be gone
HANDLER: Final = "mesh_operator.runs.run_job:serve"
RUNNER_FAILED: Final = "RunnerFailed"  # reason of conditions
LIMITS: Final = ProcessLimits(memory=RUN_PROCESS, cpu=0, file_size=2 * LARGEST, descriptors=65536)  # of one process of a run


class RunState(StrEnum):
    """End of a run."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Run to be made. All texts are a tenant's, and none is ever a template."""

    playbook: str  # of the collection, e.g. "mesh"; or the absolute path of a .yml file
    hosts: Mapping[str, Mapping[str, Any]]  # inventory name -> host variables
    variables: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""  # for folder and logs: the mesh's owner hash, no tenant text


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a run. ``mesh_result`` None: the run ended without one. ``last_task``: the name of the task that ran last; never stdout.

    ``items``: the statuses of items, which a run of a mesh has beside its result (run_job.py).
    """

    state: RunState
    rc: int
    mesh_result: Mapping[str, Any] | None
    last_task: str
    seconds: float
    error: str = ""  # class of the exception with which ansible-runner itself ended, whose text may hold output; or a clause of our own
    refused: bool = False  # error is a clause about the run, such as "one of its events was refused: it has too many values"
    items: ItemParts = field(default_factory=ItemParts)

    @property
    def reason(self) -> str:
        """Reason of conditions after a run without a result."""
        return "Timeout" if self.state is RunState.TIMEOUT else RUNNER_FAILED

    def without_result(self) -> str:
        """Return a sentence about a run without a result, for statuses."""
        task = redact.one_line(self.last_task, 200)
        where = f"in task {task!r}" if task else "before its first task"
        return f"The run ended without a result, {where}{f': {self.error}' if self.refused else ''}. It is tried again."


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
        :raises PermissionError: when the folder is not private: another user's, open to others, or a link.
        """
        self._folder = (folder or Path(memory_folder(), f"mesh-operator-{os.getuid()}")).absolute()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if why := _not_private(self._folder.lstat()):  # of a link, the link itself
            raise PermissionError(f"{self._folder} {why}. Remove it, so that runs can have a folder to themselves.")
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
        """Carry a run to its end, its timeout or ``cancel``.

        :param progress: called with the name of each task.
        """
        began, error, refused, items = time.monotonic(), "", False, ItemParts()
        with ExitStack() as afterwards:
            with _locked(self._folder):  # no sweep may come between making a folder and locking it
                folder = Path(tempfile.mkdtemp(prefix=f"run-{request.name}-", dir=self._folder))
                lock = afterwards.enter_context(_locked(folder))
            afterwards.callback(_remove, folder)
            config = _configure(folder, request, self._settings)
            events = Events(folder / OWN, progress or (lambda _: None))
            config.command = [sys.executable, "-I", "-S", playbook_client.__file__, str(folder), *config.command]
            # The class, unlike ansible_runner.run, never touches signal handlers.
            runner = _Follower(config, cancel, events)
            program = Program(folder=str(folder / OWN), readable=(str(folder), *_readable(request)))
            try:
                with self._processes.program(LIMITS, program, _listener(folder), lock):
                    runner.run()
                if events.mesh_result is None:
                    events.complete()
                else:
                    items.read(folder / OWN / ITEMS_FILE, events.mesh_result)
            except EventRefused as caught:
                error, refused = str(caught), True
            except Invalid as caught:
                error, refused, items = f"its result was refused: {caught}", True, ItemParts()
            except Exception as caught:  # the text may quote data of the tenant, so only the type is kept
                error = type(caught).__name__
        ended = RunState.SUCCESSFUL if runner.status == "successful" and not refused else RunState.FAILED
        canceled = runner.canceled or (ended is RunState.FAILED and cancel.is_set())  # the operator that ends has ended its processes too
        state = RunState.CANCELED if canceled else RunState.TIMEOUT if runner.timed_out else ended
        result = events.mesh_result if state is ended and not error else None  # no genuine one comes before the end
        rc, seconds = 254 if runner.rc is None else runner.rc, time.monotonic() - began
        ran = RunResult(state=state, rc=rc, mesh_result=result, last_task=events.last_task, seconds=seconds, error=error, refused=refused)
        return replace(ran, items=items) if result is not None else ran


class _Follower(ansible_runner.Runner):  # type: ignore[misc]  # ansible-runner has no types
    """ansible-runner, which reads the events of a run within bounds: its own method reads a file of any size, also through a link."""

    def __init__(self, config: Any, cancel: Cancel, events: Events) -> None:
        super().__init__(config, cancel_callback=cancel.is_set)
        self._events = events

    def event_callback(self, event_data: Mapping[str, Any]) -> None:
        """Take an event whose mark was in the output."""
        self.last_stdout_update = time.time()
        self._events.take(event_data.get("uuid"))


def _not_private(found: os.stat_result) -> str:
    """Return why a folder may show credentials to others, as a clause; "" if it is private."""
    if found.st_uid != os.getuid():
        return "belongs to another user"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    # In a volume of a pod with fsGroup, a folder inherits the bit setgid (kubernetes: pkg/volume/volume_linux.go), which lets no user in.
    mode = stat.S_IMODE(found.st_mode) & ~stat.S_ISGID
    return f"has the mode {mode:04o} and not 0700" if mode != 0o700 else ""


def settings_of_runs() -> Mapping[str, str]:
    """Return the settings that Ansible reads when it is imported: those of a run, without what is a run's own."""
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, str] = _configure(Path(folder), RunRequest(playbook="mesh", hosts={}), {}).env
    shared = {name: value for name, value in settings.items() if folder not in value}
    return shared | {"ANSIBLE_HOME": "/nonexistent", "ANSIBLE_LOCAL_TEMP": tempfile.gettempdir()}


def _configure(folder: Path, request: RunRequest, settings: Mapping[str, Any]) -> Any:
    for name in ("env", OWN):
        (folder / name).mkdir(mode=0o700)
    for name, value in ((playbook_client.HOSTS, request.hosts), (playbook_client.VARIABLES, request.variables)):
        with (folder / name).open("wb") as file:
            file.writelines(json_pieces(value))
    (folder / "env/settings").write_text(json.dumps(settings), encoding="utf-8")
    ours = {
        **dict.fromkeys(("HOME", "TMPDIR", "ANSIBLE_LOCAL_TEMP"), str(folder / OWN)),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LANG": "C.UTF-8",  # Ansible refuses to run without UTF-8
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS_PATH),
        "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false",
        "ANSIBLE_INVENTORY_PLUGINS": str(Path(playbook_client.__file__).parent),
        "ANSIBLE_INVENTORY_ENABLED": "run_inventory",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",  # no run without the inventory
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_PLUGINS": "",  # ansible-runner adds its own
        "ANSIBLE_FORKS": str(RUN_PROCESSES - 1),  # workers at a time: every task of our playbooks runs once
        "MAX_EVENT_RES": "0",  # which leaves the results of tasks out of the events: nothing reads them there
    }
    playbook = request.playbook if request.playbook.endswith(".yml") else f"edge_portal.cilium_mesh.{request.playbook}"
    hosts = str(folder / playbook_client.HOSTS)
    config = ansible_runner.RunnerConfig(str(folder), playbook, hosts, envvars=ours, quiet=True, fact_cache_type="")
    config.prepare()
    # ansible-runner starts from the operator's whole environment, and writes it to disk too.
    config.env = {name: config.env[name] for name in (*ours, "ANSIBLE_STDOUT_CALLBACK")} | {"AWX_ISOLATED_DATA_DIR": str(folder / OWN)}
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
