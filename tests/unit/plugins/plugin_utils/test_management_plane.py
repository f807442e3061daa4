# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From a KubernetesCluster to its Cluster on the management plane and its Secret: what is found, waited for and reported."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import load_credentials
from mesh_operator.base.serve import Metrics
from mesh_operator.credentials.management_plane import (
    ELB_ANNOTATION,
    NotUsable,
    SecretRef,
    Usable,
    cluster_of,
    sealed_kubeconfig,
    secret_of,
)
from mesh_operator.runs.dry_runs import Bounds, DryRuns, Permits
from tests.testing.rows import one_test
from tests.testing.unconfined_processes import UnconfinedProcesses

A, B = "1a2b3c4d5e6f7a8b", "9z8y7x6w5v4u3t2s"
ELB = "41fae315-2964-49c4-afde-bc6d358cd031"
CANARY = "c4n4ry-of-a-tenant"


def cluster(
    name: str, *, workspace: str | None = A, source: str | None = None, namespace: str | None = None, **status: Any
) -> dict[str, Any]:
    labels = {"source-workspace": workspace, "source-name": source, "source-namespace": namespace}
    return {
        "apiVersion": "platform.edge-portal.eu/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {f"edge-connect.eu/{key}": value for key, value in labels.items() if value is not None}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "kubeconfigSecretRef": {"name": "s", "key": "kubeconfig"},
            **status,
        },
    }


def kubernetes_cluster(workspace: str = A, **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "ffm", "annotations": {"kcp.io/cluster": workspace, **annotations}}}


def secret(content: Mapping[str, Any] | None = None, *, key: str = "kubeconfig", workspace: str | None = A) -> dict[str, Any]:
    text = yaml.safe_dump(content if content is not None else kubeconfig()).encode()
    labels = {} if workspace is None else {"edge-connect.eu/source-workspace": workspace}
    return {"metadata": {"name": "s", "labels": labels}, "data": {key: base64.b64encode(text).decode()}}


def kubeconfig(server: str = "https://192.0.2.1:6443", **user: Any) -> dict[str, Any]:
    return {
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": CANARY, **user}}],
    }


def usable_cluster(
    name: str, kubernetes: Any, ref: SecretRef, secret: Any, *, allowed: Sequence[str] = (), unlabelled: Callable[[], bool] = lambda: False
) -> Usable | NotUsable:
    """The cluster with the Secret's kubeconfig, as a dry run opens it."""
    processes: Any = UnconfinedProcesses()
    with DryRuns(processes, Bounds(), Metrics(), Permits(networks=tuple(allowed))).begin(1) as process:
        return process.open({name: sealed_kubeconfig(name, kubernetes, ref, secret, unlabelled=unlabelled)})[name]


def found(clusters: list[dict[str, Any]], *, workspace: str = A, namespace: str = "default", name: str = "ffm") -> str:
    """The name of the Cluster, or the reason why there is none."""
    answer = cluster_of(clusters, workspace, namespace, name)
    if isinstance(answer, NotUsable):
        assert (answer.name, answer.fatal) == (name, answer.reason == "ClusterAmbiguous")
        return answer.reason
    return str(answer["metadata"]["name"])


def why_not(answer: SecretRef | Usable | NotUsable) -> tuple[str, bool]:
    assert isinstance(answer, NotUsable)
    assert answer.message.endswith(".") and CANARY not in answer.message
    return answer.reason, answer.fatal


# Whose cluster it is


def test_a_cluster_is_found_by_the_labels_of_workspace_and_name() -> None:
    assert found([cluster("ffm", workspace=B), cluster("xyz-1", source="ffm"), cluster("other")]) == "xyz-1"


def test_without_a_label_for_the_name_the_cluster_has_the_name_itself() -> None:
    assert found([cluster("ffm")]) == "ffm"
    assert found([cluster("ffm", source="ber")]) == "ClusterNotFound"


