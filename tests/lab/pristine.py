# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The objects of API servers as they were at a moment: what differs now, and a way back.

    pristine = Pristine.of({"c1": api, "c2": other})
    …
    pristine.differences()    # {"c1/api/v1/namespaces/kube-system/secrets/x": "changed", …}
    pristine.restore()

Every kind that a server lists is read, without what servers write by themselves; a kind of which etcd has no newer key is not listed
again. Restored objects are equal in content and in managedFields; those that were deleted meanwhile have another uid.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tests.lab.api import ApiError, LabApi, Object, change_object
from tests.lab.etcd_keys import Keys, read_keys, written_resources
from tests.lab.patience import Budget

PASSING: Final = frozenset({"componentstatuses", "controllerrevisions", "endpoints", "events", "ipaddresses", "leases"})
"""What servers write by themselves."""
OWNED: Final = frozenset({"endpointslices", "pods", "replicasets"})
"""Of these, only those count that no other object owns, and only that they are there."""
LAST: Final = ("customresourcedefinitions", "namespaces")
"""What takes others along when it goes: created first, deleted last."""
_KINDS: Final = "customresourcedefinitions"
_COUNTERS: Final = ("deployment.kubernetes.io/", "deprecated.daemonset.template.generation")
_VOLATILE: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
_REPEATS: Final = 30.0  # seconds of an idle machine that a young API server may answer with 429


@dataclass(frozen=True)
class Place:
    """Where an object is: the cluster, its path in the API, and the name of its kind as the path has it."""

    cluster: str
    path: str
    resource: str

    def __str__(self) -> str:
        return f"{self.cluster}{self.path}"

    @property
    def namespace(self) -> str:
        """The namespace that it lies in; empty for what lies in none."""
        _, found, rest = self.path.partition("/namespaces/")
        return rest.split("/")[0] if found and "/" in rest else ""


Objects = dict[Place, Object]
Kinds = list[tuple[str, str]]
"""Root and name of collections, such as ``("/api/v1", "secrets")``."""


