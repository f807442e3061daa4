# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of a plan for workloads as text before and after, in the shape that Ansible's ``--diff`` prints. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..apply.diff import merge_patched, part_of, readable_object
from ..base.optional_imports import optional
from ..fleet.contents import TenantObject
from ..fleet.facts import TenantFacts
from ..plan.steps import ApiWrite, Plan

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


def diff_fleet(plan: Plan, facts: TenantFacts) -> list[dict[str, str]]:
    """Return one entry ``{before, after, before_header, after_header}`` per step, in the plan's order."""
    found = []
    for step in plan.steps:
        if isinstance(step.action, ApiWrite):
            before, after = sides_of(step.action, _live(facts, step.object))
            header = f"{step.cluster}{step.action.path}"
            found.append({"before": as_text(before), "after": as_text(after), "before_header": header, "after_header": header})
    return found


def sides_of(action: ApiWrite, live: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Return the part of an object that a write is about, as it is and as it will be; None where there is no object."""
    if action.method == "delete":
        return {"metadata": {"name": action.path.rpartition("/")[2]}}, None
    body = {key: value for key, value in action.body.items() if key not in ("apiVersion", "kind")}
    if live is None:
        return None, readable_object(body)
    before = part_of(live, body)
    after = merge_patched(before, body)
    return readable_object(before, after), readable_object(after, before)


def _live(facts: TenantFacts, shown: str) -> Mapping[str, Any] | None:
    """Return the live object that a step names as ``Kind namespace/name``."""
    kind, path = shown.split(" ", 1)
    name = path.rpartition("/")[2]
    others = {"PropagationPolicy": facts.policies, "ControllerRevision": facts.revisions}
    if kind in others:
        return others[kind].get(name)
    alone = {"Namespace": facts.namespace, "ClusterPropagationPolicy": facts.namespace_policy}
    return alone[kind] if kind in alone else facts.objects.get(TenantObject(kind, name))


def as_text(value: Any) -> str:
    """Return a side as YAML, "" for none."""
    return yaml.safe_dump(value, sort_keys=False, width=1000) if value else ""
