# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the steps of items do to clusters, played on facts: a scene and steps in, the scene that would be observed next out.

Preconditions are kept as the API server keeps them. An object that the binding made is replaced by its next apply, because a field that a
manager no longer sends goes when no other one owns it; the object of another owner is merged with what is applied.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import api_body
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import timestamp
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import OWNER_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Step

MAPPINGS = {"services": "services", "serviceexports": "exports", "serviceimports": "imports", "gateways": "gateways"}  # field by resource
TUPLES = {
    "ciliumnetworkpolicies": "policies",
    "ciliumclusterwidenetworkpolicies": "policies",
    "networkpolicies": "policies",
    "httproutes": "routes",
    "tlsroutes": "routes",
    "tcproutes": "routes",
}


def applied(scene: Scene, steps: Iterable[Step], binding: Binding) -> Scene:
    """``scene`` after ``steps``, wave by wave.

    :raises WriteConflict: as the API server would refuse the write.
    """
    traffic = dict(scene.traffic)
    for step in sorted(steps, key=lambda entry: entry.wave):
        action = step.action
        assert isinstance(action, ApiWrite), f"not played here: {action}"
        body = api_body(action, {}, scene.now)
        place = Place.of(action, body)
        present = place.find(traffic[step.cluster])
        after = _after(action, place, body, present, binding, timestamp(scene.now))
        traffic[step.cluster] = place.put(traffic[step.cluster], after)
    return replace(scene, traffic=traffic)


def in_any_order(steps: Sequence[Step], order: random.Random) -> list[Step]:
    """Return the steps as they may be written: wave by wave, and in a wave those of one item in one cluster in their order."""
    lanes: dict[int, dict[tuple[str, str], list[Step]]] = {}
    for step in steps:
        lanes.setdefault(step.wave, {}).setdefault((step.cluster, step.item), []).append(step)
    found = []
    for _number, wave in sorted(lanes.items()):
        while any(wave.values()):
            found.append(wave[order.choice([key for key, lane in wave.items() if lane])].pop(0))
    return found


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an object stands in the API, and so in the facts."""

    path: str
    resource: str
    namespace: str
    name: str

    @classmethod
    def of(cls, action: ApiWrite, body: Mapping[str, Any]) -> Place:
        path = f"{action.path}/{body['metadata']['name']}" if action.method == "create" else action.path
        parts = path.split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        return cls(path=path, resource=parts[-2], namespace=namespace, name=parts[-1])

    def find(self, traffic: TrafficFacts) -> ObjectFacts | None:
        if self.resource in MAPPINGS:
            found: ObjectFacts | None = getattr(traffic, MAPPINGS[self.resource]).get((self.namespace, self.name))
            return found
        entries: tuple[ObjectFacts, ...] = getattr(traffic, TUPLES[self.resource])
        return next((entry for entry in entries if entry.path == self.path), None)

    def put(self, traffic: TrafficFacts, found: ObjectFacts | None) -> TrafficFacts:
        if self.resource in MAPPINGS:
            field = MAPPINGS[self.resource]
            entries = {key: entry for key, entry in getattr(traffic, field).items() if key != (self.namespace, self.name)}
            value: Any = entries if found is None else {**entries, found.key: found}
        else:
            field = TUPLES[self.resource]
            others = tuple(entry for entry in getattr(traffic, field) if entry.path != self.path)
            value = others if found is None else (*others, found)
        return replace(traffic, **{field: value})


def _after(
    action: ApiWrite, place: Place, body: Mapping[str, Any], present: ObjectFacts | None, binding: Binding, now: str
) -> ObjectFacts | None:
    metadata = body.get("metadata") or {}
    if action.method == "delete" and present is None:
        return None  # gone already: kube.Cluster.delete says nothing
    for key, value in (("uid", present.uid if present else ""), ("resourceVersion", present.resource_version if present else "")):
        if metadata.get(key, value) != value:
            raise WriteConflict(f"{place.path} has another {key}")
    if action.method == "delete":
        return None
    if present is None:
        if action.method == "merge":
            raise WriteConflict(f"{place.path} is not there")
        present = ObjectFacts(
            kind=str(body["kind"]),
            path=place.path,
            namespace=place.namespace,
            name=place.name,
            uid=f"uid-{place.path}",
            resource_version="0",
            created=now,
            labels={OWNER_LABEL: binding.owner},
        )
    elif action.method == "create":
        raise WriteConflict(f"{place.path} exists")
    ours = action.method != "merge" and present.labels.get(OWNER_LABEL) == binding.owner
    merge: Callable[[Any, Any], Any] = (lambda _before, after: after or {}) if ours else merge_patch
    return replace(
        present,
        resource_version=str(int(present.resource_version or 0) + 1),
        labels=merge(present.labels, metadata.get("labels") or {}),
        annotations=merge(present.annotations, metadata.get("annotations") or {}),
        spec=merge(present.spec, body.get("spec") or {}),
        specs=tuple(body.get("specs") or (() if ours else present.specs)),
    )


def merge_patch(before: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(before) if isinstance(before, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
