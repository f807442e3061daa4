# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Run the collection's playbooks as its users' tools do, and read ``mesh_result`` where AWX and the operator read it.

`run_playbook` starts ansible-playbook through ansible-runner, as AWX does. `run_warm` runs the same program with the same arguments as a
fork of a process that has imported everything already: a tenth of the time, for tests whose promise is not about how a run starts.
The result comes from the event ``playbook_on_stats`` (custom statistics), never from parsed output.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ansible_runner

from tests.collection_path import CHECKOUT, link
from tests.testing.result_schema import hold_to_schema

COLLECTION = "edge_portal.cilium_mesh"
SETTINGS = "[defaults]\ninternal_poll_interval = 0.01\n"
"""For the folder of a run: seconds between two looks of Ansible at its workers. Its own millisecond is a tenth of a processor for as
long as a run waits."""


@dataclass(frozen=True, kw_only=True)
class PlaybookRun:
    """One finished run. ``output`` is what a person would have seen; ``events`` every event as JSON text, for tests that look for leaks."""

    rc: int
    status: str
    output: str
    mesh_result: dict[str, Any] | None
    stats: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[str] = ()

    @property
    def changed(self) -> int:
        """Number of changed tasks over all hosts, as the recap counts them."""
        return sum(self.stats.get("changed", {}).values())

    @property
    def result(self) -> dict[str, Any]:
        """``mesh_result`` where there has to be one."""
        assert self.mesh_result is not None, self.output
        return self.mesh_result

    @property
    def requests(self) -> dict[str, int]:
        """API requests by cluster, as the last action that sent any counted them."""
        results = [(json.loads(event).get("event_data") or {}).get("res") or {} for event in self.events]
        return next((dict(result["requests"]) for result in reversed(results) if result.get("requests")), {})

    def finding_codes(self) -> list[str]:
        return [finding["code"] for finding in (self.mesh_result or {}).get("findings", [])]


def _environment(home: str) -> dict[str, str]:
    root = link()
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(root),
        "ANSIBLE_HOME": home,
        "HOME": home,
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "COLUMNS": "1000",  # ansible-runner makes a terminal of 80 columns, in which a text that a test looks for would be broken
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def run_playbook(
    name: str,
    *,
    inventory: str | Mapping[str, Any],
    variables: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    verbosity: int = 0,
    environment: Mapping[str, str] | None = None,
) -> PlaybookRun:
    """Run a playbook of the collection (``connect``) or a file (a path that ends in .yml).

    :param inventory: a path, or the inventory as data (written as JSON, which Ansible reads as YAML).
    :param arguments: further command line arguments such as ``--check``.
    """
    with _folder_of(name, inventory, variables) as (folder, playbook, source, extra):
        base = Path(folder)
        stats: dict[str, Any] = {}
        events: list[str] = []

        def keep(event: dict[str, Any]) -> bool:
            events.append(json.dumps(event, default=str))
            if event.get("event") == "playbook_on_stats":
                stats.update(event["event_data"])
            return False

        runner = ansible_runner.run(
            private_data_dir=folder,
            playbook=playbook,
            inventory=source,
            cmdline=" ".join(["-e", f"@{extra}", *arguments]),
            envvars={**_environment(str(base / "home")), **(environment or {})},
            verbosity=verbosity or None,
            event_handler=keep,
            cancel_callback=lambda: False,
            quiet=True,
            settings={"suppress_ansible_output": True, "pexpect_timeout": 1},
        )
        with runner.stdout as stream:
            output = stream.read()
        run = PlaybookRun(
            rc=runner.rc,
            status=runner.status,
            output=output,
            mesh_result=stats.get("artifact_data", {}).get("mesh_result"),
            stats=stats,
            events=tuple(events),
        )
        return _held(run)


def run_warm(
    name: str,
    *,
    inventory: str | Mapping[str, Any],
    variables: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    timeouts: Mapping[str, float] | None = None,
    started: Callable[[int], None] | None = None,
    made_up: bool = False,
) -> PlaybookRun:
    """Run a playbook as `run_playbook` does, as a fork of the warm process of this test run.

    The events are those of results of tasks and of the statistics, see tests/testing/callbacks/mesh_record.py.

    :param environment: variables of the run that Ansible does not read when it is imported.
    :param timeouts: fields of the client's Timeouts that are other than users have them.
    :param started: called with the process id; the run may then be killed, and has status "killed" where it was.
    :param made_up: the test itself made parts of the result, so that it need not be as its schema says.
    """
    with _folder_of(name, inventory, variables) as (folder, playbook, source, extra):
        output, record = Path(folder, "output"), Path(folder, "events")
        words = shlex.split(" ".join(arguments))  # ansible-runner takes the arguments as one line of shell words
        request = {
            "args": [playbook, "-i", source, "-e", f"@{extra}", *words],
            "env": {**(environment or {}), "HOME": str(Path(folder, "home")), "MESH_RECORD": str(record)},
            "cwd": str(Path(folder, "project")),
            "output": str(output),
            **({"timeouts": dict(timeouts)} if timeouts else {}),
        }
        answer = _ask_warm_process(request, started)
        text = output.read_text(encoding="utf-8") if output.exists() else ""
        if not answer and started is not None:
            return PlaybookRun(rc=-signal.SIGKILL, status="killed", output=text, mesh_result=None)
        assert answer, f"the run died without an exit status\n{text}"
        events = tuple(record.read_text(encoding="utf-8").splitlines()) if record.exists() else ()
        stats: dict[str, Any] = next(
            (event["event_data"] for event in map(json.loads, events) if event["event"] == "playbook_on_stats"), {}
        )
        run = PlaybookRun(
            rc=int(answer),
            status="failed" if int(answer) else "successful",
            output=text,
            mesh_result=stats.get("artifact_data", {}).get("mesh_result"),
            stats=stats,
            events=events,
        )
        return run if made_up else _held(run)


