# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that has imported all that ``ansible-playbook`` imports, and forks it, or ``ansible-inventory``, for each run.

Most of the time of a short run goes into starting Python and into importing Ansible and the collection, whose files Ansible compiles anew
each time. A forked run begins where these imports have ended. It is a run of the real program in all else: arguments, inventory,
templates, role, actions, output, exit status. What it cannot show is how a run begins; tests of that take a process of its own
(``run_playbook(..., own_process=True)``).

    python -m tests.testing.warm_ansible SOCKET              # ends when its standard input ends
    python -m tests.testing.warm_ansible SOCKET operator     # the same, with the settings that it was started with

A request is one JSON document in a line, on a connection of its own: ``{"args": [], "env": {}, "cwd": "", "output": "file"}``. The answer
is a line with the id of the run's process, and then the exit status as text; none means that the run died. Plays of the operator come from
`tests/testing/warm_play.py`, which sends its own standard streams along and whose environment is the whole one of the run.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from tests.collection_path import CHECKOUT, link

ROOM = "WARM_ANSIBLE_ROOM"
"""The first variable of the environment with which the process of an operator's plays is started: room for the mark of a run."""
POLL = 0.01  # seconds between two looks of Ansible at its workers; its own millisecond is a tenth of a processor for as long as a run waits
LONGEST = 64 << 20  # bytes of a request
PACKAGE = "ansible_collections.edge_portal.cilium_mesh.plugins"
MODULES = (
    "ansible.executor.playbook_executor",
    "ansible.executor.process.worker",
    "ansible.executor.task_executor",
    "ansible.executor.task_queue_manager",
    "ansible.plugins.action.assert",
    "ansible.plugins.action.debug",
    "ansible.plugins.action.fail",
    "ansible.plugins.action.validate_argument_spec",
    "cryptography.x509",
    "google.protobuf.descriptor_pb2",
    "google.protobuf.message_factory",
    "grpc",
    "grpc._channel",  # which grpc imports when the first channel is made
    "grpc.experimental",
    "kubernetes.client",
    "kubernetes.config",
    "urllib3",
)
PLUGINS = {
    "callback_loader": ("ansible.builtin.default", "mesh_record"),
    "inventory_loader": ("host_list", "script", "auto", "yaml", "ini", "toml"),
    "strategy_loader": ("linear",),
}
WHOLE_KINDS = ("connection_loader", "shell_loader", "become_loader", "callback_loader")
"""Kinds of which each run loads all plugins."""
OWN = "awx_display"
"""ansible-runner's callback: it takes the folder of its run from the environment, and makes the lock of the run's output, when it is
imported. So each run imports it."""


def import_everything() -> None:
    """Import Ansible and the collection as a run does, through Ansible's own loaders: nothing else finds what was imported so."""
    from ansible.plugins import loader

    loader.init_plugin_loader()
    for name in MODULES:
        importlib.import_module(name)
    for kind, names in PLUGINS.items():
        for name in names:
            getattr(loader, kind).get(name, class_only=True)
    for kind in WHOLE_KINDS:
        for path in getattr(loader, kind).all(path_only=True):
            if Path(path).stem != OWN:
                getattr(loader, kind).get(Path(path).stem, class_only=True)
    for kind in ("filter_loader", "test_loader"):  # Jinja2's, which have no class of their own
        list(getattr(loader, kind).all())
    loader.lookup_loader.get("inventory_hostnames", class_only=True)
    for file in sorted((CHECKOUT / "plugins" / "action").glob("mesh_*.py")):
        loader.action_loader.get(f"edge_portal.cilium_mesh.{file.stem}", class_only=True)
    for kind in ("module_utils", "plugin_utils"):
        for file in sorted((CHECKOUT / "plugins" / kind).rglob("*.py")):
            parts = file.relative_to(CHECKOUT / "plugins").with_suffix("").parts
            importlib.import_module(".".join((PACKAGE, *parts)).removesuffix(".__init__"))


