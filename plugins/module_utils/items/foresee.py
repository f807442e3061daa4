# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What kinds that are planned later may already count on: annotations of Services that earlier kinds will have written. Pure.

An exposed service of a Service that becomes global in the same run is global itself. Planned on what is there now, it would be written
once more by the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..steps import ApiWrite, Step
from .facts import ObjectFacts, TrafficFacts
from .scene import Scene


def foreseen(scene: Scene, steps: Iterable[Step]) -> Scene:
    """``scene`` with the annotations of its Services as they are once ``steps`` have been carried out."""
    patches: dict[str, dict[str, Mapping[str, Any]]] = {}
    for step in steps:
        if step.cluster in scene.traffic and isinstance(step.action, ApiWrite) and step.action.method == "merge":
            written = (step.action.body.get("metadata") or {}).get("annotations") or {}
            patches.setdefault(step.cluster, {})[step.action.path] = written
    changed = {host: _annotated(scene.traffic[host], by_path) for host, by_path in patches.items()}
    return replace(scene, traffic={**scene.traffic, **changed}) if changed else scene


def _annotated(traffic: TrafficFacts, by_path: Mapping[str, Mapping[str, Any]]) -> TrafficFacts:
    services = {key: _merged(entry, by_path[entry.path]) for key, entry in traffic.services.items() if entry.path in by_path}
    return replace(traffic, services={**traffic.services, **services})


def _merged(service: ObjectFacts, patch: Mapping[str, Any]) -> ObjectFacts:
    """As RFC 7386 has it: null takes a key away."""
    merged = {**service.annotations, **patch}
    return replace(service, annotations={key: str(value) for key, value in merged.items() if value is not None})
