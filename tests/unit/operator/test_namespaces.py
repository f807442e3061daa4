# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Namespaces as tenants: each object belongs to its own namespace, whatever it says, and each Secret to one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Defect, Forbidden
from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from mesh_operator.base.kinds import CLUSTER
from mesh_operator.credentials.management_plane import NotUsable, SealedKubeconfig
from mesh_operator.credentials.namespace_clusters import ARGO_LABEL, CLUSTER_LABEL, NamespaceClusters
from mesh_operator.source.namespaces import NamespacedApi, identity_of, workspace_of
from mesh_operator.source.store import Stored
from tests.collection_path import CHECKOUT
from tests.testing.rows import in_one_test

IDENTITY = "0c5e7a9e-5d3c-4a55-9a0f-0b1f8c1d2e3f"
TEAM = workspace_of(IDENTITY, "team-a")
PATH = f"/clusters/{TEAM}/apis/networking.edge-portal.eu/v1alpha1/namespaces/team-a/clustermeshbindings"
Object = dict[str, Any]


class Server:
    """An API server that has objects by path, and Secrets by namespace."""

    def __init__(self, secrets: list[Object] | None = None) -> None:
        self.asked: list[str] = []
        self.secrets, self.error = secrets or [], False

    def get(self, path: str) -> Object | None:
        self.asked.append(path)
        if self.error:
            raise Forbidden("RBAC forbids it.")
        namespace, _, name = path.partition("/namespaces/")[2].partition("/")
        if "/secrets/" in path:
            found = [s for s in self.secrets if s["metadata"]["namespace"] == namespace and name == f"secrets/{s['metadata']['name']}"]
            return found[0] if found else None
        return self._obj(namespace)

    def _obj(self, namespace: str) -> Object:
        return {"metadata": {"name": "edge", "namespace": namespace, "uid": IDENTITY, "annotations": {CLUSTER_ANNOTATION: "forged"}}}

    def list(self, path: str, *, label_selector: str = "", metadata_only: bool = False) -> list[Object]:
        if self.error:
            raise Forbidden("RBAC forbids it.")
        namespace = path.split("/")[4]
        wanted = dict(pair.partition("=")[::2] for pair in label_selector.split(","))

        def chosen(labels: dict[str, str]) -> bool:
            return all(key in labels and value in ("", labels[key]) for key, value in wanted.items())

        return [s for s in self.secrets if s["metadata"]["namespace"] == namespace and chosen(s["metadata"]["labels"])]

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
    assert identity_of(server) == IDENTITY  # type: ignore[arg-type]  # a server with the methods that are used
    assert workspace_of("another", "team-a") != TEAM != workspace_of(IDENTITY, "team-b")
    assert len(TEAM) == 16


# Where clusters come from


def secret(name: str, labels: dict[str, str], namespace: str = "team-a", version: str = "1", **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels, "resourceVersion": version}
    return {"metadata": metadata, "data": data or {"kubeconfig": "a3ViZQ=="}}


OWN = {CLUSTER_LABEL: "c1"}
CAPI = {"cluster.x-k8s.io/cluster-name": "c1"}
ARGO = {ARGO_LABEL: "cluster"}
GIVEN = {"edge-connect.eu/source-workspace": "team-a", "edge-connect.eu/source-name": "c1"}


class Fleet:
    """The clusters of KubernetesClusters."""

    def resolve(self, key: MeshKey, name: str, kubernetes_cluster: Stored | None) -> NotUsable:
        return NotUsable(name=name, reason="OfTheFleet", message="")


def resolved(*secrets: Object, kubernetes_cluster: bool = False, error: bool = False) -> SealedKubeconfig | NotUsable:
    server = Server(list(secrets))
    server.error = error
    known = Stored(ObjectKey(CLUSTER, TEAM, "team-a", "c1"), {"metadata": {}}, "kubernetes") if kubernetes_cluster else None
    clusters = NamespaceClusters(server, Fleet(), "platform", lambda _: None)  # type: ignore[arg-type]  # a server with the methods that are used
    return clusters.resolve(MeshKey(TEAM, "team-a", "edge"), "c1", known)


