# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A real kcp as one local process: control plane, virtual workspaces and etcd in one, on loopback."""

from __future__ import annotations

import base64
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import urllib3
import yaml

from tests.lab.controlplane import StartError
from tests.lab.patience import Budget
from tests.lab.processes import plain
from tests.lab.tools import ensure
from tests.lab.tools.progress import console
from tests.testing.kcp_client import Client

_START: Final = 180.0  # seconds; it takes 35 on two busy cores
_STOP: Final = 30.0


class KcpProcess:
    """Use as a context manager, on the main thread: the process ends with the thread that started it.

    ``users``: name by token; their groups are ``system:authenticated`` alone.

    Raises ToolUnavailable when there is no kcp, StartError when it does not come up.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._program = ensure(["kcp"], progress=console())["kcp"]
        self._users = users
        self._folder = tempfile.TemporaryDirectory(prefix="kcp-")
        self._ports = [_free_port() for _ in range(3)]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"https://127.0.0.1:{self._ports[0]}"

    def __enter__(self) -> Self:
        rows = (f'{token},{name},{name},""\n' for token, name in self._users.items())
        (self._root / "tokens.csv").write_text("".join(rows), encoding="ascii")
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _root(self) -> Path:
        return Path(self._folder.name)

    def admin(self) -> Client:
        """kcp-admin at the bare server."""
        config = yaml.safe_load((self._root / "admin.kubeconfig").read_text(encoding="utf-8"))
        context = _named(config["contexts"], "base")["context"]
        cluster, user = _named(config["clusters"], context["cluster"])["cluster"], _named(config["users"], context["user"])["user"]
        return Client(cluster["server"], base64.b64decode(cluster["certificate-authority-data"]).decode(), user["token"])

    def restart(self) -> None:
        """The same state, on the same port. kcp keeps a hash of the administrator's token, and cannot write a kubeconfig anew from it."""
        self._stop()
        self._start()

    def close(self) -> None:
        self._stop()
        self._folder.cleanup()

    def _start(self) -> None:
        secure, client, peer = self._ports
        command = [
            *(str(self._program), "start", f"--root-directory={self._root}", "--bind-address=127.0.0.1", f"--secure-port={secure}"),
            *(f"--embedded-etcd-client-port={client}", f"--embedded-etcd-peer-port={peer}"),
            f"--token-auth-file={self._root / 'tokens.csv'}",
        ]
        with (self._root / "kcp.log").open("ab") as log:
            self._process = subprocess.Popen(plain(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._root)
        budget = Budget(_START)
        while not self._ready():
            if self._process.poll() is not None or budget.is_spent():
                raise StartError(f"kcp did not come up: {(self._root / 'kcp.log').read_text(errors='replace')[-1000:]}")
            time.sleep(0.3)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _ready(self) -> bool:
        if not (self._root / "admin.kubeconfig").exists():
            return False
        try:
            return self.admin().call("GET", "/readyz").status == 200
        except (urllib3.exceptions.HTTPError, yaml.YAMLError, TypeError, KeyError):
            return False  # the file may be half written


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
