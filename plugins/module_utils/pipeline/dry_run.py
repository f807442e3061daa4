# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The dry run of the operator: it observes, checks and plans without Ansible, as the first half of a playbook does, and writes nothing.

A playbook takes a second before its first request (ansible-core starts, forks, templates), so the operator runs one only for a mesh that
needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.errors import MeshError
from ..items.desired import Desired
from ..items.keeping import KEPT
from ..mesh.binding.parse import parse
from ..observe import Observation
from ..reconcile.parse import desired_of
from ..reconcile.status import Course, item_rows, requeue_seconds
from ..status.links import earlier_binding
from ..status.node_paths import node_findings
from .connect import ConnectDecision, decide
from .items import decide_items, observe_scenes
from .options import ConnectOptions, ItemsOptions
from .outcome import REQUEUE_SECONDS
from .participants import Participants
from .ports import real_ports
from .probes import intents_to_probe, probes_due
from .run import Run, measure

ADVICE: Final = 2_000  # findings in a result; those of a mesh that block come first
UNASSIGNED: Final = frozenset({"CM-ID-01", "CM-ID-03", "CM-LEASE-15"})
"""Codes of the findings about members without a name or an id, and about an assignment that is not finished."""

AT_ONCE: Final = 4
"""Clusters that are contacted at a time; few, as several dry runs run side by side."""


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """Result of a dry run: how much a playbook would do, and the statuses as they are now."""

    steps: int  # writes and probes that a playbook would make
    linked: bool  # the links need none of the writes, and no finding blocks them
    kept: frozenset[str] = frozenset()  # items whose objects no playbook would prune now, because their replacement may be missing
    result: Mapping[str, Any]  # in the shape of mesh_result, with the keys from which statuses are made


def dry_run(raw: Mapping[str, Any], who: Participants, previous: Mapping[str, Any], *, assigns: bool = False) -> DryRun | None:
    """Observe and plan one binding without writing.

    Returns None when a playbook has to run: the input is not valid, a cluster that is no member takes part and has to be disconnected, or
    a member has no cluster name and id and gets them.
    Errors of clusters are in the result and do not raise.

    :param raw: the variable ``cilium_mesh``.
    :param previous: ``mesh_result.status`` of an earlier run.
    :param assigns: the playbook assigns names and ids to clusters that were never meshed.
    """
    ports = real_ports()
    try:
        mesh = parse(raw, who.hosts)
        if any(host not in mesh.clusters for host in who.hosts):
            return None
        run = Run(mesh=mesh, who=who, ports=ports, now=ports.now(), check_mode=True)
        desired = desired_of(raw, mesh)
        with run.observe(AT_ONCE) as observation:
            links = ConnectOptions(parallel=AT_ONCE, previous_status=previous)
            decision = decide(run, links, None, observation)
            if assigns and any(finding.code in UNASSIGNED and finding.blocks for finding in decision.findings):
                return None
            return _plan_and_measure(run, links, decision, desired, observation, previous)
    except MeshError:
        return None


def _plan_and_measure(
    run: Run, links: ConnectOptions, decision: ConnectDecision, desired: Desired, observation: Observation, previous: Mapping[str, Any]
) -> DryRun:
    items = ItemsOptions(parallel=AT_ONCE, previous_status=previous)
    status = measure(
        run.ports,
        run.mesh,
        observation,
        links.proof,
        generation=run.mesh.binding.generation or None,
        findings=decision.findings,
        previous=earlier_binding(previous),
    )
    # Items of a blocked mesh wait, as in a run (mesh.py).
    items_status = status if decision.plan else {"phase": "Error"}
    scene, former = observe_scenes(run, items, desired, items_status, observation)
    decided = decide_items(items, desired, scene, former)
    rows = item_rows(desired, decided, scene, Course(), now=run.ports.now(), previous=previous)
    intents = {intent.name: intent.generation for intent in intents_to_probe(desired, decided)}
    # Only playbooks probe, so the rows of probed intents would lack their result here.
    rows["connectivityIntents"] = [row for row in rows["connectivityIntents"] if row["name"] not in intents]
    requeue = min(REQUEUE_SECONDS.get(status["phase"], 60), requeue_seconds(desired, rows))
    written = len(decision.plan.steps) if decision.plan else 0
    steps = written + len(decided.plan.steps) + probes_due(intents, previous, requeue, run.now)
    linked = decision.plan is not None and not written and not decision.excluded
    kept = frozenset(finding.item for finding in decided.findings if finding.code == KEPT)
    withheld = {"withheld": observation.withheld} if observation.withheld else {}
    # Not as ``findings``: those of a mesh_result are about what stopped a run.
    advice = [finding.to_dict() for finding in (*decision.findings, *node_findings(status, observation.facts), *decided.findings)[:ADVICE]]
    result = {"status": {"binding": status, **rows}, "findings": [], "advice": advice, "requeueSeconds": requeue, **withheld}
    return DryRun(steps=steps, linked=linked, kept=kept, result=result)
