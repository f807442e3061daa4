# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""API servers of a lab's clusters that die and come back: the port refuses and every watch breaks, as of a cluster that is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import urllib3

from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError
from tests.lab.processes import plain
from tests.testing.waiting import wait_for

PROGRAM: Final = "kube-apiserver"


class ApiServers(AbstractContextManager["ApiServers"]):
    """Those of one lab. The lab does not know the ones that are started here, which end with this."""

    def __init__(self, lab: MeshLab) -> None:
        self._lab = lab
        self._own: dict[str, subprocess.Popen[bytes]] = {}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._own.values():
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    @contextmanager
    def dead(self, cluster: str) -> Iterator[None]:
        """Kill the API server of a cluster; at the end it is there again with its arguments, and so with its objects."""
        place = Path("/proc") / str(self._pid(cluster))
        argv = [os.fsdecode(part) for part in (place / "cmdline").read_bytes().split(b"\0")[:-1]]
        variables = [os.fsdecode(part) for part in (place / "environ").read_bytes().split(b"\0")[:-1]]
        folder = (place / "cwd").readlink()
        os.kill(int(place.name), signal.SIGKILL)
        try:
            yield
        finally:
            if cluster in self._own:
                self._own[cluster].wait()
            with (folder / f"{PROGRAM}.log").open("ab") as log:
                self._own[cluster] = subprocess.Popen(
                    plain(argv), cwd=folder, env=dict(part.split("=", 1) for part in variables), stdout=log, stderr=subprocess.STDOUT
                )
            lost = (ApiError, urllib3.exceptions.HTTPError)
            wait_for(lambda: self._lab.api(cluster).get_text("/readyz"), what=f"the API server of {cluster} is ready again", passing=lost)

    def _pid(self, cluster: str) -> int:
        if cluster in self._own:
            return self._own[cluster].pid
        found = next(entry for entry in self._lab.lab.status()["clusters"] if entry["name"] == cluster)
        return int(found["servers"][PROGRAM])
