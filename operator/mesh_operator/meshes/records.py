# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Records of the operator: which meshes it has carried out, and in which clusters objects of them may remain.

There is a ConfigMap per mesh in the operator's namespace of the management plane. It is written before the first write into a cluster, so
that a mesh whose custom resource vanishes without our finalizer is still found (orphans.py). Names of clusters only, no credentials.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_reader import load_json

from ..base.api import MANAGER, Api, Object
from ..base.keys import MeshKey


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record of one mesh. ``clusters``: all that may hold its objects. ``tombstone``: its resource is gone."""

    key: MeshKey
    uid: str  # of the binding
    clusters: tuple[str, ...]
    tombstone: bool = False
    since: str = ""  # RFC 3339; the time at which it became a tombstone


class Records:
    """All records, read once, then kept in memory; one writer (the leader).

    Methods that read or write a record raise WriteConflict if another writer changed it (it was read anew, for the next try), and
    ClusterError if it is not valid: it stays as it is, and does not count as absent.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._path = api, f"/api/v1/namespaces/{namespace}/configmaps"
        self._seen: dict[str, Object | None] = {}  # ConfigMaps by name; None: gone

    def load(self) -> None:
        """Read all records.

        :raises ClusterError: when they cannot be read.
        """
        page, found = self._api.page(self._path), list[Object]()
        while page is not None:
            found += [obj for obj in page["items"] or () if obj["metadata"]["name"].startswith(f"{MANAGER}-")]
            token = page["metadata"].get("continue")
            page = self._api.page(self._path, token=token) if token else None
        self._seen = {obj["metadata"]["name"]: obj for obj in found}

    def get(self, key: MeshKey) -> Record | None:
        """Return the record of a mesh; None if there is none.

        :raises ClusterError: when the ConfigMap is no valid record.
        """
        name = name_of(key)
        obj, record = self._seen.get(name), _parsed(self._seen.get(name))
        if obj is not None and record is None:
            self._seen[name] = self._api.get(f"{self._path}/{name}")  # for the next try
            raise ClusterError(f"ConfigMap {name} is no record.", remedy="Restore it; or delete it, if nothing is left of its mesh.")
        return record

    def all(self) -> tuple[Record, ...]:
        """Return all valid records."""
        return tuple(record for obj in tuple(self._seen.values()) if (record := _parsed(obj)))

    def remember(self, key: MeshKey, uid: str, clusters: Iterable[str]) -> None:
        """Add clusters to the record of a mesh; write only if that changes it.

        A tombstone becomes a normal record: there is a resource again.

        :raises ClusterError: see the class.
        """
        old = self.get(key) or Record(key=key, uid=uid, clusters=())
        self._save(key, Record(key=key, uid=uid, clusters=tuple(dict.fromkeys((*old.clusters, *clusters)))))

    def narrow(self, key: MeshKey, clusters: Iterable[str]) -> None:
        """Reduce the record to those of ``clusters`` that are in it: no other holds an object of the mesh.

        :raises ClusterError: see the class.
        """
        if old := self.get(key):
            kept = set(clusters)
            self._save(key, replace(old, clusters=tuple(name for name in old.clusters if name in kept)))

    def left_behind(self, key: MeshKey, clusters: Iterable[str], now: str) -> None:
        """Turn the record into a tombstone with the clusters that could not be cleaned, so that its resource may go.

        :param now: RFC 3339.
        :raises ClusterError: see the class.
        """
        old = self.get(key) or Record(key=key, uid="", clusters=())
        self._save(key, replace(old, clusters=tuple(clusters), tombstone=True, since=old.since or now))

    def forget(self, key: MeshKey) -> None:
        """Delete the record: no cluster holds an object of the mesh.

        :raises ClusterError: see the class.
        """
        self._save(key, None)

    def _save(self, key: MeshKey, record: Record | None) -> None:
        if record == self.get(key):
            return
        name, old = name_of(key), self._seen.get(name_of(key))
        version = old["metadata"]["resourceVersion"] if old else ""
        metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": MANAGER}, "resourceVersion": version}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"record": _text(record) if record else ""}}
        try:
            if record is None:
                self._api.delete(f"{self._path}/{name}", resource_version=version)
            elif old is None:
                self._api.create(self._path, body, manager=MANAGER)
            else:
                self._api.merge_patch(f"{self._path}/{name}", body, manager=MANAGER)
        finally:
            self._seen[name] = self._api.get(f"{self._path}/{name}")


def name_of(key: MeshKey) -> str:
    """Return the name of the ConfigMap. Its first 12 digits are the owner hash on the mesh's objects in its clusters."""
    return f"{MANAGER}-{sha256(chr(0).join(key).encode()).hexdigest()[:20]}"


def _text(record: Record) -> str:
    return json.dumps({"schema": 1, **asdict(record)})


def _parsed(obj: Object | None) -> Record | None:
    """Return the record of a ConfigMap; None if it is not valid, or that of another mesh."""
    try:
        data = load_json((obj or {})["data"]["record"])
        clusters = tuple(data["clusters"])
        record = Record(key=MeshKey(*data["key"]), uid=data["uid"], tombstone=data["tombstone"], since=data["since"], clusters=clusters)
        "".join((record.uid, record.since, *record.clusters))  # TypeError where one is no text
        return record if json.loads(_text(record)) == data and name_of(record.key) == (obj or {})["metadata"]["name"] else None
    except (KeyError, TypeError, ValueError):
        return None
