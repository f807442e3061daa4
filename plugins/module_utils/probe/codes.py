# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of the findings about probes; each has a page in docs/runbooks."""

from __future__ import annotations

from typing import Final

REFUTED: Final = "CM-REACH-01"
UNKNOWN: Final = "CM-REACH-02"
LEFT_OUT: Final = "CM-REACH-03"
JOB_LEFT: Final = "CM-REACH-04"

REACH_CODES: Final = (REFUTED, UNKNOWN, LEFT_OUT, JOB_LEFT)
