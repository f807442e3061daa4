# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a play would find and do, found out in process by the engine that the play uses. Reads only.

A play costs a second before it does anything (ansible-core starts, forks, templates), so a mesh that is as it should be is looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ..module_utils.errors import MeshError
from ..module_utils.items.desired import Desired
from ..module_utils.items.kinds import ItemKind, ItemRef
from ..module_utils.items.observe_scene import observe_scene
from ..module_utils.items.parse import desired_of
from ..module_utils.items.planned import Verdict
from ..module_utils.items.rows import Course, item_rows, look_again
from ..module_utils.items.run import plan_items
from ..module_utils.kube import ClusterAccess
from ..module_utils.model import Mesh
from ..module_utils.model_parse import parse
from ..module_utils.observe import Observation, observe
from ..module_utils.registry import registry_name
from ..module_utils.status import build_status
from .engine import context_of, judge_and_plan, not_seen
from .outcome import REQUEUE_SECONDS
from .proving import controller_proofs, prove_all

_DEFAULTS: Final = {"accept": (), "trust": "auto", "node_addresses": "InternalIP"}  # of mesh_connect, as the play runs it
_PARALLEL: Final = 4


@dataclass(frozen=True, kw_only=True)
class Look:
    """``steps``: how many writes and probes a play would make. ``linked``: the links need none of them, and nothing blocks them.
    ``result``: in the shape of ``mesh_result``, as far as statuses are made of it."""

    steps: int
    linked: bool
    result: Mapping[str, Any]


def look(raw: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]], previous: Mapping[str, Any]) -> Look | None:
    """What there is to do and to report; None when only a play can tell: something is wrong with the input, or a cluster that left is to be
    rid of the mesh. Raises nothing that a cluster does.

    :param raw: the variable ``cilium_mesh``.
    :param hosts: inventory name -> host variables.
    :param previous: ``mesh_result.status`` of an earlier run.
    """
    now = datetime.now(UTC)
    try:
        mesh = parse(raw, tuple(hosts))
        if any(host not in mesh.clusters for host in hosts):
            return None
        desired = desired_of(raw, mesh)
        members = [_access(*entry) for entry in hosts.items()]
        with observe(members, parallel=_PARALLEL, registry=registry_name(mesh.binding)) as seen:
            return _judged(mesh, desired, seen, previous, now)
    except MeshError:
        return None


def _judged(mesh: Mesh, desired: Desired, seen: Observation, previous: Mapping[str, Any], now: datetime) -> Look:
    findings, plan = judge_and_plan(context_of(seen, mesh, _DEFAULTS, now))
    status = build_status(
        mesh,
        seen.facts,
        not_seen(seen, mesh),
        prove_all(seen, mesh),
        now=datetime.now(UTC),
        generation=mesh.binding.generation or None,
        findings=findings,
        previous=previous.get("binding"),
        proofs=controller_proofs(seen, mesh, "auto"),
    )
    told = status if plan else {"phase": "Error"}  # items of a mesh that is blocked wait, as in a play (tasks/mesh_items.yml)
    scene = observe_scene(seen, mesh, desired.kinds, now=now, binding_status=told, parallel=_PARALLEL)
    decided = plan_items(desired, scene)
    rows = item_rows(desired, decided, scene, Course(), now=datetime.now(UTC), previous=previous)
    carried_out = {plan.ref for plan in decided.of(Verdict.ACCEPTED)}  # no other one is probed (items_probes.py)
    probed = {i.name: i.generation for i in desired.intents if i.probe.enabled and ItemRef(ItemKind.INTENT, i.name) in carried_out}
    # What was probed is told by plays alone, which probe; the rows here know of no probe.
    rows["connectivityIntents"] = [row for row in rows["connectivityIntents"] if row["name"] not in probed]
    again = min(REQUEUE_SECONDS.get(status["phase"], 60), look_again(desired, rows))
    steps = (len(plan.steps) if plan else 0) + len(decided.plan.steps) + probes_due(probed, previous, again, now)
    linked = plan is not None and not plan.steps
    return Look(steps=steps, linked=linked, result={"status": {"binding": status, **rows}, "findings": [], "requeueSeconds": again})


def probes_due(probed: Mapping[str, int], previous: Mapping[str, Any], again: int, now: datetime) -> int:
    """How many intents, given with their generations, were changed since their last probe, or not probed for so many seconds, which is no
    longer than the interval of any of them."""
    rows = {str(row.get("name")): row for row in previous.get("connectivityIntents") or ()}
    return sum(_is_due(rows.get(name, {}), generation, again, now) for name, generation in probed.items())


def _is_due(row: Mapping[str, Any], generation: int, again: int, now: datetime) -> bool:
    last = str((row.get("probeStatus") or {}).get("lastProbeTime") or "")
    changed = generation not in (0, row.get("observedGeneration"))
    return changed or not last or (now - datetime.fromisoformat(last)).total_seconds() >= again


def _access(host: str, variables: Mapping[str, Any]) -> ClusterAccess:
    return ClusterAccess(
        host=host,
        kubeconfig=variables.get("cilium_mesh_kubeconfig"),
        context=None,
        elb_id=str(variables.get("cilium_mesh_elb_id") or ""),
        unavailable=str(variables.get("cilium_mesh_unavailable") or ""),
    )
