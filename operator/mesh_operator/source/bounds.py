# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""WorkspaceBounds on what one workspace may have in the operator, and which of its objects are within them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.keys import CLUSTER_ANNOTATION, ObjectKey
from ..base.kinds import BINDING, BY_KIND, CLUSTER, FABRIC, FLEET_GROUP, GROUP, WORKLOAD
from ..base.workspace_bounds import WorkspaceBounds
from .footprint import footprint

QUOTA_EXCEEDED: Final = "QuotaExceeded"
STUB: Final = "stub"  # key of an object of which only a stub is kept
STUBS: Final = 4  # times the bound of objects; not even a stub is kept of more
RECORD: Final = 1024  # bytes of memory beside an object: its key, its entries in the store and here
REFERENCE: Final = 384  # bytes for each object to which it refers: a key, and a set of those that refer to that
WORKSPACE: Final = 2048  # bytes for each workspace with objects
OF_ALL: Final = "its share of the memory for the objects of all workspaces"  # in place of a bound
_STUB_STATUS: Final = 16 * 1024  # bytes of memory of a status that a stub keeps; those that the operator writes are smaller without rows
_STUB_ANNOTATIONS: Final = 4 * 1024
_STUB_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_LARGEST_PART: Final = 64 * 1024  # bytes of memory of the spec, and of the status, of a KubernetesCluster
_OWN: Final = (f"{GROUP}/", f"{FLEET_GROUP}/")  # annotations that are kept
_BOUNDED: Final = {BINDING: "bindings", FABRIC: "fabrics", CLUSTER: "clusters"}  # kinds with a bound of their own, which has that name
_FINALIZERS: Final = 16  # of a stub; more of them, or longer ones, are others' and not needed

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class BoundedObject:
    """One object as the bounds see it. ``size``, ``stub``: bytes of memory, with what the operator keeps beside it."""

    key: ObjectKey
    size: int  # of the object as it was received
    created: str  # RFC 3339, by the server
    deleting: bool
    meshes: tuple[str, ...]  # bindings that it belongs to, in its namespace
    stub: int = 0  # of what is kept; 0: the whole object

    @property
    def age(self) -> tuple[str, ObjectKey]:
        """What sorts objects from the oldest one on."""
        return self.created, self.key


