# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A host outside of the clusters of a lab with real agents: on their wire, but no node and no pod, so that agents take it for the world."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from tests.lab.addresses import OUTSIDE
from tests.lab.fabric import Fabric
from tests.lab.netns import NetNs

_SECONDS = 1.0


class Outside:
    """One host, with the addresses `OUTSIDE`. Not for the event loop: it waits."""

    def __init__(self, fabric: Fabric) -> None:
        """:raises FabricError: see `Fabric.join`"""
        self.netns = NetNs("outside")
        fabric.join(self.netns, *OUTSIDE)

    def ask(self, source: str, url: str) -> dict[str, Any]:
        """Ask a URL from the address ``source``; return what `workloads.Answer` has. :raises ValueError: the host has no such address"""
        if source not in OUTSIDE:
            raise ValueError(f"the host outside has no address {source!r}; use {' or '.join(OUTSIDE)}")
        program = shutil.which("curl")
        if program is None:
            raise ValueError("this machine has no curl")
        # No file and no variable of this user decides where the request goes.
        command = [program, "-q", "-sS", "--proto", "=http", "--max-time", f"{_SECONDS:g}", "--interface", source, "--", url]

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS + 20, check=False, env={})

        done = self.netns.call(run)
        return {"text": done.stdout, "errors": done.stderr, "code": done.returncode}

    def close(self) -> None:
        """Give the host up."""
        self.netns.close()
