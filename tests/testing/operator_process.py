# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator as a process of its own, as a pod runs it: flags in, JSON lines out, asked over HTTP, stopped or killed by pid."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.collection_path import CHECKOUT, link
from tests.lab.patience import scaled
from tests.testing.waiting import STALL, wait_for

_T = TypeVar("_T")


class OperatorProcess:
    """Use as a context manager. ``arguments`` are further flags. ``kcp`` None: custom resources are in namespaces."""

    def __init__(self, folder: Path, kcp: Path | None, management: Path, *arguments: str, node: str = "node-1") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.log = folder / f"operator-{node}-{time.monotonic_ns()}.log"
        self._command = [
            *(sys.executable, "-m", "mesh_operator"),
            *(("--kcp-kubeconfig", str(kcp)) if kcp else ("--source", "kubernetes")),
            *("--mgmt-kubeconfig", str(management), "--node-id", node),
            *("--health-addr", self.address, "--allow-address", "127.0.0.0/8", *arguments),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        path = os.pathsep.join((str(CHECKOUT / "operator"), str(link())))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "KUBE"))}
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(self._command, env=environment | {"PYTHONPATH": path}, stdout=out, stderr=out)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(scaled(30))
        self.kill()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def kill(self) -> None:
        """As a node that dies: SIGKILL, and nothing is tidied up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, limit: float = 30.0) -> int:
        """As kubelet ends a pod. Returns the exit status."""
        self.process.terminate()
        return self.process.wait(scaled(limit))

    def ready(self) -> bool:
        return self._ask("/readyz")[0] == 200

    def wait_ready(self) -> None:
        self.wait(self.ready, "the operator is ready")

    def wait(
        self,
        probe: Callable[[], _T],
        what: str,
        *,
        until: Callable[[_T], object] = bool,
        explain: Callable[[], str] = str,
        every: float | None = None,
        stall: float = STALL,
    ) -> None:
        """Wait until ``probe`` has a value that is true, or the one asked for by ``until``.

        That it makes progress shows in the log, which grows only when the operator does something; one that ended makes none.
        """
        wait_for(
            probe,
            until,
            what=what,
            progress=lambda: self.log.stat().st_size,
            hopeless=self._ended,
            explain=lambda: "\n".join(filter(None, [explain(), self.output()])),
            every=every,
            stall=stall,
        )

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels, as Prometheus reads them."""
        lines = [line.rpartition(" ") for line in self._ask("/metrics")[1].splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, _space, value in lines}

    def events(self) -> list[dict[str, Any]]:
        """Its log."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return found

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:]

    def _ended(self) -> str:
        status = self.process.poll()
        if status is not None:
            return f"the operator ended with status {status}"
        return "the operator crashed, and still runs" if b'"event": "crashed"' in self.log.read_bytes() else ""

    def _ask(self, path: str) -> tuple[int, str]:
        try:
            with urlopen(f"http://{self.address}{path}", timeout=5) as answer:  # our own address
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, ""
        except (URLError, OSError):
            return 0, ""
