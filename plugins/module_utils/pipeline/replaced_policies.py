# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that deletes policies of a provider that intents replace, under the lock of the mesh. With one in doubt it deletes none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from ..base.errors import InvalidInput
from ..findings.finding import ordered
from ..items.desired import Desired
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..plan.steps import Plan
from ..reach.planned_policies import scene_with_planned_policies
from ..reach.replaced_policies import PolicyRemoval, ReplacedPolicy, plan_removal, replaced_policies
from ..reconcile.plan import items_fingerprint
from ..reconcile.scene import as_if_connected
from ..reconcile.status import Course, item_rows
from .connect import carry_out
from .items import binding_status_of, decide_items, observe_scenes
from .options import ItemsOptions
from .outcome import Outcome, refusal_sentence
from .run import Run, announce, locked, observation_stands, observing
from .shown import FindingsMade

NOTHING_DELETED: Final = "no policy was deleted"


def delete_replaced_policies(run: Run, options: ItemsOptions, desired: Desired, entries: Any, managers: Iterable[str]) -> Outcome:
    """Delete the policies that the user names, if their intents are in force and nothing that is denied or isolated opens.

    In check mode the intents count as they would be written.

    :param entries: as ``replaced_policies`` has them.
    :param managers: field managers of the provider.
    :raises InvalidInput: when the entries are not valid; no request was sent.
    :raises Interrupted: when an error ended the run.
    """
    if ItemKind.INTENT not in desired.kinds:
        raise InvalidInput("mesh has no connectivityIntents that replace policies.", remedy=f"Add them; {NOTHING_DELETED}.")
    intents = [ref.name for ref in desired.order if ref.kind is ItemKind.INTENT]
    named = replaced_policies(entries, run.mesh.clusters, intents)
    known = frozenset(managers)
    return locked(run, options, "delete replaced policies", lambda locking: _judge_and_delete(locking, options, desired, named, known))


def _judge_and_delete(
    run: Run, options: ItemsOptions, desired: Desired, named: Iterable[ReplacedPolicy], managers: Collection[str]
) -> Outcome | None:
    """Observe, judge and delete once; return None if the clusters have to be observed again."""
    with observing(run, options) as (recorder, observation):
        status = binding_status_of(run, options, desired, observation)
        if run.check_mode and status is not None:
            status = as_if_connected(status, observation.facts)
        scene, _former = observe_scenes(run, options, desired, status, observation)
        decided = decide_items(options, desired, scene, None)
        judged = scene_with_planned_policies(scene, decided.plan.steps) if run.check_mode else scene
        rows = item_rows(desired, decided, judged, Course(), now=run.ports.now())[ItemKind.INTENT.value]
        removal = plan_removal(judged, named, rows, managers)
        plan = _plan_of(run, scene, removal)
        if not observation_stands(run, observation, write=not plan.empty):
            return None
        run.ports.show(FindingsMade(removal.findings))
        recorder.note(findings=ordered(removal.findings), error=refusal_sentence(removal.findings, f"{NOTHING_DELETED}."))
        announce(run, plan, observation, recorder, scene.traffic)
        if not run.check_mode:
            carry_out(run, options, plan, observation, recorder)
    return recorder.outcome


def _plan_of(run: Run, scene: Scene, removal: PolicyRemoval) -> Plan:
    options: Mapping[str, Any] = {"purpose": "replaced policies"}
    relied_on = items_fingerprint(scene, (), removal.steps, ())
    return Plan(manager=run.mesh.binding.manager, steps=removal.steps, options=options, relied_on=relied_on)
