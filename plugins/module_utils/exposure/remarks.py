# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is to be said of an item in one cluster, before it is known how much it weighs."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks.wording import lines, printable
from ..findings import Finding, Severity
from ..items.kinds import ItemRef


@dataclass(frozen=True, kw_only=True)
class Remark:
    """``reason`` is CamelCase, for conditions; the texts are those of a finding."""

    code: str
    reason: str
    summary: str
    evidence: str = ""
    fix: str = ""

    def finding(self, ref: ItemRef, severity: Severity, *hosts: str) -> Finding:
        return Finding(
            code=self.code,
            severity=severity,
            cluster=hosts[0] if hosts else "",
            others=tuple(hosts[1:]),
            item=str(ref),
            summary=printable(self.summary),
            evidence=printable(self.evidence),
            fix=lines(*self.fix.split("\n")),
        )
