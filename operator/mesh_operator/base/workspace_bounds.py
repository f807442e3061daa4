# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Bounds of one workspace, as numbers. What is beyond them is decided in bounds.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class WorkspaceBounds:
    """What one workspace may have at most."""

    objects: int = 5_000  # of all kinds
    bytes: int = 32 * 1024 * 1024  # of all objects, as JSON without what is not needed
    bindings: int = 500
    fabrics: int = 100
    clusters: int = 500  # KubernetesClusters
    items: int = 2_000  # of one mesh


DEFAULT: Final = WorkspaceBounds()