def serve(path: str) -> None:
    """Fork a run for each connection until standard input ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for ready in [key for key, _ in selector.select()]:
                if ready.fd == sys.stdin.fileno():
                    if not os.read(ready.fd, 1):
                        return
                elif ready.fd == listener.fileno():
                    connection, _ = listener.accept()
                    child = os.fork()
                    if child == 0:
                        listener.close()
                        _answer(connection)
                    connection.close()
                    selector.register(os.pidfd_open(child), selectors.EVENT_READ, child)
                else:  # a run has ended; whoever waits for its end looks for its process
                    selector.unregister(ready.fileobj)
                    os.close(ready.fd)
                    os.waitpid(ready.data, 0)


def _answer(connection: socket.socket) -> None:
    """Run what the connection asks for and end this process."""
    os.setsid()
    status = 250
    try:
        request, streams = _read_request(connection)
        connection.sendall(f"{os.getpid()}\n".encode())
        status = _run(request, streams)
        connection.sendall(str(status).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # what is to be cleaned up at the end of the parent is none of the child's business


def _read_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return what is asked for, and the standard streams that came along, if any did."""
    text, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while not text.endswith(b"\n") and len(text) < LONGEST and (more := connection.recv(1 << 16)):
        text += more
    return json.loads(text), streams


def _run(request: dict[str, Any], streams: list[int]) -> int:
    from ansible import constants
    from ansible.cli.inventory import InventoryCLI
    from ansible.cli.playbook import PlaybookCLI

    if not streams:
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        streams = [os.open(os.devnull, os.O_RDONLY), output, output]
    for target, source in enumerate(streams):
        os.dup2(source, target)
    if "mark" in request:  # a play of the operator
        _show_mark(request["mark"])
        os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    settings = dict(request.get("settings", {}))
    if "mark" in request:
        tempfile.tempdir = None
        settings["DEFAULT_LOCAL_TMP"] = tempfile.mkdtemp(prefix="ansible-local-", dir=os.environ["ANSIBLE_LOCAL_TEMP"])
    for name, value in settings.items():  # Ansible has read its settings before the fork
        constants.set_constant(name, value)
    if "timeouts" in request:  # seconds of requests to API servers, which users cannot set
        from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import client

        defaults = client.Timeouts.__init__.__kwdefaults__
        assert defaults is not None
        defaults.update(request["timeouts"])
    program = request.get("program", "ansible-playbook")
    sys.argv = [program, *request["args"]]
    try:
        {"ansible-playbook": PlaybookCLI, "ansible-inventory": InventoryCLI}[program].cli_executor(sys.argv)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _show_mark(mark: str) -> None:
    """Make /proc/PID/environ of this run and of its workers begin with a variable, by which the operator finds them.

    The file shows the memory that the kernel filled at the start of the program (proc(5), env_start), not what the program has set since.
    """
    start = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[47])
    room = len(f"{ROOM}={os.environ[ROOM]}")
    shown = mark.encode() + b"\0"
    assert ctypes.string_at(start, room) == f"{ROOM}={os.environ[ROOM]}".encode() and len(shown) < room, "no room for the mark of a run"
    ctypes.memmove(start, shown, len(shown))


def main() -> None:
    root = link()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test run ends this process through its standard input
    # Ansible sets its loader up in every run; here that has happened before the fork.
    warnings.filterwarnings("ignore", message="AnsibleCollectionFinder has already been configured")
    if sys.argv[2:] == ["operator"]:
        import_everything()
        gc.freeze()
        serve(sys.argv[1])
        return
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    with tempfile.TemporaryDirectory(prefix="warm-ansible-") as home:
        os.environ.update(
            ANSIBLE_HOME=home,
            HOME=home,
            ANSIBLE_COLLECTIONS_PATH=str(root),
            ANSIBLE_CALLBACK_PLUGINS=str(Path(__file__).with_name("callbacks")),
            ANSIBLE_CALLBACKS_ENABLED="mesh_record",
            ANSIBLE_LOCALHOST_WARNING="false",
            ANSIBLE_INVENTORY_UNPARSED_WARNING="false",
            ANSIBLE_NOCOLOR="1",
        )
        from ansible import constants  # reads the settings above

        import_everything()
        constants.set_constant("DEFAULT_INTERNAL_POLL_INTERVAL", POLL)
        gc.freeze()  # the forks neither walk nor copy what was imported
        serve(sys.argv[1])


if __name__ == "__main__":
    main()