def test_the_namespace_has_to_be_the_same_where_the_cluster_reports_it() -> None:
    both = [cluster("x-1", source="ffm", namespace="default"), cluster("x-2", source="ffm", namespace="prod")]
    assert found(both) == "x-1"
    assert found(both, namespace="prod") == "x-2"
    assert found(both, namespace="dev") == "ClusterNotFound"


def test_two_clusters_for_one_name_are_reported_and_none_is_taken() -> None:
    assert found([cluster("x-1", source="ffm"), cluster("x-2", source="ffm")]) == "ClusterAmbiguous"
    assert found([cluster("x-1", source="ffm"), cluster("ffm")]) == "ClusterAmbiguous"


@pytest.mark.parametrize("labels", [None, {}, {"edge-connect.eu/source-workspace": ""}, {"edge-connect.eu/source-workspace": B}])
def test_another_ones_cluster_of_that_name_is_distinguished_from_none_by_nothing(labels: dict[str, str] | None) -> None:
    other = cluster("ffm")
    other["metadata"]["labels"] = labels
    assert cluster_of([other], A, "default", "ffm") == cluster_of([], A, "default", "ffm")
    assert cluster_of([other], "", "default", "ffm") == cluster_of([], "", "default", "ffm")


def test_a_name_that_is_too_long_for_a_label_is_found_by_the_name_alone() -> None:
    long = "a" * 70
    assert found([cluster("x-1", source=long[:63])], name=long) == "ClusterNotFound"
    assert found([cluster(long, source=long[:63]), cluster("x-1", source=long[:63])], name=long) == long
    assert found([cluster("x-1", source=long[:63])], name=long[:63]) == "x-1"


NAMES = st.sampled_from(["ffm", "ber", "", A, B, "default", "a" * 63, "a" * 70])
LABELS = st.dictionaries(
    st.sampled_from(["edge-connect.eu/source-workspace", "edge-connect.eu/source-name", "edge-connect.eu/source-namespace"]), NAMES
)
CLUSTERS = st.lists(
    st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": NAMES}, optional={"labels": LABELS | st.none()})}), max_size=6
)


@given(CLUSTERS, NAMES, NAMES, st.sampled_from([A, B]))
def test_no_workspace_ever_gets_a_cluster_or_an_answer_that_depends_on_another_ones(
    clusters: list[dict[str, Any]], namespace: str, name: str, workspace: str
) -> None:
    answer = cluster_of(clusters, workspace, namespace, name)
    own = [c for c in clusters if (c["metadata"].get("labels") or {}).get("edge-connect.eu/source-workspace") == workspace]
    assert answer == cluster_of(own, workspace, namespace, name)
    assert isinstance(answer, NotUsable) or any(answer is c for c in own)


@given(CLUSTERS, NAMES, NAMES, st.sampled_from([A, B]), st.sampled_from(["", A, B]))
def test_by_name_one_workspace_gets_clusters_without_the_label_and_every_label_decides_alone(
    clusters: list[dict[str, Any]], namespace: str, name: str, workspace: str, by_name: str
) -> None:
    answer = cluster_of(clusters, workspace, namespace, name, by_name)
    key = "edge-connect.eu/source-workspace"
    own = [c for c in clusters if (c["metadata"].get("labels") or {}).get(key, by_name) == workspace]
    assert answer == cluster_of(own, workspace, namespace, name, by_name)
    assert isinstance(answer, NotUsable) or any(answer is c for c in own)
    if workspace != by_name:
        assert answer == cluster_of(clusters, workspace, namespace, name)


