# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""WorkspaceBounds on what one workspace may have in the operator, and which of its objects are within them. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.keys import CLUSTER_ANNOTATION, ObjectKey
from ..base.kinds import BINDING, BY_KIND, CLUSTER, FABRIC, FLEET_GROUP, GROUP, WORKLOAD
from ..base.workspace_bounds import WorkspaceBounds

QUOTA_EXCEEDED: Final = "QuotaExceeded"
STUB: Final = "stub"  # key of an object of which only a stub is kept
STUBS: Final = 4  # times the bound of objects; not even a stub is kept of more
_STUB_STATUS: Final = 8 * 1024  # characters of a status that a stub keeps; those that the operator writes are shorter without rows
_STUB_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_LARGEST_PART: Final = 16 * 1024  # characters of the spec, and of the status, of a KubernetesCluster
_OWN: Final = (f"{GROUP}/", f"{FLEET_GROUP}/")  # annotations that are kept
_BOUNDED: Final = {BINDING: "bindings", FABRIC: "fabrics", CLUSTER: "clusters"}  # kinds with a bound of their own, which has that name
_FINALIZERS: Final = 16  # of a stub; more of them, or longer ones, are others' and not needed

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One object as the bounds see it."""

    key: ObjectKey
    size: int  # bytes
    created: str  # RFC 3339, by the server
    deleting: bool
    meshes: tuple[str, ...]  # bindings that it belongs to, in its namespace
    is_stub: bool = False


def entry_of(key: ObjectKey, obj: Object) -> Entry:
    """Return the entry of an object as ``reduced`` returned it."""
    metadata = obj["metadata"]
    return Entry(
        key=key,
        size=len(json.dumps(obj, default=str)),
        created=str(metadata.get("creationTimestamp") or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
        meshes=BY_KIND[key.kind].names_of_bindings(obj) if BY_KIND[key.kind].listed else (),
        is_stub=STUB in obj,
    )


@dataclass(frozen=True)
class Beyond:
    """Object beyond a bound. ``words``: the bound; ``too_large``: it is that of bytes, so that no more than a stub is kept."""

    words: str
    too_large: bool = False


def beyond_bounds(entries: Collection[Entry], bounds: WorkspaceBounds) -> dict[ObjectKey, Beyond]:
    """Return the objects of one workspace that are beyond its bounds.

    Those that are being deleted count first, so that a deletion always goes on, then the oldest ones, then by kind and name. An object that
    does not fit takes nothing from the others. KubernetesClusters count in all bounds and are refused by their own alone: a mesh names them
    whatever else the workspace has. A stub stays beyond until the object is received anew.
    """
    found: dict[ObjectKey, Beyond] = {}
    used, size = Counter[tuple[str, ...]](), 0
    for entry in sorted(entries, key=lambda entry: (not entry.deleting, entry.created, entry.key)):
        is_cluster = entry.key.kind == CLUSTER
        if not is_cluster and (entry.is_stub or size + entry.size > bounds.bytes):
            found[entry.key] = Beyond(f"{bounds.bytes // 1024} KiB of objects", too_large=True)
            continue
        size += entry.size
        places = _places(entry, bounds)
        full = next(
            (words for place, (most, words) in places.items() if used[place] >= most and (not is_cluster or place == (CLUSTER,))), None
        )
        if full:
            found[entry.key] = Beyond(full)
        else:
            used.update(places.keys())
    return found


def _places(entry: Entry, bounds: WorkspaceBounds) -> dict[tuple[str, ...], tuple[int, str]]:
    """Return what an object counts for, with how many there may be, as a number and in words."""
    places: dict[tuple[str, ...], tuple[int, str]] = {("",): (bounds.objects, f"{bounds.objects} objects")}
    if (own := _BOUNDED.get(entry.key.kind)) is not None:
        most = getattr(bounds, own)
        places[entry.key.kind,] = (most, f"{most} {entry.key.kind}s")
    if entry.key.kind == WORKLOAD:
        places["fleet", entry.key.namespace] = (bounds.items, f"{bounds.items} FleetWorkloads in one namespace")
    for mesh in entry.meshes:
        places["mesh", entry.key.namespace, mesh] = (bounds.items, f"{bounds.items} items in one mesh")
    return places


class Usage:
    """What one workspace has, counted as its objects come and go, so that a change costs no look at all the others."""

    def __init__(self, bounds: WorkspaceBounds) -> None:
        self.entries: dict[ObjectKey, Entry] = {}
        self._bounds, self._size, self._stubs = bounds, 0, 0
        self._used, self._full = Counter[tuple[str, ...]](), set[tuple[str, ...]]()

    def put(self, entry: Entry) -> None:
        """Count an object, in place of what is known of it."""
        self.remove(entry.key)
        self.entries[entry.key] = entry
        self._count(entry, 1)

    def remove(self, key: ObjectKey) -> None:
        """Count an object no more."""
        if (old := self.entries.pop(key, None)) is not None:
            self._count(old, -1)

    def _count(self, entry: Entry, one: int) -> None:
        self._size += one * entry.size
        self._stubs += one * entry.is_stub
        for place, (most, _) in _places(entry, self._bounds).items():
            self._used[place] += one
            (self._full.add if self._used[place] > most else self._full.discard)(place)
            if not self._used[place]:
                del self._used[place]

    @property
    def fits(self) -> bool:
        """Whether every object is within the bounds."""
        return not self._full and not self._stubs and self._size <= self._bounds.bytes

    def beyond(self) -> dict[ObjectKey, Beyond]:
        """Return the objects beyond the bounds."""
        return {} if self.fits else beyond_bounds(self.entries.values(), self._bounds)


def reduced(kind: str, obj: Object) -> Object:
    """Return an object without what the operator does not need: managed fields, labels, others' annotations.

    A KubernetesCluster is never beyond the bound of bytes, so a spec or status of it that is very large is left out.
    """
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in ("managedFields", "annotations", "labels")}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key == CLUSTER_ANNOTATION or str(key).startswith(_OWN)}
    rest = {key: value for key, value in obj.items() if kind != CLUSTER or key not in ("spec", "status") or _is_small(value)}
    return {**rest, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}


def _is_small(value: Any) -> bool:
    return len(json.dumps(value, default=str)) <= _LARGEST_PART


def stub_of(kind: str, obj: Object) -> Object:
    """Return what is kept of an object that is beyond the bounds: enough to tell its owner, and to know to which mesh it belongs."""
    metadata = {key: obj["metadata"][key] for key in _STUB_METADATA if key in obj["metadata"]}
    metadata["annotations"] = {CLUSTER_ANNOTATION: (obj["metadata"].get("annotations") or {}).get(CLUSTER_ANNOTATION)}
    own = [text for text in obj["metadata"].get("finalizers") or () if len(str(text)) <= 253][:_FINALIZERS]
    status = {key: value for key, value in (obj.get("status") or {}).items() if key in ("phase", "conditions", "observedGeneration")}
    if len(json.dumps(status, default=str)) > _STUB_STATUS:
        status = {}
    mesh = _mesh_ref(obj) if BY_KIND[kind].listed else {}
    return {STUB: True, "metadata": metadata | ({"finalizers": own} if own else {}), "status": status, "spec": mesh}


def _mesh_ref(obj: Object) -> Object:
    ref = (obj.get("spec") or {}).get("meshRef")
    name = ref.get("name") if isinstance(ref, Mapping) else None
    return {"meshRef": {"name": name}} if isinstance(name, str) and len(name) <= 253 else {}


class Reception:
    """Reduction of the objects of one list, page by page, so that not even the list holds more than the bounds of each workspace twice."""

    def __init__(self, kind: str, bounds: WorkspaceBounds) -> None:
        self._kind, self._most, self._bytes = kind, 2 * bounds.bytes, Counter[str]()

    def __call__(self, obj: Object) -> Object:
        """Return what is kept of an object."""
        kept = reduced(self._kind, obj)
        workspace = str((kept["metadata"].get("annotations") or {}).get(CLUSTER_ANNOTATION))
        self._bytes[workspace] += len(json.dumps(kept, default=str))
        return stub_of(self._kind, kept) if self._bytes[workspace] > self._most else kept
