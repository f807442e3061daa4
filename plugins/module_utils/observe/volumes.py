# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Secrets and ConfigMaps that the volumes of a pod template show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.json_fields import items, mapping, text
from ..mesh.facts import VolumeSource


def volumes_of(workload: Any) -> dict[str, tuple[VolumeSource, ...]]:
    """Return volume -> sources, for volumes of the kinds projected, secret and configMap."""
    volumes = items(workload, "spec", "template", "spec", "volumes")
    found = {text(v, "name"): tuple(s for entry in _entries(v) if (s := _source(entry)) is not None) for v in volumes}
    return {name: sources for name, sources in found.items() if name and sources}


def _entries(volume: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return items(volume, "projected", "sources") or [volume]


def _source(entry: Mapping[str, Any]) -> VolumeSource | None:
    """Return the Secret or ConfigMap of an entry. A Secret volume names it ``secretName``; within a projected volume it is ``name``."""
    for kind, field in (("Secret", "secret"), ("ConfigMap", "configMap")):
        name = text(entry, field, "name") or text(entry, field, "secretName")
        if name:
            rows = items(entry, field, "items")
            return VolumeSource(kind=kind, name=name, items={text(row, "path"): text(row, "key") for row in rows})
    return None


def owner_kinds(value: Any) -> tuple[str, ...]:
    """Return the kinds of the owners of an object, sorted."""
    references = mapping(value, "metadata").get("ownerReferences")
    found = [text(r, "kind") for r in references] if isinstance(references, list) else []
    return tuple(sorted({kind for kind in found if kind}))
