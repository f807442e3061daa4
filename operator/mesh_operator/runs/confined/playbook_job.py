# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work of a confined child: one ``ansible-playbook``, in a process that has imported Ansible and the collection before it was forked.

Most of the time of a short run goes into starting Python and into these imports, whose files Ansible compiles anew each time. All else is
as in a process of its own: arguments, inventory, templates, roles, actions, output, exit status. Only the fork server imports this module;
its environment has the settings of runs, as Ansible reads them when it is imported (decision 0057).
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

from ansible.parsing.dataloader import DataLoader
from ansible.plugins import loader
from ansible.utils.vars import load_extra_vars

from .playbook_client import VARIABLES

WAIT: Final = 60.0  # seconds for the client to come
POLL: Final = 0.02  # seconds between two looks of Ansible at its workers: its millisecond is a tenth of a processor while a run waits
STACK: Final = 8 * 1024 * 1024  # bytes of a stack, as Linux has them; the server's are smaller

_PACKAGE: Final = "ansible_collections.edge_portal.cilium_mesh.plugins"
_PLUGINS: Final = Path(os.environ["ANSIBLE_COLLECTIONS_PATH"], *_PACKAGE.split("."))
_MODULES: Final = (
    "ansible.cli.playbook",
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
_PLUGINS_OF_ANSIBLE: Final = {
    "callback_loader": ("ansible.builtin.default",),
    "inventory_loader": ("host_list", "script", "auto", "yaml", "ini", "toml", "run_inventory"),
    "strategy_loader": ("linear",),
}
_WHOLE_KINDS: Final = ("connection_loader", "shell_loader", "become_loader", "callback_loader")  # each run loads all of their plugins
_OF_EACH_RUN: Final = "awx_display"
"""ansible-runner's callback: it takes the folder of its run from the environment when it is imported, and makes a lock then."""


def import_everything() -> None:
    """Import Ansible and the collection as a run does, through Ansible's own loaders: they find again only what they have loaded."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]:
        del sys.modules[name]  # the fork server has imported a few by Python's own finder, and Ansible's needs to know the collection
    loader.init_plugin_loader()
    for name in _MODULES:
        importlib.import_module(name)
    for kind, names in _PLUGINS_OF_ANSIBLE.items():
        for name in names:
            getattr(loader, kind).get(name, class_only=True)
    for kind in _WHOLE_KINDS:
        for path in getattr(loader, kind).all(path_only=True):
            if Path(path).stem != _OF_EACH_RUN:
                getattr(loader, kind).get(Path(path).stem, class_only=True)
    for kind in ("filter_loader", "test_loader"):  # Jinja's, which have no class of their own
        list(getattr(loader, kind).all())
    loader.lookup_loader.get("inventory_hostnames", class_only=True)
    for file in sorted((_PLUGINS / "action").glob("mesh_*.py")):
        loader.action_loader.get(f"edge_portal.cilium_mesh.{file.stem}", class_only=True)
    for kind in ("module_utils", "plugin_utils"):
        for file in sorted((_PLUGINS / kind).rglob("*.py")):
            parts = file.relative_to(_PLUGINS).with_suffix("").parts
            importlib.import_module(".".join((_PACKAGE, *parts)).removesuffix(".__init__"))
    # Ansible sets its loader up in every run; here that has happened before the fork.
    warnings.filterwarnings("ignore", message="AnsibleCollectionFinder has already been configured")


def serve(listener: socket.socket) -> None:
    """Run the playbook for which the client asks, and send it the exit status (playbook_client.py)."""
    listener.settimeout(WAIT)
    connection, _address = listener.accept()
    listener.close()
    connection.settimeout(WAIT)
    with connection:
        begin, streams, _flags, _sender = socket.recv_fds(connection, 1, 3)
        text = bytearray()
        while part := connection.recv(1 << 16):
            text += part
        request = json.loads(text) if begin else {}
        for target, source in enumerate(streams):
            os.dup2(source, target)
            os.close(source)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        give_variables(json.loads(Path(request["run"], VARIABLES).read_bytes()))
        status = run_playbook(request["command"])
        connection.sendall(str(status).encode())


def give_variables(variables: dict[str, Any]) -> None:
    """Give Ansible the extra variables of the run of this process, as values: it parses no text, so no key has a meaning for it.

    Ansible keeps what it has read of ``--extra-vars`` at its function, for all that ask (utils/vars.py of ansible-core 2.19 to 2.21). It
    evaluates only texts that are marked as trusted, which its own readers do, and nothing does here.

    :raises RuntimeError: when Ansible does not take them, since a run without its variables would mean something else.
    """
    load_extra_vars.extra_vars = variables
    if load_extra_vars(DataLoader()) != variables:
        raise RuntimeError("this ansible-core takes no extra variables as values")


def run_playbook(command: list[str], settings: dict[str, Any] | None = None) -> int:
    """Run the program in this process, and return its exit status.

    :param settings: of Ansible, by the name of the constant: it has read its own before the fork.
    """
    from ansible import constants
    from ansible.cli.inventory import InventoryCLI
    from ansible.cli.playbook import PlaybookCLI

    own: dict[str, Any] = {"DEFAULT_INTERNAL_POLL_INTERVAL": POLL}
    tempfile.tempdir = None
    if parent := os.environ.get("ANSIBLE_LOCAL_TEMP"):
        own["DEFAULT_LOCAL_TMP"] = tempfile.mkdtemp(prefix="ansible-local-", dir=parent)
    for name, value in {**own, **(settings or {})}.items():
        constants.set_constant(name, value)
    program = Path(command[0]).name
    sys.argv = [program, *command[1:]]
    try:
        {"ansible-playbook": PlaybookCLI, "ansible-inventory": InventoryCLI}[program].cli_executor(sys.argv)
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


import_everything()
