# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of the findings about exposed services; each has a page in docs/runbooks."""

from __future__ import annotations

from typing import Final

SERVICE_MISSING: Final = "CM-EXPO-01"
SERVICE_UNFIT: Final = "CM-EXPO-02"
PORT_UNFIT: Final = "CM-EXPO-03"
RANGES_NOT_ENFORCEABLE: Final = "CM-EXPO-04"
CLASS_NOT_POSSIBLE: Final = "CM-EXPO-05"
HOSTNAME_TAKEN: Final = "CM-EXPO-06"
NO_SOURCE_RANGES: Final = "CM-EXPO-07"
RANGES_PARTLY_ENFORCED: Final = "CM-EXPO-08"
ADDRESS_PENDING: Final = "CM-EXPO-09"
NO_ENDPOINTS: Final = "CM-EXPO-10"
ON_STANDBY: Final = "CM-EXPO-11"
LEFT_BEHIND: Final = "CM-EXPO-12"
FAMILY_NOT_SERVED: Final = "CM-EXPO-13"

EXPOSURE_CODES: Final = (
    SERVICE_MISSING,
    SERVICE_UNFIT,
    PORT_UNFIT,
    RANGES_NOT_ENFORCEABLE,
    CLASS_NOT_POSSIBLE,
    HOSTNAME_TAKEN,
    NO_SOURCE_RANGES,
    RANGES_PARTLY_ENFORCED,
    ADDRESS_PENDING,
    NO_ENDPOINTS,
    ON_STANDBY,
    LEFT_BEHIND,
    FAMILY_NOT_SERVED,
)