def entry_of(key: ObjectKey, obj: Object, to: Collection[ObjectKey] = (), copies: int = 1) -> BoundedObject:
    """Return the entry of an object as ``reduced`` returned it.

    :param to: objects to which it refers.
    :param copies: number of URLs that show it.
    """
    metadata = obj["metadata"]
    size = RECORD + REFERENCE * len(to) + copies * footprint(obj)
    return BoundedObject(
        key=key,
        size=size,
        created=str(metadata.get("creationTimestamp") or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
        meshes=tuple(other.name for other in to if other.kind == BINDING) if key.kind != BINDING else (),
        stub=size if STUB in obj else 0,
    )


@dataclass(frozen=True)
class Beyond:
    """Object beyond a bound. ``words``: the bound; ``too_large``: it is one of bytes, so that no more than a stub is kept."""

    words: str
    too_large: bool = False


def beyond_bounds(entries: Collection[BoundedObject], bounds: WorkspaceBounds, share: int | None = None) -> dict[ObjectKey, Beyond]:
    """Return the objects of one workspace that are beyond its bounds, or beyond its share of the memory for all workspaces.

    Those that are being deleted count first, so that a deletion always goes on, then the oldest ones, then by kind and name. An object that
    does not fit takes nothing from the others. KubernetesClusters count in all bounds and are refused by their own and by the share alone:
    a mesh names them whatever else the workspace has. A stub stays beyond until the object is received anew.

    :param share: bytes; None: as many as the bounds allow.
    """
    found: dict[ObjectKey, Beyond] = {}
    used, size = Counter[tuple[str, ...]](), 0
    whole = Beyond(f"{bounds.bytes // 1024} KiB of memory for its objects", too_large=True)
    for entry in sorted(entries, key=lambda entry: (not entry.deleting, entry.age)):
        is_cluster = entry.key.kind == CLUSTER
        if not is_cluster and size + entry.size > bounds.bytes:
            found[entry.key] = whole
            continue
        if share is not None and size + entry.size > share:
            found[entry.key] = Beyond(OF_ALL, too_large=True)
            continue
        if entry.stub:
            found[entry.key] = whole
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


def _places(entry: BoundedObject, bounds: WorkspaceBounds) -> dict[tuple[str, ...], tuple[int, str]]:
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


class WorkspaceUsage:
    """What one workspace has, counted as its objects come and go, so that a change costs no look at all the others.

    In bytes of memory: ``size`` of all its objects, had it no stubs; ``deleted`` of those of them that are being deleted; ``whole`` of the
    objects that are kept as a whole; ``stubs`` of the others.
    """

    def __init__(self, bounds: WorkspaceBounds) -> None:
        self.entries: dict[ObjectKey, BoundedObject] = {}
        self.size = self.deleted = self.whole = self.stubs = self._clusters = 0
        self._bounds = bounds
        self._used, self._full = Counter[tuple[str, ...]](), set[tuple[str, ...]]()

    def put(self, entry: BoundedObject) -> None:
        """Count an object, in place of what is known of it."""
        self.remove(entry.key)
        self.entries[entry.key] = entry
        self._count(entry, 1)

    def remove(self, key: ObjectKey) -> None:
        """Count an object no more."""
        if (old := self.entries.pop(key, None)) is not None:
            self._count(old, -1)

    def _count(self, entry: BoundedObject, one: int) -> None:
        size = one * entry.size
        self.size += size
        if entry.stub:
            self.stubs += one * entry.stub
        else:
            self.whole += size
        if entry.deleting:
            self.deleted += size
        if entry.key.kind == CLUSTER:
            self._clusters += size
        for place, (most, _) in _places(entry, self._bounds).items():
            self._used[place] += one
            (self._full.add if self._used[place] > most else self._full.discard)(place)
            if not self._used[place]:
                del self._used[place]

    @property
    def needed(self) -> int:
        """Bytes of memory that its bounds allow it, and that it has objects for."""
        return min(self.size, self._bounds.bytes + self._clusters)

    @property
    def wanted(self) -> int:
        """The same with a quarter more, so that its objects can grow, for instance by statuses, when nothing is left for any workspace."""
        return min(self.size + self.size // 4, self._bounds.bytes + self._clusters)

    def fits(self, share: int) -> bool:
        """Return whether every object is within the bounds, and within the share of the workspace."""
        return not self._full and not self.stubs and self.size <= min(self._bounds.bytes, share)

    def beyond(self, share: int) -> dict[ObjectKey, Beyond]:
        """Return the objects beyond the bounds, or beyond the share of the workspace."""
        return {} if self.fits(share) else beyond_bounds(self.entries.values(), self._bounds, share)


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
    return footprint(value) <= _LARGEST_PART


def stub_of(kind: str, obj: Object) -> Object:
    """Return what is kept of an object that is beyond the bounds: enough to tell its owner, and to know to which mesh it belongs."""
    metadata = {key: obj["metadata"][key] for key in _STUB_METADATA if key in obj["metadata"]}
    annotations = obj["metadata"].get("annotations") or {}
    if kind != CLUSTER or footprint(annotations) > _STUB_ANNOTATIONS:  # those of a KubernetesCluster are part of every mesh that names it
        annotations = {CLUSTER_ANNOTATION: annotations.get(CLUSTER_ANNOTATION)}
    metadata["annotations"] = annotations
    own = [text for text in obj["metadata"].get("finalizers") or () if len(str(text)) <= 253][:_FINALIZERS]
    status = {key: value for key, value in (obj.get("status") or {}).items() if key in ("phase", "conditions", "observedGeneration")}
    if footprint(status) > _STUB_STATUS:
        status = {}
    mesh = _mesh_ref(obj) if BY_KIND[kind].listed else {}
    return {STUB: True, "metadata": metadata | ({"finalizers": own} if own else {}), "status": status, "spec": mesh}


def _mesh_ref(obj: Object) -> Object:
    ref = (obj.get("spec") or {}).get("meshRef")
    name = ref.get("name") if isinstance(ref, Mapping) else None
    return {"meshRef": {"name": name}} if isinstance(name, str) and len(name) <= 253 else {}
