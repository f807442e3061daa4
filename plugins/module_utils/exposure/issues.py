# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Issue of an item in one cluster, before its severity is known."""

from __future__ import annotations

from dataclasses import dataclass

from ..findings.finding import Finding, Severity
from ..findings.wording import finding, lines
from ..mesh.binding.item_kinds import ItemRef


@dataclass(frozen=True, kw_only=True)
class ExposureIssue:
    """Issue of an item. ``reason`` is CamelCase, for conditions; the texts are those of a finding."""

    code: str
    reason: str
    summary: str
    evidence: str = ""
    fix: str = ""

    def about(self, ref: ItemRef, *hosts: str, severity: Severity | None = None) -> Finding:
        """Return the issue as a finding."""
        return finding(
            self.code,
            severity=severity,
            cluster=hosts[0] if hosts else "",
            others=hosts[1:],
            item=str(ref),
            summary=self.summary,
            evidence=self.evidence,
            fix=lines(*self.fix.split("\n")),
        )
