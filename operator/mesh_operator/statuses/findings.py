# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings of a run or a dry run in the statuses of the objects that they are about, and the condition that sums them up. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.kinds import BY_KIND
from ..source.resources import ref_of
from ..source.stored import Stored

MOST: Final = 20  # findings of one object; blocking ones come first (findings/finding.py, ordered)
_SEVERITIES: Final = [severity.value for severity in Severity]
_LINES: Final = 8  # of a fix
_TEXT: Final = 512  # characters of the texts of a finding
LEFT_OUT: Final = "findingsLeftOut"  # key of a result: how many findings of no item it had beside those that are in it

Finding = Mapping[str, Any]


def findings_of(stored: Stored, result: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of a result that are about one object: about an item, or for a binding about no item."""
    about = ref_of(stored) if BY_KIND[stored.key.kind].listed else ""
    rows = rows_of(result, "advice") or rows_of(result, "findings")
    return [row for row in rows if str(row.get("item") or "") == about]


def rows_for_status(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings as ``status.findings`` has them: code, severity, cluster, peer, summary, fix (lines), page, accepted."""
    return [_row(row) for row in found[:MOST]]


def is_row_of_status(row: Any) -> bool:
    """Return whether a value is a finding as ``rows_for_status`` returns it, as far as Events quote it."""
    if not isinstance(row, Mapping) or not isinstance(row.get("code"), str) or row.get("severity") not in _SEVERITIES:
        return False
    texts = [row.get(key, "") for key in ("code", "cluster", "peer", "summary")]
    return all(isinstance(text, str) and len(text) <= _TEXT for text in texts)


def _row(row: Finding) -> dict[str, Any]:
    severity = row.get("severity")
    named = {"code": one_line(row.get("code"), _TEXT) or "Unknown", "severity": severity if severity in _SEVERITIES else "advisory"}
    texts = named | {key: one_line(row[key], _TEXT) for key in ("cluster", "peer", "summary") if row.get(key)}
    fix = [one_line(line, _TEXT) for line in str(row.get("fix") or "").splitlines() if line.strip()][:_LINES]
    rest = {"fix": fix, "page": one_line(row.get("anchor"), _TEXT), "accepted": bool(row.get("accepted"))}
    return texts | {key: value for key, value in rest.items() if value}


def advised_condition(found: Sequence[Finding], left_out: int = 0) -> dict[str, Any]:
    """Return the condition Advised: whether there are findings that do not block and are not accepted.

    :param left_out: findings beside these.
    """
    codes = list(dict.fromkeys(str(row.get("code")) for row in found if row.get("severity") != "blocking" and not row.get("accepted")))
    every = len(found) + left_out
    first = f", which has the first {MOST} of {every}" if every > MOST else ""
    message = one_line(f"{', '.join(codes[:MOST])}: see status.findings{first}", 2 * _TEXT) if codes else ""
    return condition("Advised", bool(codes), "FindingsReported" if codes else "NoFindings", message)