@in_one_test
@pytest.mark.parametrize(
    ("secrets", "text"),
    [
        ([secret("any", OWN)], "a3ViZQ=="),
        ([secret("any", OWN, value="dmFsdWU=")], "dmFsdWU="),
        ([secret("c1-kubeconfig", CAPI, value="dmFsdWU=")], "dmFsdWU="),
        ([secret("c1", ARGO, server="cw==", config="Yw==")], '{"server": "cw==", "config": "Yw=="}'),
        ([secret("of-team-a", GIVEN, "platform")], "a3ViZQ=="),
        ([secret("any", OWN, value="b3du"), secret("c1-kubeconfig", CAPI), secret("of-team-a", GIVEN, "platform")], "b3du"),
    ],
)
def test_a_cluster_is_found_by_each_kind_of_secret_and_the_tenants_own_label_goes_first(secrets: list[Object], text: str) -> None:
    found = resolved(*secrets)
    assert isinstance(found, SealedKubeconfig) and found.text == text


@in_one_test
@pytest.mark.parametrize(
    ("secrets", "reason"),
    [
        ([], "ClusterNotFound"),
        ([secret("any", {CLUSTER_LABEL: "c2"})], "ClusterNotFound"),
        ([secret("any", OWN, "team-b")], "ClusterNotFound"),
        ([secret("c1-kubeconfig", {})], "ClusterNotFound"),
        ([secret("c1-kubeconfig", {"cluster.x-k8s.io/cluster-name": "c2"})], "ClusterNotFound"),
        ([secret("c2", ARGO)], "ClusterNotFound"),
        ([secret("of-team-b", {**GIVEN, "edge-connect.eu/source-workspace": "team-b"}, "platform")], "ClusterNotFound"),
        ([secret("given", GIVEN, "team-b")], "ClusterNotFound"),
        ([secret("one", OWN), secret("two", OWN)], "ClusterAmbiguous"),
        ([secret("any", OWN, other="eA==")], "KubeconfigMissing"),
        ([secret("any", OWN, kubeconfig="a" * 200_000)], "KubeconfigRefused"),
    ],
)
def test_no_secret_of_another_namespace_or_name_is_used(secrets: list[Object], reason: str) -> None:
    found = resolved(*secrets)
    assert isinstance(found, NotUsable) and found.reason == reason


def test_a_kubernetes_cluster_is_looked_for_last_and_forbidden_secrets_are_said_to_be_so() -> None:
    found, denied = resolved(kubernetes_cluster=True), resolved(error=True)
    assert isinstance(found, NotUsable) and found.reason == "OfTheFleet"
    assert isinstance(denied, NotUsable) and denied.reason == "ManagementPlaneUnavailable" and "CM-API-03" in denied.message


def test_a_changed_secret_touches_the_meshes_of_its_namespace_alone() -> None:
    server, touched = Server([secret("one", OWN), secret("two", OWN, "team-b")]), list[str]()
    clusters = NamespaceClusters(server, Fleet(), "platform", touched.append)  # type: ignore[arg-type]  # a server with the methods that are used
    places = [("ws-a", "team-a"), ("ws-b", "team-b")]
    clusters.poll(places)
    assert touched == [], "the first look has nothing to compare with"
    server.secrets[0]["metadata"]["resourceVersion"] = "2"
    clusters.poll(places)
    server.secrets.pop()
    clusters.poll(places)
    server.error = True
    clusters.poll(places)
    assert touched == ["ws-a", "ws-b"]


def test_the_mark_of_a_namespace_is_what_the_documented_command_prints() -> None:
    page = (CHECKOUT / "docs" / "operator-kubernetes.md").read_text(encoding="utf-8")
    (line,) = [line.strip() for line in page.splitlines() if line.startswith("    printf %s ")]
    identity = "3f0a5a1e-7c1d-4c0e-9a6b-0d6a5d1b2c3d"
    command = re.sub(r"\$\(.*?\)/", f"{identity}/", line)
    printed = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout.strip()
    assert printed == workspace_of(identity, "team-a")
