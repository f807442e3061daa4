# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fields of the custom resources of a mesh: names, paths, finalizers, deletion. Pure, but for the clock of ``age_of``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ..base.kinds import BY_KIND, ITEMS
from .stored import MeshObjects, Stored

ABANDON: Final = "networking.edge-portal.eu/abandon"
"""Annotation of an object that is being deleted: remove its finalizer although clusters may hold objects of it, which a record keeps."""


def refs_of(mesh: MeshObjects) -> tuple[str, ...]:
    """Return the names in clusterRefs. The schema says that each is {name}."""
    refs = ((mesh.binding.obj.get("spec") or {}).get("clusterRefs") or ()) if mesh.binding else ()
    return tuple(str(ref["name"]) for ref in refs if isinstance(ref, Mapping) and ref.get("name"))


def all_of(mesh: MeshObjects) -> tuple[Stored, ...]:
    """Return the binding, if there is one, and all items."""
    items = tuple(stored for row in ITEMS for stored in mesh.items.get(row.kind, ()))
    return (*((mesh.binding,) if mesh.binding else ()), *items)


def deleting(mesh: MeshObjects) -> list[Stored]:
    """Return the resources that are being deleted."""
    return [stored for stored in all_of(mesh) if stored.deleting]


def ref_of(stored: Stored) -> str:
    """Return the name of an item as findings have it: KIND/NAME."""
    return f"{BY_KIND[stored.key.kind].listed}/{stored.key.name}"


def path_of(stored: Stored) -> str:
    """Return the path of a resource below the URL of its virtual workspace."""
    row = BY_KIND[stored.key.kind]
    return f"{row.collection(stored.key.workspace, stored.key.namespace)}/{stored.key.name}"


def finalizers_of(obj: Mapping[str, Any]) -> list[str]:
    """Return the finalizers of an object."""
    return list((obj.get("metadata") or {}).get("finalizers") or ())


def generation_of(obj: Mapping[str, Any]) -> int:
    """Return metadata.generation; 0 if there is none."""
    return int(obj["metadata"].get("generation") or 0)


def is_abandoned(stored: Stored) -> bool:
    """Return whether its owner set the annotation ABANDON."""
    return ((stored.obj.get("metadata") or {}).get("annotations") or {}).get(ABANDON) == "true"


def age_of(stored: Stored) -> float:
    """Return the seconds since its deletion was requested."""
    return (datetime.now(UTC) - datetime.fromisoformat(stored.obj["metadata"]["deletionTimestamp"])).total_seconds()
