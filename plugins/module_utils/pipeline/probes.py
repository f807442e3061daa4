# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Probes of a run: which intents are probed, with which result, and which are due again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from ..findings.finding import Finding
from ..items.desired import Desired
from ..items.models import ConnectivityIntent
from ..items.planned import ItemVerdict
from ..items.scene import Scene
from ..observe import Observation
from ..probe.limits import Limits
from ..probe.outcome import Reachability, probe_findings
from ..probe.run import run_probes
from ..reconcile.plan import ItemsPlan
from ..reconcile.status import earlier_rows
from .item_ports import ItemPorts
from .options import ItemsOptions
from .progress import counted
from .run import Run

PROBES_AT_ONCE: Final = 4


def intents_to_probe(desired: Desired, decided: ItemsPlan) -> list[ConnectivityIntent]:
    """Return the intents whose probe is enabled and whose plan is accepted; only these are probed."""
    accepted = {plan.ref for plan in decided.of(ItemVerdict.ACCEPTED)}
    return [intent for intent in desired.each(ConnectivityIntent) if intent.probe.enabled and intent.ref in accepted]


def probe_intents(
    run: Run,
    reach: ItemPorts,
    options: ItemsOptions,
    desired: Desired,
    decided: ItemsPlan,
    scene: Scene,
    observation: Observation,
    *,
    failed: Collection[str],
    written: Collection[str],
) -> tuple[dict[str, Reachability], list[Finding]]:
    """Probe the intents that were written to all their clusters. Returns the reachability of each, by name, and the findings.

    :param failed: items of which a write failed.
    :param written: items for which something was written in this run.
    """
    wanted = [intent for intent in intents_to_probe(desired, decided) if str(intent.ref) not in failed]
    if not wanted:
        return {}, []
    refs = {intent.name: intent.ref for intent in wanted}
    rows = earlier_rows(options.previous_status)
    earlier = {name: rows.get(ref, {}).get("probeStatus") for name, ref in refs.items()}
    limits = Limits()
    found = run_probes(
        wanted,
        scene,
        reach.evidence(observation, run.ports),
        now=run.ports.now(),
        previous={name: status for name, status in earlier.items() if isinstance(status, Mapping)},
        changed={name for name, ref in refs.items() if str(ref) in written},
        image=options.probe_image,
        parallel=min(options.parallel, PROBES_AT_ONCE),
        limits=limits,
        progress=counted(run.ports, "probe", "done", limits.total),
    )
    return found, probe_findings(found)


def probes_due(generations: Mapping[str, int], previous: Mapping[str, Any], again: int, now: datetime) -> int:
    """Count the intents that were changed since their last probe, or not probed for ``again`` seconds.

    :param generations: generation of each intent that is probed, by name.
    :param previous: ``mesh_result.status`` of an earlier run.
    :param again: seconds; no longer than the probe interval of any intent.
    """
    rows = {str(row.get("name")): row for row in previous.get("connectivityIntents") or ()}
    return sum(_is_due(rows.get(name, {}), generation, again, now) for name, generation in generations.items())


def _is_due(row: Mapping[str, Any], generation: int, again: int, now: datetime) -> bool:
    last = str((row.get("probeStatus") or {}).get("lastProbeTime") or "")
    changed = generation not in (0, row.get("observedGeneration"))
    return changed or not last or (now - datetime.fromisoformat(last)).total_seconds() >= again
