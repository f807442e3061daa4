# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The result of verify as one JSON document for other tools."""

from __future__ import annotations

import json

from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.report.junit import JUnitReport

SCHEMA = 1


def document(report: JUnitReport, purpose: str, outcome: Outcome) -> bytes:
    """Return the document in UTF-8, indented, with keys in a fixed order.

    It has keys of the module's result, and those that identify the run: mesh, purpose, time, clusters.
    """
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
    # ASCII only: texts of tenants may hold characters that a terminal acts on.
    return json.dumps(found, indent=2, ensure_ascii=True).encode("ascii") + b"\n"
