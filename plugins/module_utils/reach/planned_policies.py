# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies as they will be once the steps of a plan have been carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..items.owned import contains
from ..items.scene import Scene
from ..mesh.facts.traffic import ObjectFacts, TrafficFacts
from ..plan.steps import ApiWrite, Step

KINDS: Final[Mapping[str, str]] = {
    "ciliumnetworkpolicies": "CiliumNetworkPolicy",
    "ciliumclusterwidenetworkpolicies": "CiliumClusterwideNetworkPolicy",
}
"""Resources of the policies that a plan writes, with their kinds."""


def scene_with_planned_policies(scene: Scene, steps: Iterable[Step]) -> Scene:
    """Return ``scene`` with the policies of all clusters as the steps leave them. Other objects stay as they are."""
    policies = {host: {entry.path: entry for entry in scene.traffic[host].policies} for host in scene.hosts}
    changed: set[str] = set()
    for step in sorted(steps, key=lambda entry: entry.wave):
        action = step.action
        if step.cluster not in policies or not isinstance(action, ApiWrite):
            continue
        path = f"{action.path}/{action.body['metadata']['name']}" if action.method == "create" else action.path
        if path.rpartition("/")[0].rpartition("/")[2] not in KINDS:
            continue
        changed.add(step.cluster)
        if action.method == "delete":
            policies[step.cluster].pop(path, None)
        else:
            policies[step.cluster][path] = _written(path, action.body, policies[step.cluster].get(path))
    traffic: dict[str, TrafficFacts] = {
        host: replace(entry, policies=tuple(policies[host].values())) if host in changed else entry for host, entry in scene.traffic.items()
    }
    return replace(scene, traffic=traffic)


def _written(path: str, body: Mapping[str, Any], observed: ObjectFacts | None) -> ObjectFacts:
    """Return the policy after a server-side apply by the binding, which owns every field of its spec. Cilium judges a new spec anew."""
    parts, metadata = path.split("/"), body.get("metadata") or {}
    spec, specs = body.get("spec") or (observed.spec if observed else {}), tuple(body.get("specs") or ())
    same = observed is not None and contains(observed.spec, spec) and contains(observed.specs, specs)
    return ObjectFacts(
        kind=KINDS[parts[-2]],
        path=path,
        namespace=parts[parts.index("namespaces") + 1] if "namespaces" in parts else "",
        name=parts[-1],
        labels={**(observed.labels if observed else {}), **(metadata.get("labels") or {})},
        annotations={**(observed.annotations if observed else {}), **(metadata.get("annotations") or {})},
        spec=spec,
        specs=specs,
        status=observed.status if observed is not None and same else {},
    )
