# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What verify found, as one JSON document for other tools."""

from __future__ import annotations

import json

from ..module_utils.junit import Report
from .outcome import Outcome

SCHEMA = 1


def document(report: Report, purpose: str, outcome: Outcome) -> bytes:
    """UTF-8, indented, keys in a fixed order. Its keys are those of the module's result, and what says which run it was."""
    found = {
        "schema": SCHEMA,
        "mesh": report.name,
        "purpose": purpose,
        "time": report.now.isoformat(timespec="seconds"),
        "clusters": list(report.clusters),
        "error": outcome.error,
        "findings": [finding.to_dict() for finding in outcome.findings],
        "eligibility": outcome.extra.get("eligibility", {}),
        "probes": outcome.extra.get("probes", []),
    }
    # ASCII alone: what a tenant wrote may hold characters that a terminal acts on.
    return json.dumps(found, indent=2, ensure_ascii=True).encode("ascii") + b"\n"
