# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pairs of clusters between which an intent is probed, and the result of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ..base.redact import one_line
from ..items.models import ConnectivityIntent, PodSelection
from ..items.scene import CONNECTED_PHASES, Scene
from ..policies.compile import clusters_of
from .outcome import EVIDENCE_LINES, PROVEN, REFUTES, UNDECIDED, Reachability
from .pods import pods_of
from .verdict import Judgement

_FLOWS_SHOWN = 2  # of each pair
_MESSAGE = 400  # characters


@dataclass
class Case:
    """One pair of clusters while it is probed. ``source`` is "" for Isolate."""

    source: str  # inventory names
    destination: str
    judgement: Judgement = field(default_factory=Judgement)
    method: str = "none"
    lines: list[str] = field(default_factory=list)  # evidence that is no flow
    notes: list[str] = field(default_factory=list)  # why nothing better is known

    @property
    def open(self) -> bool:
        """Whether the pair is undecided."""
        return self.judgement.result == UNDECIDED

    @property
    def shown(self) -> str:
        """The pair as text."""
        return f"{self.source or 'anywhere'} -> {self.destination}"

    def judged(self, judgement: Judgement, method: str) -> None:
        """Accept a judgement, unless it says less than the present one."""
        self.method = method
        if judgement.result != UNDECIDED or judgement.why or not self.judgement.why:
            self.judgement = judgement

    def why(self) -> str:
        """Return the reason of the judgement, with the notes while it is undecided."""
        known = [self.judgement.why] if self.judgement.why else []
        said = known if not self.open else [*known, *dict.fromkeys(self.notes)]
        return ", ".join(said) or "no evidence was found"


def cases_of(intent: ConnectivityIntent, scene: Scene) -> tuple[list[Case], str]:
    """Return (every pair that has or may have pods on both sides, why there is none or "").

    Pairs with a member that does not answer are included: nothing is known of it, and an unknown is not proven.
    """
    sources = ("",) if intent.source is None else clusters_of(intent.source, scene.mesh.clusters)
    destinations = clusters_of(intent.destination, scene.mesh.clusters)
    empty = {host for host in destinations if _without_pods(intent.destination, scene, host)}
    senders = {host for host in sources if intent.source is not None and not _without_pods(intent.source, scene, host)}
    cases = [Case(source=s, destination=d) for s in sources if not s or s in senders for d in destinations if d not in empty]
    if cases:
        return cases, ""
    side = "destination" if len(empty) == len(destinations) else "source"
    return [], f"the {side} selects no pod"


def link_ready(scene: Scene, source: str, destination: str) -> bool:
    """Return whether this run found the link between the two to work. Within a cluster there is none to fail."""
    if source == destination:
        return True
    bad = {(source, destination), (destination, source)} & set(scene.link_errors)
    return scene.phase in CONNECTED_PHASES and not bad and not {source, destination} & scene.dead


def combine_cases(cases: Sequence[Case], time: datetime, *, code: str = "") -> Reachability:
    """Return the result of all pairs: refuted if one pair is, proven only if every pair is."""
    results = [case.judgement.result for case in cases]
    result = REFUTES if REFUTES in results else PROVEN if results and set(results) == {PROVEN} else UNDECIDED
    first = sorted(cases, key=lambda case: case.judgement.result != result)
    message = "; ".join(f"{case.shown}: {case.why()}" for case in first)
    methods = {case.method for case in first if case.judgement.result == result} or {"none"}
    method = next((name for name in ("job", "hubble") if name in methods), "none")
    return Reachability(
        result=result,
        time=time,
        method=method,
        message=one_line(message, _MESSAGE),
        evidence=tuple(_evidence(first))[:EVIDENCE_LINES],
        code=code,
    )


def unknown_result(message: str, time: datetime | None, *, code: str = "") -> Reachability:
    """Return an undecided result."""
    return Reachability(result=UNDECIDED, time=time, message=one_line(message, _MESSAGE), code=code)


def _evidence(cases: Iterable[Case]) -> Iterable[str]:
    for case in cases:
        newest = sorted(case.judgement.flows, key=lambda flow: flow.time, reverse=True)
        yield from (one_line(flow.shown, 300) for flow in newest[:_FLOWS_SHOWN])
        if len(newest) > _FLOWS_SHOWN:
            yield f"{case.shown}: {len(newest) - _FLOWS_SHOWN} more pairs of pods and port alike"
        yield from (one_line(line, 300) for line in case.lines)


def _without_pods(selection: PodSelection, scene: Scene, host: str) -> bool:
    """Return whether the cluster is known to have no selected pod."""
    return host in scene.hosts and pods_of(selection, scene.traffic[host]) == ()
