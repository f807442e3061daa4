# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Result of a probe, as a value and as the intent's ``probeStatus``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..base.conditions import condition, timestamp
from ..base.json_fields import parse_time, text, texts
from ..base.redact import one_line
from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.item_kinds import ItemKind, ItemRef

LEFT_OUT: Final = "CM-REACH-03"
JOB_LEFT: Final = "CM-REACH-04"
"""Codes that a probe itself can have, beside its result."""

PROVEN: Final = "proven"
REFUTES: Final = "refuted"
UNDECIDED: Final = "unknown"

METHODS: Final = ("hubble", "job", "none")
EVIDENCE_LINES: Final = 8
_REASONS: Final = {PROVEN: "ProbeProven", REFUTES: "ProbeRefuted", UNDECIDED: "ProbeUnknown"}
_HOLDS: Final = {PROVEN: True, REFUTES: False, UNDECIDED: None}


@dataclass(frozen=True, kw_only=True)
class Reachability:
    """Result of a probe: whether the effect of an intent was proven. ``time`` is when it was probed, None if never."""

    result: str  # proven, refuted, unknown
    time: datetime | None = None  # aware, UTC
    method: str = "none"  # of METHODS: what decided, or was tried last
    message: str  # one sentence
    evidence: tuple[str, ...] = ()  # a line each
    kept: bool = False  # the answer of an earlier run
    code: str = ""  # a finding of its own beside the result: LEFT_OUT or JOB_LEFT

    def to_dict(self) -> dict[str, Any]:
        """Return ``probeStatus``.

        ``success`` is a boolean in the CRD, so it is absent while the result is unknown; it is true only for ``proven``.
        """
        found: dict[str, Any] = {"result": self.result, "method": self.method, "message": self.message, "evidence": list(self.evidence)}
        if self.time is not None:
            found["lastProbeTime"] = timestamp(self.time)
        holds = _HOLDS[self.result]
        return found if holds is None else {**found, "success": holds}

    def condition(self) -> dict[str, Any]:
        """Return the condition Reachable, without its time."""
        return condition("Reachable", _HOLDS[self.result], _REASONS[self.result], self.message)


def parse_probe_status(previous: Mapping[str, Any]) -> Reachability | None:
    """Parse a ``probeStatus`` of an earlier run; None when it is not valid. Other writers can change it, so it is checked."""
    time = parse_time(text(previous, "lastProbeTime"))
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
    """Return the findings about the probes, by intent name. A kept result is reported again until it is probed anew."""
    found = []
    for name, result in sorted(results.items()):
        if result.result == REFUTES:
            found.append(_finding("CM-REACH-01", name, result.message, result.evidence, _REFUTED_FIX))
        elif result.result == UNDECIDED and result.code != LEFT_OUT:
            found.append(_finding("CM-REACH-02", name, result.message, result.evidence, _UNKNOWN_FIX))
        if result.code == LEFT_OUT:
            found.append(_finding(LEFT_OUT, name, "the probe was left out of this run", (), _LEFT_OUT_FIX))
        elif result.code == JOB_LEFT:
            found.append(_finding(JOB_LEFT, name, _JOB_STAYS, result.evidence, _JOB_FIX))
    return found


_REFUTED_FIX: Final = "Read the evidence; other policies that select the same pods count as well."
_UNKNOWN_FIX: Final = "Send traffic that the intent covers, or set probe.image, so that a Job can try it."
_LEFT_OUT_FIX: Final = "Run again: intents that were not probed for the longest time come first."
_JOB_STAYS: Final = "the Job of the probe could not be deleted; Kubernetes deletes it a minute after its end"
_JOB_FIX: Final = "Grant delete on jobs.batch in the namespace of the Job (docs/rbac.md), or see why the API server does not answer."


def _finding(code: str, name: str, summary: str, evidence: Sequence[str], fix: str) -> Finding:
    ref = str(ItemRef(ItemKind.INTENT, name))
    return finding(code, item=ref, summary=summary.rstrip("."), evidence="; ".join(evidence), fix=fix)
