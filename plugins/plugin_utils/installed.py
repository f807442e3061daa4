# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Versions of the collection and of what it runs on, as they are installed on the controller."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from ..module_utils.base.errors import InvalidInput
from .files import read_json

ROOT: Final = Path(__file__).resolve().parents[2]
LIBRARIES: Final = ("kubernetes", "cryptography", "urllib3", "websocket-client", "PyYAML")
"""The requirements of the collection (plugins/doc_fragments/_mesh.py)."""
UNKNOWN: Final = "unknown"


def collection_version() -> str:
    """Return the version of the collection: of an installed one from MANIFEST.json, of a checkout from galaxy.yml."""
    return next(filter(None, _versions(ROOT)), UNKNOWN)


def installed_versions(core: str) -> dict[str, str]:
    """Return the versions by name; ``core`` is that of ansible-core."""
    found = {"edge_portal.cilium_mesh": collection_version(), "ansible-core": core, "python": platform.python_version()}
    return {**found, "platform": platform.platform(terse=True), **{name: _library(name) for name in LIBRARIES}}


def _versions(root: Path) -> Iterator[str]:
    try:
        info = read_json(str(root / "MANIFEST.json"))
        yield str(info["collection_info"]["version"])
    except (InvalidInput, KeyError, TypeError):
        pass
    try:
        found = re.search(r"(?m)^version:\s*[\"']?([\w.+-]+)", (root / "galaxy.yml").read_text(encoding="utf-8"))
        yield found[1] if found else ""
    except OSError:
        pass


def _library(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
