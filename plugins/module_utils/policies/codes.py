# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of the findings about connectivity intents that planning makes. Apart, so that the register of all codes can import them alone."""

from __future__ import annotations

from typing import Final

VERSION: Final = "CM-INT-01"
DENY_ISOLATES: Final = "CM-INT-02"
NAMELESS: Final = "CM-INT-03"
NO_EFFECT: Final = "CM-INT-04"
ALWAYS: Final = "CM-INT-05"
SILENT_DESTINATION: Final = "CM-INT-06"
SILENT_SOURCE: Final = "CM-INT-07"
NO_NAMESPACE: Final = "CM-INT-08"
NO_DESTINATION: Final = "CM-INT-09"
NO_SOURCE: Final = "CM-INT-10"
NOT_IN_IDENTITY: Final = "CM-INT-11"
ICMP_OFF: Final = "CM-INT-12"
SCTP_OFF: Final = "CM-INT-13"
NOT_EXPORTED: Final = "CM-INT-14"
INVALID: Final = "CM-INT-15"
NOT_LINKED: Final = "CM-INT-16"
LINK_DOWN: Final = "CM-INT-17"
CUTS_MESH: Final = "CM-INT-18"

INTENT_CODES: Final = (
    VERSION,
    DENY_ISOLATES,
    NAMELESS,
    NO_EFFECT,
    ALWAYS,
    SILENT_DESTINATION,
    SILENT_SOURCE,
    NO_NAMESPACE,
    NO_DESTINATION,
    NO_SOURCE,
    NOT_IN_IDENTITY,
    ICMP_OFF,
    SCTP_OFF,
    NOT_EXPORTED,
    INVALID,
    NOT_LINKED,
    LINK_DOWN,
    CUTS_MESH,
)
