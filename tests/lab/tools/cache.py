# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where built programs are kept: one folder per tool and key, outside every checkout, shared by all of them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.lab.tools.catalogue import Tool
from tests.lab.tools.progress import Heartbeat, Progress

BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")


def cache_root() -> Path:
    """``$XDG_CACHE_HOME`` or ``~/.cache``, and in it ``cilium-mesh-lab``."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "cilium-mesh-lab"


def key(tool: Tool) -> str:
    """16 hex digits over everything that goes into the program but the Go release: go.mod, go.sum, our sources, flags, platform."""
    digest = hashlib.sha256()

    def add(label: str, content: bytes) -> None:
        digest.update(f"{label}\0{len(content)}\0".encode())
        digest.update(content)

    for path in (tool.family.folder / "go.mod", tool.family.folder / "go.sum", *tool.sources):
        add(path.name, path.read_bytes())
    settings = [tool.package, tool.link_flags, *BUILD_FLAGS, *(f"{k}={v}" for k, v in sorted(BUILD_ENVIRONMENT.items())), *tool.tags]
    add("settings", "\0".join([*settings, platform.system(), platform.machine()]).encode())
    return digest.hexdigest()[:16]


def place(tool: Tool, go_version: str, root: Path | None = None) -> Path:
    """Path of the built program. ``go_version`` like "1.26.6"."""
    return (root or cache_root()) / f"{tool.name}-{key(tool)}" / f"go{go_version}" / tool.name


def cached(tool: Tool, go_version: str | None, root: Path | None = None) -> Path | None:
    """The built program, or None. Without a Go at hand (``go_version`` None) any release's build will do, the newest first."""
    if go_version is not None:
        path = place(tool, go_version, root)
        return path if path.is_file() else None
    folder = (root or cache_root()) / f"{tool.name}-{key(tool)}"
    built = [path for path in folder.glob(f"go*/{tool.name}") if path.is_file()]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


@contextlib.contextmanager
def exclusive(name: str, progress: Progress, *, root: Path | None = None, poll: float = 0.5) -> Iterator[None]:
    """Hold the cache's lock ``name``, waiting (and saying so) while another process does. The kernel frees it when a process dies."""
    folder = root or cache_root()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as file:
        heartbeat: Heartbeat | None = None
        while not _locked(file):
            if heartbeat is None:
                progress(f"Another process is at work in {folder} ({name}); waiting for it")
                heartbeat = Heartbeat("waiting for the other process", progress)
            time.sleep(poll)
            heartbeat.beat()
        if heartbeat is not None:
            heartbeat.wipe()
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
