# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that has imported all that ``ansible-playbook`` imports, and forks it, or ``ansible-inventory``, for each run.

Most of the time of a short run goes into starting Python and into importing Ansible and the collection, whose files Ansible compiles anew
each time. A forked run begins where these imports have ended, as runs of the operator do (confined/playbook_job.py). It is a run of
the real program in all else: arguments, inventory, templates, role, actions, output, exit status. What it cannot show is how a run begins;
tests of that take a process of its own (``run_playbook(..., own_process=True)``).

    python -m tests.testing.warm_ansible FOLDER/SOCKET       # ends when its standard input ends, and removes the folder

A request is one JSON document in a line, on a connection of its own: ``{"args": [], "env": {}, "cwd": "", "output": "file"}``. The answer
is a line with the id of the run's process, and then the exit status as text; none means that the run died.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.collection_path import CHECKOUT, link

POLL = 0.01  # seconds between two looks of Ansible at its workers; its own millisecond is a tenth of a processor for as long as a run waits
LONGEST = 64 << 20  # bytes of a request


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
                else:  # a run has ended; the worker that waits for its end looks for its process
                    selector.unregister(ready.fileobj)
                    os.close(ready.fd)
                    os.waitpid(ready.data, 0)


def _answer(connection: socket.socket) -> None:
    """Run what the connection asks for and end this process."""
    os.setsid()
    status = 250
    try:
        request = _read_request(connection)
        connection.sendall(f"{os.getpid()}\n".encode())
        status = _run(request)
        connection.sendall(str(status).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # what is to be cleaned up at the end of the parent is none of the child's business


def _read_request(connection: socket.socket) -> dict[str, Any]:
    text = b""
    while not text.endswith(b"\n") and len(text) < LONGEST and (more := connection.recv(1 << 16)):
        text += more
    request: dict[str, Any] = json.loads(text)
    return request


def _run(request: dict[str, Any]) -> int:
    from mesh_operator.runs.confined.playbook_job import run_playbook

    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(source, target)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if "timeouts" in request:  # seconds of requests to API servers, which users cannot set
        from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import client

        defaults = client.Timeouts.__init__.__kwdefaults__
        assert defaults is not None
        defaults.update(request["timeouts"])
    settings = {"DEFAULT_INTERNAL_POLL_INTERVAL": POLL, **request.get("settings", {})}
    return run_playbook([request.get("program", "ansible-playbook"), *request["args"]], settings)


def main() -> None:
    root = link()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test run ends this process through its standard input
    sys.path.append(str(CHECKOUT / "operator"))
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
        importlib.import_module("mesh_operator.runs.confined.playbook_job")  # imports everything, and Ansible reads the settings above
        gc.freeze()  # the forks neither walk nor copy what was imported
        serve(sys.argv[1])
        shutil.rmtree(Path(sys.argv[1]).parent, ignore_errors=True)  # who started this process may have ended before


if __name__ == "__main__":
    main()
