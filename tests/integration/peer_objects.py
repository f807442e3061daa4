# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The objects in which clusters keep their peers: what is in them, who owns it, and whether the links stand meanwhile.

with watched(lab, {"c1": ("c2",), "c2": ("c1",)}) as dropped:
    ...
assert dropped == []
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import MANAGER_DOMAIN
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.api import Object, change_object
from tests.testing.waiting import wait_for

SECRETS: Final = ("cilium-clustermesh", "cilium-kvstoremesh")


def object_path(kind: str, name: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/{kind}/{name}"


def secret_path(name: str) -> str:
    return object_path("secrets", name)


@contextmanager
def watched(lab: MeshLab, peers: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    """Poll kvstoremesh of every cluster meanwhile, and more than ten times. Yields what was seen that was not ready."""
    seen: list[str] = []
    ended = threading.Event()
    polls = [0]

    def observe() -> None:
        while not ended.is_set():
            for cluster, names in peers.items():
                rows = lab.kvstoremesh_status(cluster)
                seen.extend(f"{cluster} -> {name}" for name in names if not rows.get(name, {}).get("ready"))
                polls[0] += 1
            ended.wait(0.05)

    thread = threading.Thread(target=observe)
    thread.start()
    try:
        yield seen
        wait_for(lambda: polls[0] > 10, what="the watcher has looked often enough to prove something")
    finally:
        ended.set()
        thread.join()


def contents(lab: MeshLab) -> dict[str, Any]:
    """What readers of the mesh read: data of the objects that hold peers."""
    found: dict[str, Any] = {}
    for cluster in lab.names:
        for name in SECRETS:
            found[f"{cluster}/{name}"] = lab.secret(cluster, name)
        found[f"{cluster}/users"] = lab.users(cluster)
    return found


def managers_of(item: Mapping[str, Any], key: str) -> set[str]:
    """Field managers that hold a key of ``data``."""
    return {e["manager"] for e in item["metadata"]["managedFields"] if f"f:{key}" in e.get("fieldsV1", {}).get("f:data", {})}


def objects(lab: MeshLab, cluster: str) -> dict[str, dict[str, Any]]:
    paths = {**{name: secret_path(name) for name in SECRETS}, "users": object_path("configmaps", "clustermesh-remote-users")}
    found = {name: lab.api(cluster).get(path) for name, path in paths.items()}
    return {name: item for name, item in found.items() if item is not None}


def give_away(lab: MeshLab, writer: str) -> None:
    """Make the mesh that of another program: ``writer`` owns every key, and no mark and no lease of this project is left."""
    for cluster in lab.names:
        api = lab.api(cluster)
        for path in (*map(secret_path, SECRETS), object_path("configmaps", "clustermesh-remote-users")):
            if api.get(path) is not None:
                change_object(api, path, _unmarked)
                change_object(api, path, partial(_owned_by, writer))  # a server takes managedFields with an update of nothing else
        for item in api.list(f"/api/v1/namespaces/{NAMESPACE}/configmaps"):
            if item["metadata"]["name"].startswith("cilium-mesh-"):
                api.delete(object_path("configmaps", item["metadata"]["name"]))


def _unmarked(item: Object) -> Object:
    metadata = dict(item["metadata"])
    for part in ("labels", "annotations"):
        found = metadata.get(part) or {}
        metadata[part] = {key: value for key, value in found.items() if MANAGER_DOMAIN not in f"{key} {value}"}
    return {**item, "metadata": metadata}


def _owned_by(writer: str, item: Object) -> Object:
    entries = item["metadata"]["managedFields"]
    ours = f"{MANAGER_DOMAIN}/"
    fields = [{**e, "manager": writer, "operation": "Update"} if e["manager"].startswith(ours) else e for e in entries]
    return {**item, "metadata": {**item["metadata"], "managedFields": fields}}
