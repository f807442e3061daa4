# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Codes of the findings about global services. Apart from the rest, so that the register of all codes can import them alone."""

from __future__ import annotations

from typing import Final

MISSING: Final = "CM-GS-01"  # a target has no such Service
NO_MATCH: Final = "CM-GS-02"  # no Service of any target has the labels
CLAIMED: Final = "CM-GS-03"  # another item or binding has the Service
CHANGED: Final = "CM-GS-04"  # somebody changed what was written
RECORD: Final = "CM-GS-05"  # the record of earlier values cannot be read
NOT_CONSUMED: Final = "CM-GS-06"  # a linked cluster has no such Service, so that nobody there can use it
NOT_GLOBAL: Final = "CM-GS-07"  # a linked cluster has the Service, and it is not global there
NAMESPACE_MISSING: Final = "CM-GS-08"
NAMESPACE_LOCAL: Final = "CM-GS-09"  # the namespace is not global (Cilium 1.20)
PORTS: Final = "CM-GS-10"  # a port has no partner of its name and protocol
HEADLESS: Final = "CM-GS-11"  # EndpointSlices of other clusters are needed and not written
KUBE_PROXY: Final = "CM-GS-12"  # kube-proxy is not replaced
EXTERNAL_NAME: Final = "CM-GS-13"
NO_SELECTOR: Final = "CM-GS-14"
NOBODY_SHARES: Final = "CM-GS-15"
NO_REMOTE: Final = "CM-GS-16"  # affinity Remote, and no remote backend
NO_ENDPOINTS: Final = "CM-GS-17"
MCS_UNAVAILABLE: Final = "CM-GS-18"
MCS_CONFLICT: Final = "CM-GS-19"  # Cilium says that an export is not valid, or conflicts with others
STUB_TAKEN: Final = "CM-GS-20"  # somebody made a stub his own
NO_ORIGINAL: Final = "CM-GS-21"  # nothing to make a stub from
OF_THE_SYSTEM: Final = "CM-GS-22"  # the Service is what the cluster or the mesh stands on

SERVICE_CODES: Final = tuple(f"CM-GS-{number:02}" for number in range(1, 23))