def _held(run: PlaybookRun) -> PlaybookRun:
    """Return a run whose result is as its schema says; another one fails the test, whatever that is about."""
    if run.mesh_result is not None:
        hold_to_schema(run.mesh_result)
    return run


def list_inventory(folder: Path, *sources: str) -> tuple[int, str, str]:
    """Run ``ansible-inventory --list --export`` on sources in a folder, as a fork of the warm process. What cannot be read is an error.

    :returns: exit status, the JSON document, and what was written beside it.
    """
    listed, output = folder / ".listed.json", folder / ".output"
    for file in (listed, output):
        file.unlink(missing_ok=True)
    request = {
        "program": "ansible-inventory",
        "args": ["--list", "--export", "--output", str(listed), *(word for source in sources for word in ("-i", source))],
        "env": {"HOME": str(folder / "home"), "LC_ALL": "C.UTF-8"},
        "settings": {"INVENTORY_ANY_UNPARSED_IS_FAILED": True},
        "cwd": str(folder),
        "output": str(output),
    }
    answer = _ask_warm_process(request)
    text = output.read_text(encoding="utf-8") if output.exists() else ""
    assert answer, f"the run died without an exit status\n{text}"
    return int(answer), listed.read_text(encoding="utf-8") if listed.exists() else "", text


def write_warm_command(folder: Path) -> Path:
    """Write a program ``ansible-playbook`` that has its runs forked by the warm process, for a PATH that commands of a page are found in.

    It takes arguments, working directory and environment as ansible-playbook does, and ends with its status. Output goes out at the end.
    What Ansible reads from the environment when it is imported has no effect, see warm_ansible.py.

    :returns: the folder, made where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ansible-playbook"
    program.write_text(_WARM_COMMAND.format(python=sys.executable, socket=_warm_socket()), encoding="utf-8")
    program.chmod(0o755)
    return folder


_WARM_COMMAND = """\
#!{python} -SE
import json, os, socket, sys, tempfile

with tempfile.NamedTemporaryFile() as output, socket.socket(socket.AF_UNIX) as connection:
    request = {{"args": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "output": output.name}}
    connection.connect({socket!r})
    connection.sendall(json.dumps(request).encode() + b"\\n")
    with connection.makefile("r") as answers:
        answers.readline()
        status = answers.read()
    sys.stdout.buffer.write(output.read())
sys.exit(int(status) if status else "the run died without an exit status")
"""


@contextmanager
def _folder_of(name: str, inventory: str | Mapping[str, Any], variables: Mapping[str, Any] | None) -> Iterator[tuple[str, str, str, str]]:
    """Make the private folder of a run in memory. Yields the folder, the playbook, the inventory and the file of extra variables."""
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="mesh-play-", dir=scratch) as folder:
        base = Path(folder)
        for part in ("project", "env", "home"):
            (base / part).mkdir(mode=0o700)
        (base / "project" / "ansible.cfg").write_text(SETTINGS, encoding="ascii")
        source = inventory if isinstance(inventory, str) else str(base / "inventory.json")
        if not isinstance(inventory, str):
            Path(source).write_text(json.dumps(inventory), encoding="utf-8")
        extra = base / "env" / "variables.json"
        extra.write_text(json.dumps(dict(variables or {})), encoding="utf-8")
        yield folder, name if name.endswith(".yml") else f"{COLLECTION}.{name}", source, str(extra)


def _ask_warm_process(request: Mapping[str, Any], started: Callable[[int], None] | None = None) -> str:
    """Send a request to the warm process and return its answer, the exit status as text; "" of a run that died."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_warm_socket())
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r") as answers:
            pid = answers.readline()
            if started is not None and pid:
                started(int(pid))
            return answers.read()


@cache
def _warm_socket() -> str:
    """Return the socket of the warm process of this test run, which all workers of pytest-xdist share. The first to need it starts it.

    It lives as long as one of them holds its standard input, a named pipe, open.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}-{secrets.token_hex(8)}")
    folder = Path(tempfile.gettempdir(), f"mesh-warm-{run}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    assert folder.stat().st_uid == os.getuid(), f"{folder} belongs to another user"
    path, pipe = folder / "socket", folder / "input"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the process is ready
        if path.exists():
            os.open(pipe, os.O_WRONLY)  # to the end of this process
            return str(path)
        os.mkfifo(pipe)
        writer = os.open(pipe, os.O_RDWR)  # without a reader an end for writing alone cannot be opened
        with pipe.open("rb") as reader:
            command = [sys.executable, "-m", "tests.testing.warm_ansible", str(path)]
            # Without ``env`` it would get COLUMNS from readline, which pytest imports and which sets it behind the back of os.environ.
            # https://tiswww.case.edu/php/chet/readline/readline.html#index-rl_005fchange_005fenvironment
            process = subprocess.Popen(
                command, cwd=CHECKOUT, env=dict(os.environ), stdin=reader, stdout=subprocess.PIPE, start_new_session=True
            )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "the warm process did not start; its errors stand above"

    def end() -> None:
        os.close(writer)
        if "PYTEST_XDIST_TESTRUNUID" not in os.environ:  # else others may need it for longer
            process.wait()

    atexit.register(end)
    return str(path)
