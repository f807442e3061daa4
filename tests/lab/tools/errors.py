# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The one error of this package."""

from __future__ import annotations


class ToolUnavailable(Exception):
    """A program or a set of CRDs cannot be had here. The text says why and what to do; a caller skips with it or stops."""
