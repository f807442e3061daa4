# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator. Its version is the collection's version."""

from __future__ import annotations

__version__ = "0.1.0"
