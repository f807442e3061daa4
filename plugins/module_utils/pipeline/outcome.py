# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Outcome of a run as data, its error as one sentence, and the recorder that keeps it when an error ends the run. See docs/results.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from ..base.errors import MeshError
from ..base.tables import count
from ..findings.finding import Finding, Severity
from ..findings.wording import failure_finding
from ..mesh.binding.fleet_kinds import PROGRESSING, FleetKind
from ..mesh.facts.cluster import ObserveFailure

REQUEUE_SECONDS: Final[Mapping[str, int]] = {
    "Connected": 300,
    "Connecting": 15,
    "Pending": 30,
    "Degraded": 60,
    "Error": 60,
    FleetKind.WORKLOAD.good: 300,
    PROGRESSING: 5,
}
"""Seconds until the next run, by phase. 300 s is the mesh check interval of the kcp provider that this collection takes over from."""

WRITTEN_NOT_MEASURED: Final = 15
NOT_MEASURED: Final = 60


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Everything that a run found out and did. ``error`` is one sentence; a run with an error, or with ``unmet``, has failed."""

    changed: bool = False
    findings: tuple[Finding, ...] = ()
    plan: Mapping[str, Any] | None = None  # Plan.to_dict()
    status: Mapping[str, Any] | None = None  # status.binding; None: not measured
    binding_status: Mapping[str, Any] | None = None  # of a run for items: status.binding, if this run measured it
    clusters: tuple[str, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)  # API requests by cluster
    error: str = ""
    unmet: str = ""  # one sentence: the run did all it could, and yet not all that was asked for
    diff: tuple[Mapping[str, Any], ...] = ()  # in the form of Ansible's callbacks
    withheld: tuple[Mapping[str, str], ...] = ()  # as Observation.withheld has it
    extra: Mapping[str, Any] = field(default_factory=dict)  # further keys of the action's own result

    def to_result(self) -> dict[str, Any]:
        """Return the result of the action, from which the playbooks make ``mesh_result`` (module_utils/report/mesh_result.py)."""
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
        if self.binding_status is not None:
            result["binding_status"] = dict(self.binding_status)
        if self.withheld:
            result["withheld"] = [dict(entry) for entry in self.withheld]
        if self.diff:
            result["diff"] = [dict(entry) for entry in self.diff]
        if self.error or self.unmet:
            result.update(failed=True, msg=" ".join(filter(None, (self.error, self.unmet))))
        if self.unmet and not self.error:
            result["incomplete"] = True
        return result

    @property
    def requeue_seconds(self) -> int:
        """Seconds until the next run should begin."""
        otherwise = WRITTEN_NOT_MEASURED if self.changed and not self.error else NOT_MEASURED
        return REQUEUE_SECONDS.get(str((self.status or {}).get("phase", "")), otherwise)


class Interrupted(Exception):
    """The end of a run by ``error``. ``outcome`` is what the run had found and written by then."""

    def __init__(self, outcome: Outcome, error: Exception) -> None:
        super().__init__(str(error))
        self.outcome, self.error = outcome, error


class Recorder:
    """Keeper of the outcome while a run goes on. An error leaves its context as ``Interrupted``, with the outcome so far."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.outcome = outcome or Outcome()

    def note(self, **fields: Any) -> None:
        """Replace these fields of the outcome."""
        self.outcome = replace(self.outcome, **fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise Interrupted(self.outcome, error) from error


def finding_of(error: MeshError, severity: Severity | None = None, consequence: str = "") -> Finding:
    """Return an error of the engine as a finding, so that every consumer reads one list."""
    return failure_finding(
        error.code, message=error.message, remedy=error.remedy, cluster=error.cluster, severity=severity, consequence=consequence
    )


def failure_findings(failures: Iterable[ObserveFailure], severity: Severity, consequence: str = "") -> tuple[Finding, ...]:
    """Return a finding for each cluster that did not answer. ``consequence`` says what that means for the run."""
    return tuple(
        failure_finding(f.code, message=f.message, remedy=f.remedy, cluster=f.host, severity=severity, consequence=consequence)
        for f in failures
    )


def after_disconnect(silent: Sequence[str]) -> dict[str, Any] | None:
    """Return ``status.binding`` of a disconnected mesh: None, or Degraded while ``silent`` clusters still hold its objects."""
    if not silent:
        return None
    message = f"Not observed, and left as they are: {', '.join(silent)}"
    condition = {"type": "Degraded", "status": "True", "reason": "ClustersUnreachable", "message": message}
    return {"phase": "Degraded", "meshStatus": [], "links": [], "conditions": [condition]}


def changes_sentence(steps: int) -> str:
    """Return the sentence with which a check fails that found something to do, for a plan of this many steps; "" for an empty plan."""
    if not steps:
        return ""
    return f"There {'is' if steps == 1 else 'are'} {count(steps, 'change')} to make, and fail_on_changes is set. Nothing was written."


def refusal_sentence(findings: Iterable[Finding], consequence: str) -> str:
    """Return ``2 blocking findings (CM-CIDR-01, CM-ID-05); nothing was written anywhere.``, or "" when no finding blocks."""
    blocking = [finding for finding in findings if finding.blocks]
    if not blocking:
        return ""
    codes = ", ".join(sorted({finding.code for finding in blocking}))
    return f"{count(len(blocking), 'blocking finding')} ({codes}); {consequence}"
