# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Operator for meshes as custom resources of kcp workspaces. Its version is the collection's version."""

from __future__ import annotations

__version__ = "0.1.0"