def test_a_cluster_without_the_label_is_found_by_its_name_in_the_one_workspace() -> None:
    clusters = [cluster("ffm", workspace=None), cluster("ber", workspace=""), cluster("muc", workspace=B)]
    found = {name: cluster_of(clusters, A, "default", name, by_name=A) for name in ("ffm", "ber", "muc")}
    assert found["ffm"] is clusters[0]
    assert [getattr(found[name], "reason", "") for name in ("ber", "muc")] == ["ClusterNotFound"] * 2, "an empty label is a label"
    assert cluster_of(clusters, B, "default", "ffm", by_name=A) == cluster_of([], B, "default", "ffm")
    assert cluster_of(clusters, "", "default", "ffm") == cluster_of([], "", "default", "ffm")


# Whether it is ready


@pytest.mark.parametrize(
    "conditions", [None, [], [{"type": "Ready", "status": "False", "reason": "Provisioning"}], [{"type": "Synced", "status": "True"}]]
)
def test_a_cluster_that_is_not_ready_is_waited_for(conditions: Any) -> None:
    answer = secret_of(cluster("ffm", conditions=conditions), "ffm")
    assert why_not(answer) == ("ClusterNotReady", False)
    assert isinstance(answer, NotUsable) and ("Provisioning" in answer.message) == bool(conditions and conditions[0].get("reason"))


def test_a_cluster_without_any_status_is_waited_for() -> None:
    assert why_not(secret_of({"metadata": {"name": "ffm"}}, "ffm")) == ("ClusterNotReady", False)


def test_what_a_condition_says_besides_its_reason_is_not_passed_on() -> None:
    condition = {"type": "Ready", "status": "Unknown", "reason": f"x\n\x1b[31m token={CANARY}" + "y" * 500, "message": CANARY}
    answer = secret_of(cluster("ffm", conditions=[condition]), "ffm")
    assert why_not(answer) == ("ClusterNotReady", False)
    assert isinstance(answer, NotUsable) and len(answer.message) < 150 and answer.message.isprintable()


@pytest.mark.parametrize("status", ["not-installed", "error"])
def test_a_cluster_without_cilium_is_an_error_that_says_so(status: str) -> None:
    answer = secret_of(cluster("ffm", capabilities=[{"name": "gpu"}, {"name": "cilium-cni", "details": {"status": status}}]), "ffm")
    assert why_not(answer) == ("CiliumNotReady", True)
    assert isinstance(answer, NotUsable) and status in answer.message


@one_test(
    "capabilities",
    None,
    [],
    [{"name": "gpu", "details": {"status": "error"}}],
    [{"name": "cilium-cni"}],
    [{"name": "cilium-cni", "details": {"status": "ready"}}],
    [{"name": "cilium-cni", "details": {"status": "starting"}}],
)
def test_a_capability_that_is_not_known_stops_nothing(capabilities: Any) -> None:
    assert secret_of(cluster("ffm", capabilities=capabilities), "ffm") == SecretRef(name="s", key="kubeconfig")


@pytest.mark.parametrize("ref", [None, {}, {"name": ""}, {"key": "kubeconfig"}])
def test_a_cluster_without_a_kubeconfig_is_waited_for(ref: Any) -> None:
    assert why_not(secret_of(cluster("ffm", kubeconfigSecretRef=ref), "ffm")) == ("KubeconfigMissing", False)


@one_test("name", "../configmaps/x", "a/b", "a?x=y", "A", "a\n", "%2e%2e", ["a"])
def test_a_secret_name_that_would_lead_elsewhere_is_not_asked_for(name: Any) -> None:
    assert why_not(secret_of(cluster("ffm", kubeconfigSecretRef={"name": name}), "ffm")) == ("KubeconfigMissing", False)


@pytest.mark.parametrize("name", [f"{'x' * 63}-kubeconfig", "a.b-c", "x" * 253])
def test_a_secret_may_have_any_name_that_the_api_server_takes(name: str) -> None:
    assert secret_of(cluster("ffm", kubeconfigSecretRef={"name": name}), "ffm") == SecretRef(name=name)


