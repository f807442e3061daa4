# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of the findings about a failover contract. Apart from failover.py, so that the register of all codes can import them alone."""

from __future__ import annotations

from typing import Final

FAILOVER_CODES: Final = ("CM-GS-30", "CM-GS-31", "CM-GS-32", "CM-GS-33", "CM-GS-34", "CM-GS-35", "CM-GS-36")
