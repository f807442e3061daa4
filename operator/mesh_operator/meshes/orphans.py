# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Orphaned meshes: the operator carried them out, and their custom resource is gone without a clean-up.

A finalizer was removed by hand, or a deletion was completed after the deadline. Their resources are searched in all workspaces first, and
for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from ..base.kinds import BINDING
from ..source.store import Store
from ..source.stored import MeshObjects, Stored
from .records import Record


class OrphanTracker:
    """Tracker of recorded meshes without a resource, with the time since then. Times are monotonic seconds."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[MeshKey, float] = {}

    def orphans(self, records: tuple[Record, ...], store: Store, now: float) -> list[Record]:
        """Return the records without a resource for longer than the grace period.

        Call it only while every URL has been listed and serves the kind: an object that is not listed may well exist.
        """
        absent = {record.key for record in records if store.mesh(record.key).binding is None}  # missing is not absent (store.py)
        self._since = {key: self._since.get(key, now) for key in absent}
        return [record for record in records if record.key in absent and now - self._since[record.key] >= self._grace]


def mesh_to_remove(record: Record, *, listed: bool) -> MeshObjects:
    """Return the mesh as if its binding were being deleted, so that its run removes everything in the record.

    :param listed: whether all URLs are listed now too, without it: a URL that came since may have it.
    """
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
    return MeshObjects(key=key, listed=listed, binding=binding)
