# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Probes of a run: those that are due, in parallel, within limits. Called after the writes, never in check mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ..base.awaited import awaited
from ..base.tally import Tally, no_progress
from ..items.models import ConnectivityIntent
from ..items.scene import Scene
from .evidence import Evidence
from .intent_probe import IntentProbe, ProbeContext
from .job_probe import try_job
from .limits import Limits
from .outcome import LEFT_OUT, Reachability, parse_probe_status
from .pairs import cases_of, combine_cases, unknown_result


def run_probes(
    intents: Sequence[ConnectivityIntent],
    scene: Scene,
    evidence: Evidence,
    *,
    now: datetime,
    previous: Mapping[str, Mapping[str, Any]] | None = None,
    changed: Collection[str] = (),
    image: str = "",
    parallel: int = 4,
    limits: Limits | None = None,
    progress: Callable[[Tally], None] = no_progress,
) -> dict[str, Reachability]:
    """Return the results by intent name, of intents whose probe is enabled. A ClusterError makes a result unknown.

    :param scene: the scene after the writes.
    :param previous: ``probeStatus`` of earlier runs by intent name. Within ``intervalSeconds`` it is kept.
    :param changed: names of intents for which this run wrote; an earlier result about them does not count.
    :param image: of the Job where the intent names none; "" allows no Job there.
    :param progress: called in this thread with the probes that are over, about twice a second and at the end.
    """
    limits = limits or Limits()
    wanted = [intent for intent in intents if intent.probe.enabled]
    kept = {intent.name: parse_probe_status((previous or {}).get(intent.name, {})) for intent in wanted if intent.name not in changed}
    due = [intent for intent in wanted if not _fresh(intent, kept.get(intent.name), now)]
    due.sort(key=lambda intent: (_asked(kept.get(intent.name)), intent.name))
    chosen, rest = due[: limits.intents], due[limits.intents :]
    ends = evidence.clocks.clock() + limits.total
    context = ProbeContext(scene=scene, evidence=evidence, limits=limits, image=image, now=now, ends=ends)
    found = {name: before for name, before in kept.items() if before is not None}
    for intent in rest:
        found[intent.name] = _left_out(kept.get(intent.name), f"{limits.intents} intents are probed in one run")
    if chosen:
        with ThreadPoolExecutor(max(1, parallel)) as pool:
            list(pool.map(lambda host: evidence.sweep(host, scene.binding, limits), _job_hosts(chosen, scene, evidence.hosts, image)))
            probes = [pool.submit(_one, intent, context, kept.get(intent.name)) for intent in chosen]
            results = awaited(probes, lambda: progress(Tally(sum(map(Future.done, probes)), len(probes), context.oldest())))
            found.update(zip((intent.name for intent in chosen), results, strict=True))
    return {intent.name: found[intent.name] for intent in wanted}


def _one(intent: ConnectivityIntent, context: ProbeContext, before: Reachability | None) -> Reachability:
    """Probe one intent: flows first, then one Job, then the flows that the Job caused."""
    if context.evidence.clocks.clock() >= context.ends:
        return _left_out(before, f"the probes of one run take {context.limits.total:g} s")
    cases, why = cases_of(intent, context.scene)
    if not cases:
        return unknown_result(why, context.now)
    probing = IntentProbe(intent, context)
    try:
        probing.is_at("reads its pods")
        usable = [case for case in cases if probing.usable(case)]
        if intent.probe.method != "job":
            probing.judge_by_flows(usable, again=False)
        if any(case.open for case in usable):
            try_job(probing, usable)
        return combine_cases(cases, context.now, code=probing.code)
    finally:
        context.under_way.pop(intent.name, None)


def _fresh(intent: ConnectivityIntent, before: Reachability | None, now: datetime) -> bool:
    """Return whether the earlier result is recent enough. One from the future does not count: a clock was wrong."""
    if before is None or before.time is None:
        return False
    return timedelta(0) <= now - before.time < timedelta(seconds=intent.probe.interval_seconds)


def _asked(before: Reachability | None) -> str:
    """Return the time of the earlier result for sorting: intents without one come first, then the oldest."""
    return before.time.isoformat() if before and before.time else ""


def _left_out(before: Reachability | None, limit: str) -> Reachability:
    if before is not None:
        return replace(before, code=LEFT_OUT)
    return unknown_result(f"not probed in this run: no more than {limit}; it comes first in the next", None, code=LEFT_OUT)


def _job_hosts(intents: Sequence[ConnectivityIntent], scene: Scene, answering: Collection[str], image: str) -> list[str]:
    """Return the clusters where a Job may be made, and so may be left from an earlier run."""
    sides = [i.source for i in intents if i.source and i.probe.method != "hubble" and (i.probe.image or image)]
    return [host for host in scene.hosts if host in answering and any(not side.clusters or host in side.clusters for side in sides)]
