# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Bounds of one workspace, and of the memory for all, as numbers. What is beyond them is decided in bounds.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class WorkspaceBounds:
    """What one workspace may have at most."""

    objects: int = 5_000  # of all kinds
    bytes: int = 64 * 1024 * 1024  # of memory for all its objects, as estimated (footprint.py)
    bindings: int = 500
    fabrics: int = 100
    clusters: int = 500  # KubernetesClusters
    items: int = 2_000  # of one mesh
    total_bytes: int = 192 * 1024 * 1024  # of memory for the objects of all workspaces together (memory_shares.py)


DEFAULT: Final = WorkspaceBounds()
