# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The machine's shell for the pods of agents, whose image has one too, with the libraries that it is linked with."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

_LIBRARY = re.compile(r"(?:=>\s+|^\s*)(/\S+)\s+\(0x[0-9a-f]+\)$", re.MULTILINE)


@functools.cache
def shell() -> dict[str, Path]:
    """Path in the pod to file on this machine: ``/usr/bin/sh``, and what the dynamic linker needs for it."""
    found = Path("/bin/sh").resolve()
    listed = subprocess.run(["ldd", str(found)], capture_output=True, text=True, check=False).stdout  # a static one has none
    return {"/usr/bin/sh": found} | {path: Path(path).resolve() for path in _LIBRARY.findall(listed)}
