# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The management plane as the operator keeps it: which meshes are reconciled again, and what is kept of a Secret."""

from __future__ import annotations

import base64
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable
from mesh_operator.base.keys import MeshKey, ObjectKey
from mesh_operator.base.kinds import CLUSTER
from mesh_operator.base.serve import Metrics
from mesh_operator.credentials.clusters import NOT_IN_TIME, Clusters
from mesh_operator.credentials.management_plane import NotUsable, SealedKubeconfig, Usable
from mesh_operator.runs.dry_runs import Bounds, DryRuns, Permits
from mesh_operator.source.stored import Stored
from tests.testing.log_records import log_records
from tests.testing.properties import examples
from tests.testing.provider_examples import FOLDER
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


def clusters_of(api: Any, touched: Callable[[str], None], **options: Any) -> Clusters:
    """Clusters of a management plane whose API server is a stand-in."""
    return Clusters(api, "default", touched, **options)


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
    found = clusters_of(api or Secrets(), touched.append)
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


@pytest.mark.parametrize("requests", [0, 1, 2])
def test_no_secret_is_got_for_a_turn_that_has_ended(requests: int) -> None:
    api = Secrets()
    clusters, _touched = watched(api)
    clusters.objects.replace([cluster(name, "ws1") for name in ("c1", "c2", "c3")])
    found = clusters.resolve_all(KEY, dict.fromkeys(("c1", "c2", "c3")), lambda: len(api.asked) >= requests)
    assert len(api.asked) == requests
    late = [entry.message for entry in found.values() if isinstance(entry, NotUsable) and entry.reason == "ManagementPlaneUnavailable"]
    assert late == [NOT_IN_TIME] * (3 - requests)


