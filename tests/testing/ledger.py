# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The API server's ledger of ownership, to the field: objects with managedFields, written as plans write them, and observed again.

Its rules are those of apimachinery (managedfields/internal) and structured-merge-diff: an update takes what it changes from all managers
and books it for its own; an apply without force is refused where another manager holds another value, and withdraws what it no longer
sends; a list of managedFields that an update carries replaces the ledger first, unless it is empty.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import api_body
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.ownership import all_writers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import peer_secret_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import remote_users_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, ApplySecret, FromSecret, Plan

from .facts_builders import NOW, cluster_facts

Path: TypeAlias = tuple[str, ...]
Holder: TypeAlias = tuple[str, str]
READS = {
    "cilium-clustermesh": "clustermesh",
    "cilium-kvstoremesh": "kvstoremesh",
    "clustermesh-remote-users": "users",
}
PLACES = (("metadata", "labels"), ("metadata", "annotations"), ("data",))


class Ledger:
    """The three objects of each cluster that hold peers."""

    def __init__(self, *hosts: str, version: str = "1.20.0", **facts: Any) -> None:
        self._facts = {host: cluster_facts(host, version=version, **facts) for host in hosts}
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}

    def create(self, host: str, name: str, data: Mapping[str, str], manager: str, **metadata: Mapping[str, str]) -> None:
        """``data`` in clear."""
        kind = "ConfigMap" if name == "clustermesh-remote-users" else "Secret"
        values = {k: v if kind == "ConfigMap" else base64.b64encode(v.encode()).decode() for k, v in data.items()}
        made = {"kind": kind, "metadata": {"name": name, "uid": f"{host}-{name}", "resourceVersion": "1", **metadata}, "data": values}
        self.objects[(host, name)] = made
        _book(made, {(manager, "Update"): set(_fields(made))}, {})

    def facts(self) -> dict[str, ClusterFacts]:
        """What an observation would find."""
        return {host: self._observed(host, facts) for host, facts in self._facts.items()}

    def _observed(self, host: str, facts: ClusterFacts) -> ClusterFacts:
        found = {read: self.objects.get((host, name)) for name, read in READS.items()}
        return replace(
            facts,
            clustermesh=peer_secret_facts(found["clustermesh"], "cilium-clustermesh"),
            kvstoremesh=peer_secret_facts(found["kvstoremesh"], "cilium-kvstoremesh"),
            users=remote_users_facts(found["users"]),
            writers=all_writers(found),
        )

    def contents(self) -> dict[tuple[str, str], dict[str, str]]:
        return {place: dict(item["data"]) for place, item in self.objects.items()}

    def marks(self) -> dict[tuple[str, str], tuple[dict[str, str], dict[str, str]]]:
        """Labels and annotations."""
        return {p: (dict(i["metadata"].get("labels", {})), dict(i["metadata"].get("annotations", {}))) for p, i in self.objects.items()}

    def holders(self, host: str, name: str, key: str) -> set[Holder]:
        return {holder for holder, paths in _owners(self.objects[(host, name)]).items() if ("data", key) in paths}

    def managers(self) -> set[str]:
        return {holder[0] for item in self.objects.values() for holder in _owners(item)}

    def run(self, plan: Plan, *, steps: int | None = None) -> None:
        """Apply the plan, or its first ``steps`` as if it had broken off there."""
        for step in plan.steps[:steps]:
            action = step.action
            if isinstance(action, ApplySecret):
                self.apply(step.cluster, action.name, self._body(action), plan.manager)
            else:
                assert isinstance(action, ApiWrite) and action.method == "merge", action
                self.patch(step.cluster, action.path.rpartition("/")[2], api_body(action, {}, NOW), action.manager or plan.manager)

    def _body(self, action: ApplySecret) -> dict[str, Any]:
        data = {}
        for key, recipe in action.data.items():
            assert isinstance(recipe, FromSecret), "adopting writes no value of its own"
            data[key] = self.objects[(recipe.cluster, recipe.secret)]["data"][recipe.key]
        return {"metadata": {"labels": dict(action.labels), "annotations": dict(action.annotations)}, "data": data}

    def patch(self, host: str, name: str, patch: Mapping[str, Any], manager: str) -> None:
        """A JSON merge patch."""
        live = self.objects[(host, name)]
        metadata = patch.get("metadata") or {}
        for key in ("uid", "resourceVersion"):
            if metadata.get(key, live["metadata"][key]) != live["metadata"][key]:
                raise WriteConflict(f"{name} has another {key}")
        made = copy.deepcopy(live)
        for place in PLACES:
            _merge(made, place, patch)
        before, after = _fields(live), _fields(made)
        ledger = _owners({"metadata": {"managedFields": metadata.get("managedFields") or live["metadata"]["managedFields"]}})
        changed = {path for path, value in after.items() if before.get(path) != value}
        for holder in ledger:
            ledger[holder] -= changed | (set(before) - set(after))
        ledger.setdefault((manager, "Update"), set()).update(changed)
        self._commit(host, name, made, ledger)

    def apply(self, host: str, name: str, body: Mapping[str, Any], manager: str, *, force: bool = False) -> None:
        """Server-side apply."""
        made = copy.deepcopy(self.objects[(host, name)])
        ledger, wanted, present = _owners(made), _fields(body), _fields(made)
        us = (manager, "Apply")
        for path, value in wanted.items():
            others = [holder for holder, paths in ledger.items() if path in paths and holder != us]
            if others and present.get(path) != value and not force:
                raise WriteConflict(f"{path} belongs to {others}")
            for holder in others if present.get(path) != value else ():
                ledger[holder].discard(path)
        gone = ledger.get(us, set()) - set(wanted)
        ledger[us] = set(wanted)
        for path in gone:
            if not any(path in paths for paths in ledger.values()):
                _at(made, path[:-1]).pop(path[-1], None)
        for path, value in wanted.items():
            _at(made, path[:-1])[path[-1]] = value
        self._commit(host, name, made, ledger)

    def _commit(self, host: str, name: str, made: dict[str, Any], ledger: Mapping[Holder, set[Path]]) -> None:
        made["metadata"]["resourceVersion"] = str(int(made["metadata"]["resourceVersion"]) + 1)
        _book(made, ledger, _times(self.objects[(host, name)]))
        self.objects[(host, name)] = made


