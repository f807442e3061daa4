# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What kinds that are planned later may already count on: annotations of Services that earlier kinds will have written. Pure.

An exposed service of a Service that becomes global in the same run is global itself. Planned on what is there now, it would be written
once more by the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..services.record import Values, patched
from ..steps import ApiWrite, Step
from .facts import TrafficFacts
from .scene import Scene


def foreseen(scene: Scene, steps: Iterable[Step]) -> Scene:
    """``scene`` with the annotations of its Services as they are once ``steps`` have been carried out."""
    patches: dict[str, dict[str, Values]] = {}
    for step in steps:
        if step.cluster in scene.traffic and isinstance(step.action, ApiWrite) and step.action.method == "merge":
            written = (step.action.body.get("metadata") or {}).get("annotations") or {}
            patches.setdefault(step.cluster, {})[step.action.path] = written
    changed = {host: _annotated(scene.traffic[host], by_path) for host, by_path in patches.items()}
    return replace(scene, traffic={**scene.traffic, **changed}) if changed else scene


def _annotated(traffic: TrafficFacts, by_path: Mapping[str, Values]) -> TrafficFacts:
    services = {
        key: replace(entry, annotations=patched(entry.annotations, by_path[entry.path]))
        for key, entry in traffic.services.items()
        if entry.path in by_path
    }
    return replace(traffic, services={**traffic.services, **services})