def test_an_unlabelled_secret_that_clusters_of_two_workspaces_name_is_refused_although_unlabelled_ones_are_allowed() -> None:
    server = {
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    text = json.dumps({**server, "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]})
    unlabelled_secret = {"metadata": {"name": "c1-kubeconfig"}, "data": {"kubeconfig": base64.b64encode(text.encode()).decode()}}
    seen = Stored(ObjectKey(CLUSTER, "ws1", "default", "c1"), {"metadata": {"annotations": {"kcp.io/cluster": "ws1"}}}, "url")
    for allowed, others, usable in ((True, [], True), (False, [], False), (True, [cluster("c1", "ws2")], False)):
        api = Secrets()
        api.secret = unlabelled_secret
        clusters = clusters_of(api, lambda _: None, unlabelled=allowed)
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
    clusters = clusters_of(Opened(), lambda _: None)
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
    clusters = clusters_of(Opened(), lambda _: None)
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


# Clusters without the label of a workspace

WORKSPACE, NAME, CAPI = "edge-connect.eu/source-workspace", "edge-connect.eu/source-name", "cluster.x-k8s.io/cluster-name"
SEALED = base64.b64encode(b"apiVersion: v1\nkind: Config\n").decode()


class Plane(Secrets):
    """The API server of a management plane with Secrets by name."""

    def __init__(self, secrets: Mapping[str, dict[str, Any]]) -> None:
        super().__init__()
        self.secrets = secrets

    def get(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        return self.secrets.get(path.rpartition("/")[2])


def kubernetes_cluster(workspace: str, name: str) -> Stored:
    obj = {"metadata": {"name": name, "namespace": "default", "annotations": {"kcp.io/cluster": workspace}}}
    return Stored(ObjectKey(CLUSTER, workspace, "default", name), obj, "url")


def resolved(
    objects: list[dict[str, Any]], secrets: Mapping[str, dict[str, Any]], workspace: str, name: str, **options: Any
) -> SealedKubeconfig | NotUsable:
    clusters = clusters_of(Plane(secrets), lambda _: None, **options)
    clusters.objects.replace(objects)
    return clusters.resolve(MeshKey(workspace, "default", "edge"), name, kubernetes_cluster(workspace, name))


def documented(**changes: Any) -> dict[str, Any]:
    """The Cluster that the provider's documentation draws, and the capability that it prints."""
    drawn: dict[str, Any] = yaml.safe_load((FOLDER / "data-flow.yaml").read_text(encoding="utf-8"))
    drawn["status"] |= yaml.safe_load((FOLDER / "cluster-capability.yaml").read_text(encoding="utf-8"))["status"] | changes
    return drawn


@pytest.mark.parametrize(
    ("ref", "key"),
    [
        ({"name": "kind-cluster-ffm-1-kubeconfig", "key": "kubeconfig"}, "kubeconfig"),
        ({"name": "kind-cluster-ffm-1-kubeconfig"}, "value"),
        ({"name": "cce-7f3a", "key": "attribute.kubeconfig"}, "attribute.kubeconfig"),
        ({"name": "shoot.kubeconfig", "key": "kubeconfig"}, "kubeconfig"),
    ],
)
def test_the_management_plane_of_the_providers_documentation_works_as_it_is_by_name(ref: dict[str, str], key: str) -> None:
    plane = [documented(kubeconfigSecretRef=ref)]
    secrets = {ref["name"]: {"metadata": {"name": ref["name"]}, "data": {key: SEALED}}}
    found = resolved(plane, secrets, "ws1", "cluster-ffm-1", by_name="ws1")
    assert isinstance(found, SealedKubeconfig) and found.text == SEALED
    for workspace, options in (("ws1", {}), ("ws2", {"by_name": "ws1"}), ("ws2", {"by_name": "ws1", "unlabelled": True})):
        found = resolved(plane, secrets, workspace, "cluster-ffm-1", **options)
        assert found == resolved([], {}, workspace, "cluster-ffm-1"), "as if there were none"


@pytest.mark.parametrize("labels", [{}, {CAPI: "ffm"}, {WORKSPACE: "ws1"}])
def test_a_cluster_of_cluster_api_without_the_label_works_by_name(labels: dict[str, str]) -> None:
    status = {"conditions": [{"type": "Available", "status": "True"}]}
    plane = [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "ffm"}, "status": status}]
    secrets = {"ffm-kubeconfig": {"metadata": {"name": "ffm-kubeconfig", "labels": labels}, "data": {"value": SEALED}}}
    assert isinstance(resolved(plane, secrets, "ws1", "ffm", by_name="ws1"), SealedKubeconfig)
    assert resolved(plane, secrets, "ws1", "ffm") == resolved([], {}, "ws1", "ffm")


@pytest.mark.parametrize("other", [{WORKSPACE: "ws2"}, {WORKSPACE: ""}])
def test_by_name_no_secret_is_used_that_another_workspace_has_or_names(other: dict[str, str]) -> None:
    plane = [documented()]
    name = "kind-cluster-ffm-1-kubeconfig"
    secrets: dict[str, Any] = {name: {"metadata": {"name": name}, "data": {"kubeconfig": SEALED}}}
    none = resolved(plane, {}, "ws1", "cluster-ffm-1", by_name="ws1")
    assert isinstance(none, NotUsable) and none.reason == "KubeconfigMissing"
    labelled = {name: {**secrets[name], "metadata": {"name": name, "labels": other}}}
    imported = {**documented(), "metadata": {"name": "x", "labels": other}}
    for found in (
        resolved(plane, labelled, "ws1", "cluster-ffm-1", by_name="ws1"),
        resolved([*plane, imported], secrets, "ws1", "cluster-ffm-1", by_name="ws1"),
    ):
        assert isinstance(found, NotUsable) and replace(found, detail="") == replace(none, detail="")


# One workspace and one name come more often than the others: where nothing fits together, no cluster is found, and the test shows little.
WORKSPACES = st.sampled_from(["ws1", "ws1", "ws1", "ws2"])
OF_A_WORKSPACE = st.fixed_dictionaries({WORKSPACE: WORKSPACES})
UNLABELLED: st.SearchStrategy[dict[str, str]] = st.just({})
LABELLED = st.dictionaries(st.sampled_from([WORKSPACE, NAME, CAPI]), st.sampled_from(["ws1", "ws2", "", "c1", "c2"]))
LABELS = OF_A_WORKSPACE | UNLABELLED | LABELLED
SECRET_LABELS = st.fixed_dictionaries({WORKSPACE: st.sampled_from(["ws1", "ws2"])}) | UNLABELLED | LABELLED
SECRET_NAMES = ("s1", "s2", "c1-kubeconfig")
A_CLUSTER = st.tuples(
    LABELS,
    st.sampled_from(["platform.edge-portal.eu/v1alpha1", "cluster.x-k8s.io/v1beta2"]),
    st.sampled_from([*SECRET_NAMES, *SECRET_NAMES, ""]),
)
OBJECTS = st.fixed_dictionaries({"c1": A_CLUSTER}, optional={"c2": A_CLUSTER, "c3": A_CLUSTER})
SECRETS = st.fixed_dictionaries(dict.fromkeys(SECRET_NAMES, SECRET_LABELS)) | st.dictionaries(st.sampled_from(SECRET_NAMES), SECRET_LABELS)


@examples(300)
@given(
    OBJECTS,
    SECRETS,
    WORKSPACES,
    st.sampled_from(["c1", "c1", "c2"]),
    st.booleans(),
    st.sampled_from(["", "ws1", "ws2"]),
)
def test_whatever_labels_and_flags_there_are_no_workspace_gets_the_cluster_or_the_secret_of_another_one(
    drawn: dict[str, tuple[dict[str, str], str, str]],
    labels: dict[str, dict[str, str]],
    workspace: str,
    name: str,
    unlabelled: bool,
    by_name: str,
) -> None:
    objects = [
        {
            "apiVersion": version,
            "metadata": {"name": own, "labels": marks},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "kubeconfigSecretRef": {"name": ref} if ref else {}},
        }
        for own, (marks, version, ref) in drawn.items()
    ]
    secrets = {own: {"metadata": {"name": own, "labels": marks}, "data": {"value": f"text of {own}"}} for own, marks in labels.items()}
    options: dict[str, Any] = {"unlabelled": unlabelled, "by_name": by_name}
    found = resolved(objects, secrets, workspace, name, **options)
    owners = {own: marks.get(WORKSPACE, by_name) for own, (marks, _version, _ref) in drawn.items()}
    named = {own: ref or (f"{own}-kubeconfig" if "x-k8s" in version else "") for own, (_marks, version, ref) in drawn.items()}
    if isinstance(found, SealedKubeconfig):
        secret = found.text.removeprefix("text of ")
        assert workspace in {owners[own] for own, ref in named.items() if ref == secret}
        if WORKSPACE in labels[secret]:
            assert labels[secret][WORKSPACE] == workspace
        elif CAPI not in labels[secret]:
            assert unlabelled or workspace == by_name
            assert {owners[own] for own, ref in named.items() if ref == secret} == {workspace}
    else:
        mine = [obj for own, obj in zip(drawn, objects, strict=True) if owners[own] == workspace]
        alone = resolved(mine, {}, workspace, name, **options)
        assert isinstance(alone, NotUsable) and replace(found, detail="") == replace(alone, detail="")


def test_a_cluster_without_the_label_touches_the_workspace_that_has_it_by_name() -> None:
    touched: list[str] = []
    clusters = clusters_of(Secrets(), touched.append, by_name="ws1")
    plain = documented()
    clusters.objects.replace([plain, cluster("c2", "ws2")])
    clusters.secrets.put(secret("kind-cluster-ffm-1-kubeconfig", "2"))
    assert touched == ["ws1"]
    touched.clear()
    labelled = {**plain, "metadata": {**plain["metadata"], "labels": {WORKSPACE: "ws2"}}}
    clusters.objects.put(labelled)
    assert sorted(touched) == ["ws1", "ws2"], "the one loses it, the other one gets it"
    touched.clear()
    clusters.objects.missing(plain)
    assert touched == ["ws1"]
    quiet, nothing = watched()
    quiet.objects.put(plain)
    assert nothing == []


def test_the_platform_learns_once_of_each_cluster_that_belongs_to_no_workspace() -> None:
    clusters, _touched = watched()

    def reported() -> tuple[int, list[tuple[int, dict[str, Any]]]]:
        with log_records("mesh_operator", logging.INFO) as logged:
            count = clusters.report_unlabelled()
        return count, [(record.levelno, vars(record)["fields"]) for record in logged.records]

    def line(count: int, name: str) -> tuple[int, dict[str, Any]]:
        return logging.WARNING, {"event": "clusters_unlabelled", "count": count, "name": name}

    assert reported() == (0, [])
    clusters.objects.replace([cluster("c1", "ws1"), {"metadata": {"name": "b"}}, cluster("a", "")])
    assert reported() == (2, [line(2, "a-, b")])
    assert reported() == (2, [])
    clusters.objects.put({"metadata": {"name": "c"}})
    assert reported() == (3, [line(3, "c")])
    clusters.objects.put({"metadata": {"name": "b", "labels": {WORKSPACE: "ws1"}}})
    assert reported() == (2, [])
    clusters.objects.put({"metadata": {"name": "b"}})
    assert reported() == (3, [line(3, "b")])


def test_clusters_that_a_workspace_has_by_name_are_not_reported() -> None:
    clusters = clusters_of(Secrets(), lambda _: None, by_name="ws1")
    clusters.objects.replace([documented(), cluster("a", "")])
    assert clusters.report_unlabelled() == 1, "an empty label gives a Cluster to no workspace"
