# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The management plane as the operator keeps it: whose meshes are looked at again, and what is kept of a Secret."""

from __future__ import annotations

import base64
import json
from base64 import b64encode
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable
from mesh_operator.clusters import Clusters
from mesh_operator.dry_runs import Bounds, DryRuns, Permits
from mesh_operator.keys import MeshKey, ObjectKey
from mesh_operator.kinds import CLUSTER
from mesh_operator.management_plane import NotUsable, SealedKubeconfig, Usable
from mesh_operator.serve import Metrics
from mesh_operator.store import Stored
from tests.testing.unconfined_processes import UnconfinedProcesses

KEY = MeshKey("ws1", "default", "edge")


class Secrets:
    """The API server of the management plane, which has one Secret or none, or does not answer."""

    secret: dict[str, Any] | None = None

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if self.error:
            raise self.error
        return self.secret


def cluster(name: str, workspace: str, version: str = "1") -> dict[str, Any]:
    labels = {"edge-connect.eu/source-workspace": workspace, "edge-connect.eu/source-name": name}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "kubeconfigSecretRef": {"name": f"{name}-kubeconfig", "key": "kubeconfig"},
    }
    return {"metadata": {"name": f"{name}-{workspace}", "labels": labels, "resourceVersion": version}, "status": status}


def secret(name: str, version: str) -> dict[str, Any]:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "CANARY"}
    return {"metadata": {"name": name, "resourceVersion": version, "annotations": annotations}}


def watched(api: Secrets | None = None) -> tuple[Clusters, list[str]]:
    touched: list[str] = []
    found = Clusters(api or Secrets(), "default", touched.append)  # type: ignore[arg-type]
    return found, touched


def test_before_the_management_plane_was_read_no_cluster_is_taken_for_gone() -> None:
    clusters, _touched = watched()
    before = clusters.resolve(KEY, "c1", None)
    assert isinstance(before, NotUsable) and before.reason == "ManagementPlaneUnavailable"
    clusters.objects.replace([])
    after = clusters.resolve(KEY, "c1", None)
    assert isinstance(after, NotUsable) and after.reason == "ClusterNotFound"


def test_a_changed_cluster_touches_its_own_workspace_alone() -> None:
    clusters, touched = watched()
    clusters.objects.replace([cluster("c1", "ws1"), cluster("c1", "ws2")])
    assert touched == [], "what is listed first is no change"
    clusters.objects.put(cluster("c1", "ws2", "2"))
    assert set(touched) == {"ws2"}
    touched.clear()
    clusters.objects.replace([cluster("c1", "ws1")])
    assert set(touched) == {"ws2"}, "it is gone"
    clusters.objects.missing(cluster("c1", "ws1"))
    assert "ws1" in touched


def test_a_rotated_secret_touches_the_workspace_whose_cluster_it_opens() -> None:
    clusters, touched = watched()
    clusters.objects.replace([cluster("c1", "ws1"), cluster("c2", "ws2")])
    clusters.secrets.replace([secret("c1-kubeconfig", "1"), secret("c2-kubeconfig", "1"), secret("other", "1")])
    clusters.secrets.put(secret("c2-kubeconfig", "2"))
    clusters.secrets.put(secret("other", "2"))
    assert touched == ["ws2"]
    clusters.secrets.replace([secret("c1-kubeconfig", "3"), secret("c2-kubeconfig", "2")])
    assert touched == ["ws2", "ws1"]


def test_nothing_but_name_and_version_of_a_secret_is_kept() -> None:
    clusters, _touched = watched()
    clusters.secrets.replace([secret("c1-kubeconfig", "1")])
    clusters.secrets.put(secret("c2-kubeconfig", "1"))
    assert "CANARY" not in repr(clusters.secrets.known)


def test_a_management_plane_that_does_not_answer_is_waited_for() -> None:
    api = Secrets(Unreachable("it is down"))
    clusters, _touched = watched(api)
    clusters.objects.replace([cluster("c1", "ws1")])
    found = clusters.resolve(KEY, "c1", None)
    assert isinstance(found, NotUsable) and (found.reason, found.fatal) == ("ManagementPlaneUnavailable", False)
    assert api.asked == ["/api/v1/namespaces/default/secrets/c1-kubeconfig"]


