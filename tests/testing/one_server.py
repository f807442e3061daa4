# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One real kube-apiserver on one real etcd, and nothing else: no controllers, no pods, and a kubelet on request.

For many "clusters" by namespace."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.lab import addresses
from tests.lab.api import LabApi
from tests.lab.controlplane import ControlPlane, make_files
from tests.lab.processes import Process, plain
from tests.lab.tools import ensure
from tests.lab.tools.progress import console

PROGRAMS: Final = ("kube-apiserver", "etcd")
KUBELET: Final = "lab-kubelet"


class OneServer:
    """Use as a context manager, on the main thread: its processes end with the thread that started them.

    ``kubelet``: exec into pods is answered as the files in ``pods`` say (tests/lab/tools/go/kube/lab-kubelet/pods.go).

    Raises ToolUnavailable or StartError when it cannot be had.
    """

    def __init__(self, *, kubelet: bool = False) -> None:
        self._tools = dict(ensure((*PROGRAMS, *((KUBELET,) if kubelet else ())), progress=console()))
        self._kubelet = kubelet
        self._loop = asyncio.new_event_loop()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._claim: socket.socket | None = None
        self._etcd: Process | None = None
        self._plane: ControlPlane | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="mesh-one-server-")
        try:
            self._loop.run_until_complete(self._start(Path(self._folder.name)))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def api(self) -> LabApi:
        assert self._plane is not None
        return self._plane.api

    @property
    def lab(self) -> int:
        """Number of the 127.L.0.0/16 that is this server's alone."""
        return self._lab

    def cpu_seconds(self) -> float:
        """CPU time of both servers since they started."""
        ticks = os.sysconf("SC_CLK_TCK")
        return sum(_cpu_ticks(process.pid) for process in self._processes()) / ticks

    def close(self) -> None:
        """End both servers; nothing is left. Twice is fine."""
        if self._folder is None:
            return
        self._loop.run_until_complete(self._stop())
        self._loop.close()
        if self._claim is not None:
            self._claim.close()
        self._folder.cleanup()
        self._folder = None

    async def _start(self, folder: Path) -> None:
        self._lab, self._claim = addresses.claim_lab_number()
        place = addresses.ClusterAddresses(self._lab, 1)
        self.kubeconfig = folder / "kubeconfig.yaml"
        url = f"http://{addresses.etcd_address(self._lab)}:2379"
        peer = url.replace("2379", "2380")
        etcd = [
            f"--data-dir={folder / 'etcd'}",
            "--name=one",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=one={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        self._etcd = Process("etcd", plain([str(self._tools["etcd"]), *etcd]), folder / "etcd.log")
        files = make_files(folder / "server", self.kubeconfig, "one", place)
        self._plane = ControlPlane("one", files, place, self._tools, url)
        await self._plane.start_api(egress=False)
        self.pods = folder / "pods"
        self.kubelet_address = place.kubelet
        if self._kubelet:
            self.pods.mkdir()
            self._plane.start_kubelet(self.pods)

    async def _stop(self) -> None:
        for process in self._processes():
            process.kill()
            await process.wait()

    def _processes(self) -> list[Process]:
        return [*(self._plane.processes if self._plane else ()), *([self._etcd] if self._etcd else ())]


def _cpu_ticks(pid: int) -> int:
    """User and system time of a process (proc(5), stat: fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
