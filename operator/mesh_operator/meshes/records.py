# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Records of the operator: which meshes it has carried out, and in which clusters objects of them may remain.

There is a ConfigMap per mesh in the operator's namespace of the management plane. It is written before the first write into a cluster, so
that a mesh whose custom resource vanishes without our finalizer is still found (orphans.py). Names of clusters only, no credentials.

A record says for which source of custom resources it was written (source_identity.py). One of another source is a copy from a backup, or is
left of a source that was replaced: it says nothing about what is absent here. It is never changed and leads to no write, until the platform
takes it over (docs/decisions/0067).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_reader import load_json

from ..base.api import MANAGER, Api, Object
from ..base.keys import MeshKey
from ..source.source_identity import SourceIdentity

_SOURCE = "source"  # key of the ConfigMap, beside "record": a version of the operator that does not know it leaves it as it is


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record of one mesh. ``clusters``: all that may hold its objects. ``tombstone``: its resource is gone."""

    key: MeshKey
    uid: str  # of the binding
    clusters: tuple[str, ...]
    tombstone: bool = False
    since: str = ""  # RFC 3339; the time at which it became a tombstone
    source: str = field(default="", compare=False)  # identity of the source; "" in a record of a version that did not write it


class Records:
    """All records, read once, then kept in memory; one writer (the leader).

    Methods that read or write a record raise WriteConflict if another writer changed it (it was read anew, for the next try), and
    ClusterError if it is not valid, or of another source: it stays as it is, and does not count as absent. They raise ClusterError, too,
    while the identity of the source cannot be read.

    :param source: read once there is a record to be read or written.
    """

    def __init__(self, api: Api, namespace: str, source: SourceIdentity) -> None:
        self._api, self._path, self._source = api, f"/api/v1/namespaces/{namespace}/configmaps", source
        self._seen: dict[str, Object | None] = {}  # ConfigMaps by name; None: gone
        self._read: dict[str, tuple[Object | None, Record | None]] = {}  # what was parsed last, as there may be thousands

    def load(self) -> None:
        """Read all records.

        :raises ClusterError: when they cannot be read.
        """
        self._seen = self._listed()

    def get(self, key: MeshKey) -> Record | None:
        """Return the record of a mesh; None if there is none.

        :raises ClusterError: when the ConfigMap is no valid record, or one of another source.
        """
        name, record = name_of(key), self.find(key)
        if self._seen.get(name) is not None and record is None:
            self._seen[name] = self._api.get(f"{self._path}/{name}")  # for the next try
            raise ClusterError(f"ConfigMap {name} is no record.", remedy="Restore it; or delete it, if nothing is left of its mesh.")
        if record is not None and not self.is_own(record):
            raise ClusterError(f"ConfigMap {name} is a record of another source.", remedy="Start the operator with --take-over-records.")
        return record

    def find(self, key: MeshKey) -> Record | None:
        """Return the record of a key, of whatever source; None if there is none, or none that is valid."""
        return self._parsed(name_of(key))

    def all(self) -> tuple[Record, ...]:
        """Return all valid records of this source.

        :raises ClusterError: see the class.
        """
        return tuple(filter(self.is_own, self._valid()))

    def foreign(self) -> tuple[Record, ...]:
        """Return all valid records that are not known to be of this source.

        :raises ClusterError: see the class.
        """
        return tuple(record for record in self._valid() if not self.is_own(record))

    def is_of_another(self, record: Record) -> bool:
        """Return whether the record is known to be of another source. One that does not say its source may be of this one.

        :raises ClusterError: see the class.
        """
        return not self.is_own(record) and (bool(record.source) or self._source.has(record.key) is False)

    def take_over(self, record: Record) -> None:
        """Make a record one of this source. Its key stays: what the mesh made in clusters has its mark.

        :raises ClusterError: when it cannot be written; WriteConflict when another writer changed it.
        """
        name = name_of(record.key)
        version = (self._seen.get(name) or {"metadata": {}})["metadata"].get("resourceVersion", "")
        body = {"metadata": {"resourceVersion": version}, "data": {_SOURCE: self._source()}}
        try:
            self._api.merge_patch(f"{self._path}/{name}", body, manager=MANAGER)
        finally:
            self._seen[name] = self._api.get(f"{self._path}/{name}")

    def drop_deleted(self, records: Iterable[Record]) -> None:
        """Take that those of these records do not exist whose ConfigMaps are gone: an owner of the platform may have deleted them.

        :raises ClusterError: when they cannot be read.
        """
        names = [name_of(record.key) for record in records]
        listed = self._listed() if names else {}
        self._seen |= {name: None for name in names if name not in listed}

    def is_own(self, record: Record) -> bool:
        """Return whether the record is known to be of this source.

        :raises ClusterError: see the class.
        """
        return record.source == self._source() if record.source else bool(self._source.has(record.key))

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

    def _valid(self) -> list[Record]:
        return [record for name in tuple(self._seen) if (record := self._parsed(name))]

    def _parsed(self, name: str) -> Record | None:
        obj = self._seen.get(name)
        parsed = self._read.get(name)
        if parsed is None or parsed[0] is not obj:
            parsed = self._read[name] = obj, _parsed(obj)
        return parsed[1]

    def _listed(self) -> dict[str, Object | None]:
        page, found = self._api.page(self._path), list[Object]()
        while page is not None:
            found += [obj for obj in page["items"] or () if obj["metadata"]["name"].startswith(f"{MANAGER}-")]
            token = page["metadata"].get("continue")
            page = self._api.page(self._path, token=token) if token else None
        return {obj["metadata"]["name"]: obj for obj in found}

    def _save(self, key: MeshKey, record: Record | None) -> None:
        if record == self.get(key):
            return
        name, old = name_of(key), self._seen.get(name_of(key))
        version = old["metadata"]["resourceVersion"] if old else ""
        metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": MANAGER}, "resourceVersion": version}
        data = {"record": _text(record), _SOURCE: self._source()} if record else {}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
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
    return json.dumps({"schema": 1, **{name: value for name, value in asdict(record).items() if name != _SOURCE}})


def _parsed(obj: Object | None) -> Record | None:
    """Return the record of a ConfigMap; None if it is not valid, or that of another mesh."""
    try:
        data = load_json((obj or {})["data"]["record"])
        clusters = tuple(data["clusters"])
        record = Record(key=MeshKey(*data["key"]), uid=data["uid"], tombstone=data["tombstone"], since=data["since"], clusters=clusters)
        record = replace(record, source=(obj or {})["data"].get(_SOURCE, ""))
        "".join((record.uid, record.since, record.source, *record.clusters))  # TypeError where one is no text
        return record if json.loads(_text(record)) == data and name_of(record.key) == (obj or {})["metadata"]["name"] else None
    except (KeyError, TypeError, ValueError):
        return None
