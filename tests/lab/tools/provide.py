# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From names to programs: the folder MESH_LAB_TOOLS, then PATH, then the cache, then a build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.lab.tools import cache, golang
from tests.lab.tools.build import build
from tests.lab.tools.catalogue import ALL, CILIUM, CILIUM_AGENT, KCP, MESH_OF_AGENTS, TOOLS, Tool
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.progress import Progress, usual
from tests.lab.tools.search import CLUSTERMESH, MESH_LAB_TOOLS, Found, find, find_clustermesh, matches


class Tools(Mapping[str, Path]):
    """Programs by name; as a mapping, name to path."""

    def __init__(self, found: Mapping[str, Found]) -> None:
        self._found = dict(found)

    def path(self, name: str) -> Path:
        return self._found[name].path

    def origin(self, name: str) -> str:
        """ "MESH_LAB_TOOLS", "PATH" or "built"."""
        return self._found[name].origin

    def version(self, name: str) -> str:
        """Like "1.15.19"; "" when the program does not tell and its file name neither."""
        return self._found[name].version

    def __getitem__(self, name: str) -> Path:
        return self.path(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def at_hand(names: Iterable[str], progress: Progress) -> dict[str, Found]:
    """Those of ``names`` that are at hand without a build."""
    go = golang.go_at_hand()
    found: dict[str, Found] = {}
    for name in names:
        here = find(name, progress)
        if here is None and name in TOOLS and (path := cache.cached(TOOLS[name], go.version if go else None)):
            here = _built(TOOLS[name], path)
        if here is not None:
            found[name] = here
    return found


def ensure(names: Iterable[str] = ALL, *, progress: Progress) -> Tools:
    """Find or build the programs. ``progress`` gets one line per event; a ``LiveProgress`` also a line that is rewritten.

    :raises ToolUnavailable: one of them cannot be had; the text says why.
    """
    wanted = list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in TOOLS and name != KCP]:
        raise ToolUnavailable(f"The lab knows no program {unknown[0]!r}; it knows {', '.join((*TOOLS, KCP))}.")
    found = at_hand(wanted, progress)
    missing = [name for name in wanted if name not in found]
    if KCP in missing:
        raise ToolUnavailable(
            f"No kcp on PATH or in the folder that {MESH_LAB_TOOLS} names; its release holds one, and it is not built here."
        )
    if missing:
        found |= _built_now(missing, progress)
    return Tools({name: found[name] for name in wanted})


def clustermesh_binary(version: str, *, progress: Progress) -> Found:
    """A clustermesh-apiserver of Cilium ``version`` ("1.20", "1.20.2"); the lab's own when that is the version asked for.

    Files named ``clustermesh-apiserver-1.20.2`` in MESH_LAB_TOOLS or on PATH come first.
    :raises ToolUnavailable: there is none; two versions can be built from modules.
    """
    if found := find_clustermesh(version, progress):
        return found
    for own, name in ((CILIUM, CLUSTERMESH), (CILIUM_AGENT, MESH_OF_AGENTS)):
        if matches(own, version):
            go, tool = golang.go_at_hand(), TOOLS[name]
            path = cache.cached(tool, go.version if go else None)
            return _built(tool, path) if path else _built_now([name], progress)[name]
    raise ToolUnavailable(
        f"No {CLUSTERMESH} of Cilium {version}: put one named {CLUSTERMESH}-{version} into the folder that {MESH_LAB_TOOLS} names, or on "
        f"PATH. Only {CILIUM} and {CILIUM_AGENT} can be built from Go modules; Cilium's image quay.io/cilium/clustermesh-apiserver holds "
        "the others."
    )


def _built_now(names: Iterable[str], progress: Progress) -> dict[str, Found]:
    go = golang.provide_go(progress)
    with cache.exclusive("build", progress):
        # Another process may have built some while this one waited.
        missing = [TOOLS[name] for name in names if cache.cached(TOOLS[name], go.version) is None]
        if len(missing) > 1:
            minutes = usual(sum(tool.minutes for tool in missing))
            progress(f"{len(missing)} programs are built once (usually {minutes} on two cores) and kept in {cache.cache_root()}")
        for tool in missing:
            build(tool, go, progress)
        return {name: _built(TOOLS[name], cache.place(TOOLS[name], go.version)) for name in names}


def _built(tool: Tool, path: Path) -> Found:
    return Found(path, "built", "" if tool.own else tool.family.version)
