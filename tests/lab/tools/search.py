# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Programs that are already on this machine: in the folder that MESH_LAB_TOOLS names, or on PATH."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.tools.catalogue import TOOLS, Tool
from tests.lab.tools.elf import why_not_in_a_pod
from tests.lab.tools.errors import ToolUnavailable

MESH_LAB_TOOLS = "MESH_LAB_TOOLS"
CLUSTERMESH = "clustermesh-apiserver"
POD_PROGRAMS = (CLUSTERMESH, "etcd")
"""Programs that run in the lab's pods, whose root holds what the images hold and nothing of this machine."""

_NUMBERS = re.compile(r"(?<![\d.])v?(\d+)\.(\d+)(?:\.(\d+))?")
# The module list that Go writes into every program (debug/buildinfo): tab-separated lines "mod PATH VERSION SUM" and "dep …".
_CILIUM_MODULE = re.compile(rb"(?:mod|dep)\tgithub\.com/cilium/cilium\tv(\d+\.\d+\.\d+[-.\w]*)")


@dataclass(frozen=True)
class Found:
    """A program at hand. ``origin`` is "MESH_LAB_TOOLS", "PATH" or "built"; ``version`` like "3.6.14", "" when it is not known."""

    path: Path
    origin: str
    version: str = ""


def parse_version(text: str) -> tuple[int, ...] | None:
    """The first version in a program's answer: "etcd Version: 3.6.14" is (3, 6, 14). None when there is none."""
    match = _NUMBERS.search(text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def folders() -> Iterator[tuple[str, Path]]:
    """(origin, folder) in the order of the search. A MESH_LAB_TOOLS that is not a folder is an error: it was meant."""
    wanted = os.environ.get(MESH_LAB_TOOLS, "")
    if wanted:
        if not Path(wanted).is_dir():
            raise ToolUnavailable(f"{MESH_LAB_TOOLS} is {wanted!r}, which is not a folder. Correct or unset it.")
        yield MESH_LAB_TOOLS, Path(wanted).absolute()
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(entry):
            yield "PATH", Path(entry)


def is_program(path: Path) -> bool:
    return os.access(path, os.X_OK) and path.is_file()  # access first: is_file raises where a folder on the way is closed to us


def find(name: str, note: Callable[[str], None]) -> Found | None:
    """The first usable program of that name; ``note`` hears why one was passed over."""
    tool = TOOLS.get(name)
    for origin, folder in folders():
        path = folder / name
        if not is_program(path):
            continue
        version = version_of(path, tool)
        if tool is not None and tool.floor and (version or ()) < tool.floor:
            has, least = ".".join(map(str, version or ())) or "an unknown version", ".".join(map(str, tool.floor))
            note(f"{path} is {has}; at least {least} is needed, so it is not used")
            continue
        if name in POD_PROGRAMS and not _runs_in_pods(path, origin, note):
            continue
        return Found(path, origin, ".".join(map(str, version or ())))
    return None


def _runs_in_pods(path: Path, origin: str, note: Callable[[str], None]) -> bool:
    """Can the program run in a pod? One that cannot is passed over; in MESH_LAB_TOOLS, where it was meant, it is an error.

    Without this the pod's container fails minutes later with "No such file or directory", which means the loader.
    """
    why = why_not_in_a_pod(path)
    if why and origin == MESH_LAB_TOOLS:
        raise ToolUnavailable(f"{path} {why}. Build it with CGO_ENABLED=0, or take it from Cilium's image, which has a static one.")
    if why:
        note(f"{path} {why}, so it is not used")
    return not why


def find_clustermesh(version: str, note: Callable[[str], None]) -> Found | None:
    """A clustermesh-apiserver of ``version`` ("1.20", "1.20.2"): by file name (``clustermesh-apiserver-1.20.2``), else by what is in it."""
    for origin, folder in folders():
        for path in sorted(folder.glob(f"{CLUSTERMESH}-*"), reverse=True):
            named = path.name.removeprefix(f"{CLUSTERMESH}-").removeprefix("v")
            if is_program(path) and matches(named, version) and _runs_in_pods(path, origin, note):
                return Found(path, origin, named)
        path = folder / CLUSTERMESH
        if is_program(path):
            own = cilium_version(path)
            if matches(own, version) and _runs_in_pods(path, origin, note):
                return Found(path, origin, own)
            note(f"{path} is {own or 'of an unknown version'}, not {version}")
    return None


def matches(version: str, wanted: str) -> bool:
    """Is ``version`` the wanted one, or a patch release of it? "1.20.2" is "1.20" and not "1.2"."""
    return version == wanted or version.startswith((f"{wanted}.", f"{wanted}-"))


def version_of(path: Path, tool: Tool | None) -> tuple[int, ...] | None:
    if tool is None:
        return None
    if tool.name == CLUSTERMESH:
        return parse_version(cilium_version(path))
    if not tool.version_argument:
        return None
    try:
        answer = subprocess.run(
            [path, tool.version_argument], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stdout)


def cilium_version(path: Path) -> str:
    """Cilium's version out of the program's build information, or "". clustermesh-apiserver has no command that tells it (1.15 to 1.20)."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            match = _CILIUM_MODULE.search(content)
            return match.group(1).decode() if match else ""
    except (OSError, ValueError):  # an empty file cannot be mapped
        return ""
