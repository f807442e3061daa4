# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a probe came to, as a value and as the intent's ``probeStatus``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..findings import Finding, Severity
from ..items.conditions import condition, timestamp
from ..items.kinds import ItemKind, ItemRef
from ..observe.objects import text, texts, time_of
from ..redact import one_line
from .codes import JOB_LEFT, LEFT_OUT, REFUTED, UNKNOWN

PROVEN: Final = "proven"
REFUTES: Final = "refuted"
UNDECIDED: Final = "unknown"

METHODS: Final = ("hubble", "job", "none")
EVIDENCE_LINES: Final = 8
_REASONS: Final = {PROVEN: "ProbeProven", REFUTES: "ProbeRefuted", UNDECIDED: "ProbeUnknown"}
_HOLDS: Final = {PROVEN: True, REFUTES: False, UNDECIDED: None}


@dataclass(frozen=True, kw_only=True)
class Reachability:
    """Whether what an intent says was seen to be so. ``time`` is when it was looked at, None when it never was."""

    result: str  # proven, refuted, unknown
    time: datetime | None = None  # aware, UTC
    method: str = "none"  # of METHODS: what decided, or was tried last
    message: str  # one sentence
    evidence: tuple[str, ...] = ()  # a line each
    kept: bool = False  # the answer of an earlier run
    code: str = ""  # a finding of its own beside the result: LEFT_OUT or JOB_LEFT

    def to_dict(self) -> dict[str, Any]:
        """``probeStatus``. ``success`` is a boolean in the CRD, so it is absent while nothing is known; true is said of what is proven
        and of nothing else."""
        found: dict[str, Any] = {"result": self.result, "method": self.method, "message": self.message, "evidence": list(self.evidence)}
        if self.time is not None:
            found["lastProbeTime"] = timestamp(self.time)
        holds = _HOLDS[self.result]
        return found if holds is None else {**found, "success": holds}

    def condition(self) -> dict[str, Any]:
        """Condition Reachable, without its time."""
        return condition("Reachable", _HOLDS[self.result], _REASONS[self.result], self.message)


def earlier(previous: Mapping[str, Any]) -> Reachability | None:
    """A ``probeStatus`` of an earlier run; None when nothing in it can be used. It was stored where others write, so it is checked."""
    time = time_of(text(previous, "lastProbeTime"))
    result = text(previous, "result")
    if time is None or result not in _REASONS or (previous.get("success") is True) != (result == PROVEN):
        return None
    method = text(previous, "method")
    return Reachability(
        result=result,
        time=time,
        method=method if method in METHODS else "none",
        message=one_line(text(previous, "message")),
        evidence=tuple(one_line(line) for line in texts(previous, "evidence")[:EVIDENCE_LINES]),
        kept=True,
    )


def probe_findings(results: Mapping[str, Reachability]) -> list[Finding]:
    """What has to be told about the probes, by intent name. An answer that was kept is told again: it stands until it is looked at anew."""
    found = []
    for name, result in sorted(results.items()):
        if result.result == REFUTES:
            found.append(_finding(REFUTED, Severity.REMEDIABLE, name, result.message, result.evidence, _REFUTED_FIX))
        elif result.result == UNDECIDED and result.code != LEFT_OUT:
            found.append(_finding(UNKNOWN, Severity.ADVISORY, name, result.message, result.evidence, _UNKNOWN_FIX))
        if result.code == LEFT_OUT:
            found.append(_finding(LEFT_OUT, Severity.ADVISORY, name, "the probe was left out of this run", (), _LEFT_OUT_FIX))
        elif result.code == JOB_LEFT:
            found.append(
                _finding(JOB_LEFT, Severity.REMEDIABLE, name, "the Job of the probe could not be deleted", result.evidence, _JOB_FIX)
            )
    return found


_REFUTED_FIX: Final = "Look at the evidence; other policies that select the same pods count as well."
_UNKNOWN_FIX: Final = "Let traffic flow that the intent is about, or set probe.image so that a Job may try."
_LEFT_OUT_FIX: Final = "Run again: intents that were not looked at for the longest time come first."
_JOB_FIX: Final = "Grant delete on jobs.batch in that namespace. The Job goes by itself a minute after its end."


def _finding(code: str, severity: Severity, name: str, summary: str, evidence: Sequence[str], fix: str) -> Finding:
    ref = str(ItemRef(ItemKind.INTENT, name))
    return Finding(code=code, severity=severity, item=ref, summary=summary.rstrip("."), evidence="; ".join(evidence), fix=fix)