def _fields(item: Mapping[str, Any]) -> dict[Path, str]:
    return {(*place, key): value for place in PLACES for key, value in _read(item, place).items()}


def _read(item: Mapping[str, Any], place: Path) -> Mapping[str, str]:
    for step in place:
        item = item.get(step) or {}
    return item


def _at(item: dict[str, Any], place: Path) -> dict[str, Any]:
    for step in place:
        item = item.setdefault(step, {})
    return item


def _merge(made: dict[str, Any], place: Path, patch: Mapping[str, Any]) -> None:
    for key, value in _read(patch, place).items():
        if value is None:
            _at(made, place).pop(key, None)
        else:
            _at(made, place)[key] = value


def _owners(item: Mapping[str, Any]) -> dict[Holder, set[Path]]:
    found: dict[Holder, set[Path]] = {}
    for entry in item["metadata"].get("managedFields", ()):
        paths = {tuple(step.removeprefix("f:") for step in path) for path in _walk(entry["fieldsV1"])}
        found.setdefault((entry["manager"], entry["operation"]), set()).update(paths)
    return found


def _walk(tree: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    for step, below in tree.items():
        yield from _walk(below, (*above, step)) if below else [(*above, step)]


def _times(item: Mapping[str, Any]) -> dict[Holder, str]:
    return {(e["manager"], e["operation"]): e["time"] for e in item["metadata"].get("managedFields", ())}


def _book(item: dict[str, Any], ledger: Mapping[Holder, set[Path]], times: Mapping[Holder, str]) -> None:
    entries = []
    for holder, paths in ledger.items():
        tree: dict[str, Any] = {}
        for path in sorted(paths):
            node = tree
            for step in path:
                node = node.setdefault(f"f:{step}", {})
        if paths:
            time = times.get(holder, "2026-09-01T11:00:00Z")
            head = {"manager": holder[0], "operation": holder[1], "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1"}
            entries.append({**head, "fieldsV1": tree})
    item["metadata"]["managedFields"] = entries