def test_a_reference_without_a_key_leaves_the_choice() -> None:
    ref = secret_of(cluster("ffm", kubeconfigSecretRef={"name": "s"}), "ffm")
    assert isinstance(ref, SecretRef)
    opened = {key: usable_cluster("ffm", kubernetes_cluster(), ref, secret(key=key)) for key in ("kubeconfig", "value", "config")}
    assert {key for key, answer in opened.items() if isinstance(answer, Usable)} == {"kubeconfig", "value"}


READY, NOT_READY = ({"type": "Ready", "status": status} for status in ("True", "False"))
AVAILABLE, NOT_AVAILABLE = ({"type": "Available", "status": status} for status in ("True", "False"))


@one_test(
    "version status ready",
    ("v1beta1", {"conditions": [READY]}, True),
    ("v1beta1", {"conditions": [NOT_READY]}, False),
    ("v1beta1", {"conditions": [READY], "v1beta2": {"conditions": [NOT_AVAILABLE]}}, True),
    ("v1beta1", {"v1beta2": {"conditions": [AVAILABLE]}}, True),
    ("v1beta2", {"conditions": [AVAILABLE], "deprecated": {"v1beta1": {"conditions": [NOT_READY]}}}, True),
    ("v1beta2", {"conditions": [NOT_AVAILABLE]}, False),
    ("v1beta2", {"phase": "Provisioned"}, False),
)
def test_cluster_api_is_understood_in_both_versions(version: str, status: dict[str, Any], ready: bool) -> None:
    found = {**cluster("x-1"), "apiVersion": f"cluster.x-k8s.io/{version}", "status": status}
    answer = secret_of(found, "ffm")
    if ready:
        assert answer == SecretRef(name="x-1-kubeconfig", key="value", capi_cluster="x-1")
    else:
        assert why_not(answer) == ("ClusterNotReady", False)


# With what it is contacted


def test_a_cluster_is_usable_with_its_kubeconfig_rebuilt() -> None:
    answer = usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s", key="kubeconfig"), secret())
    assert isinstance(answer, Usable) and (answer.name, answer.variables) == ("ffm", {})
    assert load_credentials("ffm", answer.kubeconfig, None).address == "192.0.2.1:6443"
    assert CANARY not in repr(answer)


@one_test(
    "key present taken",
    ("", "kubeconfig", True),
    ("", "value", True),
    ("", "config", False),
    ("config", "config", True),
    ("kubeconfig", "value", False),
    ("value", "kubeconfig", False),
)
def test_the_key_that_the_cluster_names_is_read_and_no_other(key: str, present: str, taken: bool) -> None:
    answer = usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s", key=key), secret(key=present))
    assert isinstance(answer, Usable) if taken else why_not(answer) == ("KubeconfigMissing", False)


