# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of the findings about whom an intent isolates. Apart, so that the register of all codes can import them alone."""

from __future__ import annotations

from typing import Final

NEWLY_ISOLATED: Final = "CM-INT-30"
LOSE_ACCESS: Final = "CM-INT-31"
CANNOT_TELL: Final = "CM-INT-32"
STILL_DENIED: Final = "CM-INT-33"

ISOLATION_CODES: Final = (NEWLY_ISOLATED, LOSE_ACCESS, CANNOT_TELL, STILL_DENIED)