def test_an_unlabelled_secret_that_clusters_of_two_workspaces_name_is_refused_although_unlabelled_ones_are_allowed() -> None:
    server = {
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    text = json.dumps({**server, "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]})
    there = {"metadata": {"name": "c1-kubeconfig"}, "data": {"kubeconfig": base64.b64encode(text.encode()).decode()}}
    seen = Stored(ObjectKey(CLUSTER, "ws1", "default", "c1"), {"metadata": {"annotations": {"kcp.io/cluster": "ws1"}}}, "url")
    for allowed, others, usable in ((True, [], True), (False, [], False), (True, [cluster("c1", "ws2")], False)):
        api = Secrets()
        api.secret = there
        clusters = Clusters(api, "default", lambda _: None, unlabelled=allowed)  # type: ignore[arg-type]
        clusters.objects.replace([cluster("c1", "ws1"), *others])
        assert isinstance(clusters.resolve(KEY, "c1", seen), SealedKubeconfig) is usable
    imported = cluster("c1", "ws2")
    imported["status"]["conditions"] = []  # a Cluster that is not ready names it as well
    clusters.objects.replace([cluster("c1", "ws1"), imported])
    assert isinstance(clusters.resolve(KEY, "c1", seen), NotUsable)


def test_a_tenant_never_opens_the_secret_of_another_ones_cluster() -> None:
    api = Secrets()
    clusters, _touched = watched(api)
    clusters.objects.replace([cluster("c1", "ws2")])
    found = clusters.resolve(KEY, "c1", None)
    assert isinstance(found, NotUsable) and found.reason == "ClusterNotFound" and api.asked == []


CONTENT = {
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
    "users": [{"name": "u", "user": {"token": "CANARY"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


class Opened(Secrets):
    def get(self, path: str) -> Any:
        labels = {"edge-connect.eu/source-workspace": "ws1"}
        return {"metadata": {"labels": labels}, "data": {"kubeconfig": b64encode(json.dumps(CONTENT).encode()).decode()}}


def test_every_cluster_has_the_domains_ranges_and_annotations_that_the_operator_permits_and_no_others() -> None:
    clusters = Clusters(Opened(), "default", lambda _: None)  # type: ignore[arg-type]
    clusters.objects.replace([cluster("c1", "ws1")])
    annotations = {f"networking.edge-portal.eu/{name}": "example.com/x" for name in ("endpoint-domains", "allowed-annotations")}
    annotations["kcp.io/cluster"] = "ws1"
    wanted = Stored(ObjectKey("KubernetesCluster", "ws1", "default", "c1"), {"metadata": {"name": "c1", "annotations": annotations}}, "")
    processes: Any = UnconfinedProcesses()
    permits = Permits(networks=("127.0.0.0/8",), domains=("mesh.example.com",), annotations=("example.com/team",))
    with DryRuns(processes, Bounds(), Metrics(), permits).begin(1) as process:
        found = process.open({"c1": clusters.resolve(KEY, "c1", wanted)})["c1"]
    assert isinstance(found, Usable), found
    assert found.variables == {
        "cilium_mesh_endpoint_domains": ["mesh.example.com"],
        "cilium_mesh_endpoint_networks": ["127.0.0.0/8"],
        "cilium_mesh_allowed_annotations": ["example.com/team"],
    }


def test_namespace_and_endpoint_of_a_cluster_come_from_the_management_plane_and_not_from_its_tenant() -> None:
    clusters = Clusters(Opened(), "default", lambda _: None)  # type: ignore[arg-type]
    chosen = {"cilium-namespace": "cilium", "endpoint": "192.0.2.20:2379"}
    annotations = {f"networking.edge-portal.eu/{name}": value for name, value in chosen.items()}
    tenant = {**dict.fromkeys(annotations, "192.0.2.66:2379"), "kcp.io/cluster": "ws1"}
    wanted = Stored(ObjectKey("KubernetesCluster", "ws1", "default", "c1"), {"metadata": {"name": "c1", "annotations": tenant}}, "")
    plain = cluster("c1", "ws1")
    for owner, variables in (
        (plain, {}),
        (
            {**plain, "metadata": {**plain["metadata"], "annotations": annotations}},
            {"cilium_mesh_namespace": "cilium", "cilium_mesh_endpoint_override": "192.0.2.20:2379"},
        ),
    ):
        clusters.objects.replace([owner])
        found = clusters.resolve(KEY, "c1", wanted)
        assert isinstance(found, SealedKubeconfig)
        assert found.variables == variables