@pytest.mark.parametrize("missing", [None, {}, {"data": None}, {"metadata": {"name": "s"}, "data": {"kubeconfig": ""}}])
def test_a_secret_that_is_not_there_is_waited_for(missing: Any) -> None:
    assert why_not(usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s"), missing)) == ("KubeconfigMissing", False)


def test_a_secret_of_another_workspace_is_distinguished_from_none_by_nothing() -> None:
    ref = SecretRef(name="s")
    assert isinstance(usable_cluster("ffm", kubernetes_cluster(), ref, secret(workspace=A)), Usable)
    none = usable_cluster("ffm", kubernetes_cluster(), ref, None)
    for owner in (B, "", None):
        answer = usable_cluster("ffm", kubernetes_cluster(), ref, secret(workspace=owner))
        assert isinstance(answer, NotUsable) and isinstance(none, NotUsable)
        assert replace(answer, detail="") == replace(none, detail="")
    without_owner: dict[str, Any] = {"metadata": {"name": "ffm"}}
    assert why_not(usable_cluster("ffm", without_owner, ref, secret(workspace=A))) == ("KubeconfigMissing", False)


def test_a_secret_without_the_label_of_a_workspace_is_refused() -> None:
    ref, none = SecretRef(name="s"), usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s"), None)
    answer = usable_cluster("ffm", kubernetes_cluster(), ref, secret(workspace=None))
    assert isinstance(answer, NotUsable) and isinstance(none, NotUsable)
    assert replace(answer, detail="") == replace(none, detail=""), "a tenant cannot find out whether there is such a Secret"
    assert answer.detail == "SecretWithoutWorkspaceLabel" and "edge-connect.eu/source-workspace" in answer.message
    allowed = usable_cluster("ffm", kubernetes_cluster(), ref, secret(workspace=None), unlabelled=lambda: True)
    assert isinstance(allowed, Usable)


def test_who_allows_unlabelled_secrets_does_not_allow_those_of_other_workspaces() -> None:
    answer = usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s"), secret(workspace=B), unlabelled=lambda: True)
    assert why_not(answer) == ("KubeconfigMissing", False)


@pytest.mark.parametrize(
    ("named", "label", "taken"), [("x-1", "x-1", True), ("", "x-1", False), ("x-1", "x-2", False), ("x-1", None, False)]
)
def test_a_secret_that_cluster_api_made_for_the_cluster_needs_no_other_label(named: str, label: str | None, taken: bool) -> None:
    content = secret(workspace=None)
    content["metadata"]["labels"] = {} if label is None else {"cluster.x-k8s.io/cluster-name": label}
    answer = usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s", capi_cluster=named), content)
    assert isinstance(answer, Usable) if taken else why_not(answer) == ("KubeconfigMissing", False)


@pytest.mark.parametrize(
    ("content", "key"), [(kubeconfig(exec={"command": CANARY}), "exec"), (kubeconfig("https://169.254.169.254"), "server")]
)
def test_a_kubeconfig_that_is_refused_is_an_error_that_names_the_key(content: dict[str, Any], key: str) -> None:
    answer = usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s"), secret(content))
    assert why_not(answer) == ("KubeconfigRefused", True)
    assert isinstance(answer, NotUsable) and key in answer.message


def test_addresses_that_are_allowed_are_usable() -> None:
    content = secret(kubeconfig("https://127.0.0.1:6443"))
    assert isinstance(usable_cluster("ffm", kubernetes_cluster(), SecretRef(name="s"), content, allowed=["127.0.0.0/8"]), Usable)


def test_a_kubernetes_cluster_that_the_workspace_does_not_have_is_waited_for() -> None:
    assert why_not(usable_cluster("ffm", None, SecretRef(name="s"), secret())) == ("ClusterNotFound", False)


def test_the_reserved_load_balancer_is_taken_from_the_kubernetes_cluster() -> None:
    answer = usable_cluster("ffm", kubernetes_cluster(**{ELB_ANNOTATION: ELB}), SecretRef(name="s"), secret())
    assert isinstance(answer, Usable) and answer.variables == {"cilium_mesh_elb_id": ELB}


@one_test("value", "{{ 1 }}", f"{ELB} ", f"{ELB}\n", ELB[:-1], f"urn:uuid:{ELB}", CANARY)
def test_a_load_balancer_id_that_is_none_is_an_error_and_not_another_load_balancer(value: str) -> None:
    answer = usable_cluster("ffm", kubernetes_cluster(**{ELB_ANNOTATION: value}), SecretRef(name="s"), secret())
    assert why_not(answer) == ("LoadBalancerIdInvalid", True)
    assert isinstance(answer, NotUsable) and ELB_ANNOTATION in answer.message


@pytest.mark.parametrize("status", [{}, {"phase": "Ready"}, {"phase": "Failed"}])
def test_the_phase_of_the_kubernetes_cluster_decides_nothing(status: dict[str, Any]) -> None:
    assert isinstance(usable_cluster("ffm", {**kubernetes_cluster(), "status": status}, SecretRef(name="s"), secret()), Usable)