@dataclass(frozen=True)
class Pristine:
    """Objects of some clusters at one moment."""

    apis: Mapping[str, LabApi]
    objects: Objects
    kinds: Mapping[str, Kinds]
    same: dict[str, Keys] = field(default_factory=dict)
    """By cluster, the keys of a moment when every object was as in ``objects``."""

    @classmethod
    def of(cls, apis: Mapping[str, LabApi]) -> Self:
        """Read every object as it is now."""
        keys = _read_keys(apis)
        with ThreadPoolExecutor(len(apis)) as pool:
            kinds = dict(zip(apis, pool.map(collections, apis.values()), strict=True))
            objects = {
                place: item for found in pool.map(lambda name: list(_read(name, apis[name], kinds[name])), apis) for place, item in found
            }
        return cls(dict(apis), objects, kinds, keys)

    def differences(self) -> dict[str, str]:
        """Return what is not as it was: path, with the cluster before it -> ``extra``, ``missing`` or the names of changed parts."""
        return {str(place): what for place, what in self._observe()[1].items()}

    def restore(self) -> dict[str, str]:
        """Make every object what it was, once. Return what differed; controllers may need a moment, so look at `differences` afterwards."""
        current, found = self._observe()
        with ThreadPoolExecutor(len(self.apis)) as pool:
            list(pool.map(lambda cluster: self._restore_one(cluster, found, current), self.apis))
        return {str(place): what for place, what in found.items()}

    def _observe(self) -> tuple[Objects, dict[Place, str]]:
        """Return every object as it is now, and what differs."""
        keys = _read_keys(self.apis)  # before the objects: what is written between the two shows the next time
        with ThreadPoolExecutor(len(self.apis)) as pool:
            current = {place: item for found in pool.map(lambda name: self._read_written(name, keys[name]), keys) for place, item in found}
        found = self._compare(current)
        self.same.update({name: keys[name] for name in keys.keys() - {place.cluster for place in found}})
        return current, found

    def _read_written(self, cluster: str, keys: Keys) -> list[tuple[Place, Object]]:
        """Return the objects of a cluster, those of unwritten resources as they were."""
        written = written_resources(self.same[cluster], keys)
        api = self.apis[cluster]
        if _KINDS in written:
            return list(_read(cluster, api, collections(api)))
        kept = [(place, item) for place, item in self.objects.items() if place.cluster == cluster and place.resource not in written]
        return [*kept, *_read(cluster, api, [(root, resource) for root, resource in self.kinds[cluster] if resource in written])]

    def _compare(self, current: Objects) -> dict[Place, str]:
        found = dict.fromkeys(current.keys() - self.objects.keys(), "extra")
        found |= dict.fromkeys(self.objects.keys() - current.keys(), "missing")
        for place in self.objects.keys() & current.keys():
            was, now = _comparable(place, self.objects[place]), _comparable(place, current[place])
            if was != now:
                found[place] = ", ".join(sorted(key for key in was.keys() | now.keys() if was.get(key) != now.get(key)))
        return found

    def _restore_one(self, cluster: str, found: Mapping[Place, str], current: Objects) -> None:
        mine = [place for place in found if place.cluster == cluster]
        going = {place.path.rpartition("/")[2] for place in mine if found[place] == "extra" and place.resource == "namespaces"}
        api = self.apis[cluster]
        for place in sorted(mine, key=lambda place: (place.resource in LAST) != (found[place] == "missing")):
            try:
                if found[place] == "missing":
                    self._create(api, place)
                elif found[place] != "extra":
                    self._replace(api, place, current[place])
                elif place.namespace not in going:
                    api.delete(place.path, grace=0)
            except ApiError as error:
                if error.status not in (404, 409):  # it changed or went meanwhile: the next observation shows it
                    raise

    def _create(self, api: LabApi, place: Place) -> None:
        body = copy.deepcopy(self.objects[place])
        for key in _VOLATILE:
            body["metadata"].pop(key, None)
        body.pop("status", None)
        self._replace(api, place, api.post(place.path.rpartition("/")[0], body))

    def _replace(self, api: LabApi, place: Place, current: Object) -> None:
        wanted = copy.deepcopy(self.objects[place])
        fields = wanted["metadata"].get("managedFields")
        for key in ("creationTimestamp", "generation", "managedFields", "uid"):
            wanted["metadata"].pop(key, None)
        wanted["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        made = api.replace(place.path, wanted)
        if place.resource in ("nodes", "services") and "status" in wanted:
            wanted["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
            api.replace(f"{place.path}/status", wanted)
        if fields:
            self._give_managers(api, place, fields)

    def _give_managers(self, api: LabApi, place: Place, fields: list[Object]) -> None:
        """A server takes managedFields as they are given only with an update that changes nothing else."""
        try:
            change_object(api, place.path, lambda now: {**now, "metadata": {**now["metadata"], "managedFields": fields}})
        except ApiError as error:
            if error.status not in (404, 409):  # it went, or a controller was quicker: the next observation shows it
                raise


def _read_keys(apis: Mapping[str, LabApi]) -> dict[str, Keys]:
    return {name: read_keys(api.url, name) for name, api in apis.items()}


def _read(cluster: str, api: LabApi, kinds: Kinds) -> Iterator[tuple[Place, Object]]:
    for root, resource in kinds:
        for item in listed(api, f"{root}/{resource}"):
            metadata = item["metadata"]
            if resource in OWNED and metadata.get("ownerReferences"):
                continue
            scope = f"namespaces/{metadata['namespace']}/" if metadata.get("namespace") else ""
            yield Place(cluster, f"{root}/{scope}{resource}/{metadata['name']}", resource), item


def collections(api: LabApi) -> Kinds:
    """Return root and name of every collection that the server lists, in the version that it prefers, without passing kinds."""
    groups = (api.get("/apis") or {}).get("groups") or []
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    served = [(root, entry) for root in roots for entry in (api.get(root) or {}).get("resources") or []]
    return [(root, e["name"]) for root, e in served if "list" in e["verbs"] and "/" not in e["name"] and e["name"] not in PASSING]


def listed(api: LabApi, path: str) -> list[Object]:
    """List a collection. A young API server says 429 until the cache of a kind is filled; a kind that is gone by now has no items."""
    budget = Budget(_REPEATS)
    while True:
        try:
            return api.list(path)
        except ApiError as error:
            if error.status == 404:
                return []
            if error.status != 429 or budget.is_spent():
                raise
        time.sleep(0.2)


def _comparable(place: Place, item: Mapping[str, Any]) -> Object:
    if place.resource in OWNED:
        return {}
    metadata = {key: value for key, value in item["metadata"].items() if key not in _VOLATILE}
    annotations = metadata.pop("annotations", None) or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if not key.startswith(_COUNTERS)}
    kept = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    status = item.get("status") or {}
    if place.resource == "services":
        kept["load balancer"] = status.get("loadBalancer")
    if place.resource == "nodes":
        kept["conditions"] = {entry["type"]: entry["status"] for entry in status.get("conditions") or []}
    return {f"metadata.{key}": value for key, value in metadata.items() if value} | kept
