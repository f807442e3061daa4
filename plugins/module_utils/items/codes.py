# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of findings that any kind of item can have."""

from __future__ import annotations

from typing import Final

from .owned import DRIFTED, FOREIGN

SPEC_INVALID: Final = "CM-ITEM-01"  # the spec cannot be meant
WAITS: Final = "CM-ITEM-03"  # the binding is not connected
LEFT_BEHIND: Final = "CM-ITEM-20"  # the links go, and what items made stays (playbooks/disconnect.yml)

ITEM_CODES: Final = (SPEC_INVALID, FOREIGN, WAITS, DRIFTED, LEFT_BEHIND)
