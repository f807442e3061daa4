# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a run came to, as data, and the sentences that sum it up. See docs/results.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..module_utils.columns import count
from ..module_utils.errors import MeshError
from ..module_utils.facts import ObserveFailure
from ..module_utils.findings import Finding, Severity

__all__ = [
    "NOT_MEASURED",
    "REQUEUE_SECONDS",
    "WRITTEN_NOT_MEASURED",
    "Outcome",
    "after_disconnect",
    "count",
    "failure_findings",
    "finding_of",
    "refusal",
]

REQUEUE_SECONDS: Final[Mapping[str, int]] = {"Connected": 300, "Connecting": 15, "Pending": 30, "Degraded": 60, "Error": 60}
"""When to look again, by phase. 300 s is the mesh check interval of the kcp provider that this collection takes over from."""

WRITTEN_NOT_MEASURED: Final = 15
NOT_MEASURED: Final = 60


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Everything that an action found out. ``error`` is one sentence; a run with an error has failed."""

    changed: bool = False
    findings: tuple[Finding, ...] = ()
    plan: Mapping[str, Any] | None = None  # Plan.to_dict()
    status: Mapping[str, Any] | None = None  # status.binding; None: not measured
    clusters: tuple[str, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)  # API requests by cluster
    error: str = ""
    diff: tuple[Mapping[str, Any], ...] = ()  # in the form of Ansible's callbacks
    extra: Mapping[str, Any] = field(default_factory=dict)  # further keys of the action's own result

    def to_result(self) -> dict[str, Any]:
        """The result of the action. What the playbooks publish as ``mesh_result`` is made of it (module_utils/run_result.py)."""
        result: dict[str, Any] = {
            "changed": self.changed,
            "findings": [finding.to_dict() for finding in self.findings],
            "plan": {"hash": "", "steps": [], **(self.plan or {})},
            "status": self.status,
            "mesh": list(self.clusters),
            "requests": dict(self.requests),
            "requeue_seconds": self.requeue_seconds,
            **self.extra,
        }
        if self.diff:
            result["diff"] = [dict(entry) for entry in self.diff]
        if self.error:
            result.update(failed=True, msg=self.error)
        return result

    @property
    def requeue_seconds(self) -> int:
        otherwise = WRITTEN_NOT_MEASURED if self.changed and not self.error else NOT_MEASURED
        return REQUEUE_SECONDS.get(str((self.status or {}).get("phase", "")), otherwise)


def finding_of(error: MeshError) -> Finding:
    """An error of the engine as a finding, so that every consumer reads one list."""
    return Finding(code=error.code, severity=Severity.BLOCKING, cluster=error.cluster, summary=error.message, fix=error.remedy)


def failure_findings(failures: Iterable[ObserveFailure], severity: Severity, consequence: str = "") -> tuple[Finding, ...]:
    """Clusters that did not answer, as findings. ``consequence`` says what that means for the run."""
    return tuple(
        Finding(code=f.code, severity=severity, cluster=f.host, summary=f.message, evidence=consequence, fix=f.remedy) for f in failures
    )


def after_disconnect(silent: Sequence[str]) -> dict[str, Any] | None:
    """``status.binding`` of a mesh that is no more: None, or Degraded while ``silent`` clusters still hold what was written for it."""
    if not silent:
        return None
    message = f"Not reached, and left as they are: {', '.join(silent)}"
    condition = {"type": "Degraded", "status": "True", "reason": "ClustersUnreachable", "message": message}
    return {"phase": "Degraded", "meshStatus": [], "links": [], "conditions": [condition]}


def refusal(findings: Iterable[Finding], consequence: str) -> str:
    """``2 blocking findings (CM-CIDR-01, CM-ID-05); nothing was written anywhere.`` or "" when nothing blocks."""
    blocking = [finding for finding in findings if finding.blocks]
    if not blocking:
        return ""
    codes = ", ".join(sorted({finding.code for finding in blocking}))
    return f"{count(len(blocking), 'blocking finding')} ({codes}); {consequence}"
