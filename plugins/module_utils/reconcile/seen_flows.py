# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings of a plan with the traffic that it cuts, which is read only for intents that isolate pods or take access away.

The plan and its hash stay as they are: who speaks at this moment is no reason to approve a plan once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from ..base.tally import Tally, no_progress
from ..findings.catalogue import IMPACT_CODES
from ..findings.finding import Severity, ordered
from ..items.planned import ItemPlan, ItemVerdict
from ..items.scene import Scene
from ..policies.impact_findings import IntentImpact, impact_findings
from ..policies.plan import IntentDetail
from ..probe.evidence import Evidence
from ..probe.seen_flows import read_seen_flows
from .plan import ItemsPlan


def with_seen_flows(
    decided: ItemsPlan,
    scene: Scene,
    evidence: Evidence,
    *,
    now: datetime,
    parallel: int,
    progress: Callable[[Tally], None] = no_progress,
) -> ItemsPlan:
    """Return ``decided`` with findings that know who speaks to the pods which its intents isolate. Reads from agents.

    :param progress: as ``read_seen_flows`` has it.
    """
    impacts = {plan.ref: impact for plan in decided.of(ItemVerdict.ACCEPTED) if (impact := _impact(plan)) and impact.cutting}
    hosts = dict.fromkeys(host for impact in impacts.values() for host in impact.cutting)
    wanted = {host: [impact.intent.destination for impact in impacts.values() if host in impact.cutting] for host in hosts}
    seen = read_seen_flows(wanted, scene, evidence, now=now, parallel=parallel, progress=progress)
    found = {ref: impact_findings(impact, seen) for ref, impact in impacts.items()}
    gone = {(str(ref), code) for ref in found for code in IMPACT_CODES}
    kept = [entry for entry in decided.findings if (entry.item, entry.code) not in gone]
    return replace(decided, findings=ordered((*kept, *(entry for entries in found.values() for entry in entries))))


def outages(decided: ItemsPlan) -> list[str]:
    """Return the items that are carried out and have a finding of severity outage."""
    items = {entry.item for entry in decided.findings if entry.severity is Severity.OUTAGE}
    return [str(plan.ref) for plan in decided.of(ItemVerdict.ACCEPTED) if str(plan.ref) in items]


def _impact(plan: ItemPlan) -> IntentImpact | None:
    return plan.detail.impact if isinstance(plan.detail, IntentDetail) else None
