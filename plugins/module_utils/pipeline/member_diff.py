# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of a plan about members of Karmada as text before and after, in the shape that Ansible's ``--diff`` prints. Pure.

Tokens appear as words only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..apply.diff import merge_patched, part_of, readable_object
from ..base.json_fields import mapping, text
from ..base.optional_imports import optional
from ..members.facts import Facts
from ..members.management import CLUSTERS as PLANE_CLUSTERS
from ..members.models import MemberRequest
from ..members.names import ACCOUNTS, CLUSTERS, CONFIG_MAPS, CORE, IMPERSONATOR, NAMESPACE, RBAC, account_of, role_of
from ..plan.steps import ApiWrite, Literal, MemberToken, Plan, Recipe

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


def diff_members(plan: Plan, request: MemberRequest, facts: Facts) -> list[dict[str, str]]:
    """Return one entry ``{before, after, before_header, after_header}`` per step, in the plan's order."""
    observed = _observed(request, facts)
    found = []
    for step in plan.steps:
        if isinstance(step.action, ApiWrite):
            header = f"{step.cluster}{step.action.path}"
            before, after = _sides(step.action, observed.get((step.cluster, step.action.path)))
            found.append({"before": _text(before), "after": _text(after), "before_header": header, "after_header": header})
    return found


def _sides(action: ApiWrite, observed: Mapping[str, Any] | None) -> tuple[Any, Any]:
    if action.method == "delete":
        return {"metadata": {"name": action.path.rpartition("/")[2]}}, None
    body = {key: value for key, value in action.body.items() if key not in ("apiVersion", "kind")}
    if action.secret_data:
        body["data"] = {key: _planned(recipe) for key, recipe in sorted(action.secret_data.items())}
    if observed is None:
        return None, body
    before = part_of(observed, body)
    after = merge_patched(before, body)
    return readable_object(before, after), readable_object(after, before)


def _planned(recipe: Recipe) -> str:
    if isinstance(recipe, MemberToken):
        return f"new token of ServiceAccount {recipe.namespace}/{recipe.account}, {recipe.seconds // 3600} hours"
    return recipe.text if isinstance(recipe, Literal) else "kept"


def _observed(request: MemberRequest, facts: Facts) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the objects that were read, by host and path."""
    found: dict[tuple[str, str], Mapping[str, Any] | None] = {}
    for name, entry in facts.karmada.clusters.items():
        found[request.karmada, f"{CLUSTERS}/{name}"] = entry
    for entry in facts.karmada.tombstones.values():
        found[request.karmada, f"{CONFIG_MAPS}/{text(entry, 'metadata', 'name')}"] = entry
    for name, entry in facts.planes.items():
        found[request.management, f"{PLANE_CLUSTERS.format(request.management_namespace)}/{name}"] = entry
    for member in request.members:
        side = facts.sides.get(member.name)
        if side is not None:
            found[member.host, f"{CORE}/{NAMESPACE}"] = side.namespace
            found[member.host, f"{ACCOUNTS}/{account_of(member)}"] = side.account
            found[member.host, f"{ACCOUNTS}/{IMPERSONATOR}"] = side.impersonator
            found[member.host, f"{RBAC}/clusterroles/{role_of(member)}"] = side.role
            found[member.host, f"{RBAC}/clusterrolebindings/{role_of(member)}"] = side.binding
    return {key: entry for key, entry in found.items() if entry is not None and text(mapping(entry, "metadata"), "name")}


def _text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000) if value else ""
