# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Builds one program into the cache."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.lab.tools import cache
from tests.lab.tools.catalogue import Tool
from tests.lab.tools.child import run_long
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.golang import Go
from tests.lab.tools.progress import Progress, duration, usual


def build(tool: Tool, go: Go, progress: Progress) -> Path:
    """Build ``tool`` and return its place in the cache. The caller holds the lock "build".

    :raises ToolUnavailable: with the compiler's words.

    The program is made in a folder of its own and renamed when it is whole: a build that was cut short is never seen.
    """
    target = cache.place(tool, go.version)
    target.parent.mkdir(parents=True, exist_ok=True)
    title = tool.name if tool.own else f"{tool.name} {tool.family.version}"
    progress(f"Building {title} with Go {go.version} (usually {usual(tool.minutes)} on two cores); it is kept in {target.parent}")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unfinished-") as unfinished:
        made = Path(unfinished) / tool.name
        argv: list[str | Path] = [
            go.program,
            "build",
            *cache.BUILD_FLAGS,
            "-tags",
            ",".join(tool.tags),
            "-ldflags",
            tool.link_flags,
            "-o",
            made,
            tool.package,
        ]
        run_long(argv, what=f"building {title}", progress=progress, cwd=tool.family.folder, env=cache.BUILD_ENVIRONMENT)
        if not made.is_file():
            raise ToolUnavailable(f"building {title} ended well but made no program; is {go.program} a Go?")
        made.rename(target)
    progress(f"Built {title} in {duration(time.monotonic() - start)}")
    return target
