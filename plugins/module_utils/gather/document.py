# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A document of an archive before it is redacted: what it is, why it is there, and from which objects it was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Document:
    """One file of an archive. A text is a log; any other value is written as JSON."""

    path: str
    what: str
    why: str
    source: tuple[str, ...]
    content: Any


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that could not be read, and the reason. ``cluster``: inventory name; "" where it is about no single one."""

    what: str
    reason: str
    cluster: str = ""
