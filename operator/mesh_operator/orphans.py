# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Meshes that the operator carried out and whose custom resource is no more, although nobody asked us to take them away: a finalizer was
removed by hand, or a deletion had to be let go. Their resources are looked for in all workspaces first, and for a while."""

from __future__ import annotations

from collections.abc import Mapping

from .keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from .kinds import BINDING
from .records import Record
from .store import MeshObjects, Store, Stored


class Absence:
    """Since when each recorded mesh has been without a resource. Times are monotonic seconds."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[MeshKey, float] = {}

    def orphans(self, records: tuple[Record, ...], store: Store, now: float) -> list[Record]:
        """Those without one for longer than the grace. Ask only while every URL has been listed: what is not seen may well be there."""
        absent = {record.key for record in records if store.mesh(record.key).binding is None}  # missing is not absent (store.py)
        self._since = {key: self._since.get(key, now) for key in absent}
        return [record for record in records if record.key in absent and now - self._since[record.key] >= self._grace]


def remains(record: Record) -> MeshObjects:
    """The mesh as it would be if its binding were being deleted: to take away what the record says was made."""
    key = record.key
    metadata: Mapping[str, object] = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": record.uid,
        "annotations": {CLUSTER_ANNOTATION: key.workspace},
        "deletionTimestamp": "1970-01-01T00:00:00Z",
    }
    obj = {"metadata": dict(metadata), "spec": {"clusterRefs": [{"name": name} for name in record.clusters]}}
    binding = Stored(key=ObjectKey(BINDING, key.workspace, key.namespace, key.name), obj=obj, url="")
    return MeshObjects(key=key, binding=binding)
