# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Namespaces as tenants: each object belongs to its own namespace, whatever it says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Defect
from mesh_operator.base.keys import CLUSTER_ANNOTATION
from mesh_operator.source.namespaces import NamespacedApi, workspace_of
from mesh_operator.source.source_identity import uid_of_cluster
from tests.collection_path import CHECKOUT

IDENTITY = "0c5e7a9e-5d3c-4a55-9a0f-0b1f8c1d2e3f"
TEAM = workspace_of(IDENTITY, "team-a")
PATH = f"/clusters/{TEAM}/apis/networking.edge-portal.eu/v1alpha1/namespaces/team-a/clustermeshbindings"
Object = dict[str, Any]


class Server:
    """An API server that has an object by each path."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str) -> Object | None:
        self.asked.append(path)
        return self._obj(path.partition("/namespaces/")[2].partition("/")[0])

    def _obj(self, namespace: str) -> Object:
        return {"metadata": {"name": "edge", "namespace": namespace, "uid": IDENTITY, "annotations": {CLUSTER_ANNOTATION: "forged"}}}

    def page(self, path: str, **_: Any) -> Object:
        self.asked.append(path)
        return {"metadata": {"resourceVersion": "1"}, "items": [self._obj("team-a"), self._obj("team-b")]}

    def watch(self, path: str, **_: Any) -> Iterator[Object]:
        yield {"type": "ADDED", "object": self._obj("team-b")}
        yield {"type": "ERROR", "object": {"code": 410}}

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        self.asked.append(path)
        return self._obj("team-a")

    merge_patch = create

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self.asked.append(path)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(server: Server) -> NamespacedApi:
    return NamespacedApi(server, IDENTITY)  # type: ignore[arg-type]  # a server with the methods that are used


def owner(obj: Object) -> str:
    return str(obj["metadata"]["annotations"][CLUSTER_ANNOTATION])


def test_every_object_is_of_the_workspace_of_its_namespace_whatever_it_says(api: NamespacedApi) -> None:
    page = api.page("/clusters/*/apis/networking.edge-portal.eu/v1alpha1/clustermeshbindings")
    assert page is not None and [owner(obj) for obj in page["items"]] == [TEAM, workspace_of(IDENTITY, "team-b")]
    added, error = api.watch("/clusters/*/apis/x/v1/things", version="1", seconds=1)
    assert owner(added["object"]) == workspace_of(IDENTITY, "team-b") and error == {"type": "ERROR", "object": {"code": 410}}
    assert owner(api.get(f"{PATH}/edge") or {}) == TEAM


def test_requests_go_to_the_same_place_without_the_workspace(api: NamespacedApi, server: Server) -> None:
    api.get(f"{PATH}/edge")
    api.create(PATH, {}, manager="x")
    api.merge_patch(f"{PATH}/edge/status", {}, manager="x")
    api.delete(f"{PATH}/edge")
    own = PATH.partition(TEAM)[2]
    assert server.asked == [f"{own}/edge", own, f"{own}/edge/status", f"{own}/edge"]


@pytest.mark.parametrize("path", [PATH.replace("team-a", "team-b"), f"/clusters/{TEAM}/api/v1/nodes", "/api/v1/nodes"])
def test_no_request_reaches_the_namespace_of_another_tenant(api: NamespacedApi, server: Server, path: str) -> None:
    with pytest.raises(Defect):
        api.get(path)
    assert server.asked == []


def test_namespaces_of_two_clusters_are_two_tenants(server: Server) -> None:
    assert uid_of_cluster(server) == IDENTITY  # type: ignore[arg-type]  # a server with the methods that are used
    assert workspace_of("another", "team-a") != TEAM != workspace_of(IDENTITY, "team-b")
    assert len(TEAM) == 16


def test_the_mark_of_a_namespace_is_what_the_documented_command_prints() -> None:
    page = (CHECKOUT / "docs" / "operator-kubernetes.md").read_text(encoding="utf-8")
    (line,) = [line.strip() for line in page.splitlines() if line.startswith("    printf %s ")]
    identity = "3f0a5a1e-7c1d-4c0e-9a6b-0d6a5d1b2c3d"
    command = re.sub(r"\$\(.*?\)/", f"{identity}/", line)
    printed = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout.strip()
    assert printed == workspace_of(identity, "team-a")
