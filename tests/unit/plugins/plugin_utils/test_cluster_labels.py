# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labels of Clusters and Secrets: what is missing is added, what contradicts is reported and then nothing is, and the operator agrees."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.cluster_labels import FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import NAME_LABEL, NAMESPACE_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import WORKSPACE_LABEL as WORKSPACE
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.cluster_labels import LabelPlan, label_plan, secret_name
from mesh_operator.credentials.management_plane import CAPI_LABEL as CAPI
from mesh_operator.credentials.management_plane import (
    NotUsable,
    cluster_of,
    owner_of,
    sealed_kubeconfig,
    secret_ref,
)
from tests.testing.properties import examples
from tests.testing.rows import one_test

A, B = "1a2b3c4d5e6f7a8b", "9z8y7x6w5v4u3t2s"
OWN, CLUSTER_API = "platform.edge-portal.eu/v1alpha1", "cluster.x-k8s.io/v1beta2"
FFM = {"cluster": "ffm", "workspace": A}


def cluster(called: str, ref: str = "", /, *, version: str = OWN, **labels: str) -> dict[str, Any]:
    keys = {"workspace": WORKSPACE, "name": NAME_LABEL, "namespace": NAMESPACE_LABEL}
    metadata = {"name": called, "namespace": "fleet", "resourceVersion": "7", "labels": {keys[key]: value for key, value in labels.items()}}
    status = {"kubeconfigSecretRef": {"name": ref}} if ref else {}
    return {"apiVersion": version, "kind": "Cluster", "metadata": metadata, "status": status}


def secret(name: str, **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "fleet", "resourceVersion": "8"}
    keys = {"workspace": WORKSPACE, "capi": CAPI}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata | {"labels": {keys[key]: value for key, value in labels.items()}}}


def added(plan: LabelPlan) -> dict[str, dict[str, str]]:
    assert plan.problems == ()
    return {f"{patch['kind']}/{patch['metadata']['name']}": patch["metadata"]["labels"] for patch in plan.patches}


def problem(*arguments: Any) -> str:
    plan = label_plan(*arguments)
    assert plan.patches == (), "nothing is written beside a problem"
    [found] = plan.problems
    return found


def patched(objects: Sequence[dict[str, Any]], plan: LabelPlan) -> list[dict[str, Any]]:
    """The objects as they are when the patches are written."""
    after = copy.deepcopy(list(objects))
    for patch in plan.patches:
        for obj in after:
            if (obj["kind"], obj["metadata"]["name"]) == (patch["kind"], patch["metadata"]["name"]):
                obj["metadata"]["labels"] = {**obj["metadata"]["labels"], **patch["metadata"]["labels"]}
    return after


# What is added


def test_a_cluster_and_its_secret_get_the_labels_of_the_owner() -> None:
    owner = {**FFM, "namespace": "default", "name": "cluster-ffm-1"}
    plan = label_plan([cluster("ffm", "s"), cluster("ber", "t")], [secret("s"), secret("t")], [owner])
    assert added(plan) == {
        "Cluster/ffm": {WORKSPACE: A, NAMESPACE_LABEL: "default", NAME_LABEL: "cluster-ffm-1"},
        "Secret/s": {WORKSPACE: A},
    }
    assert [patch["metadata"]["resourceVersion"] for patch in plan.patches] == ["7", "8"], "a label set meanwhile is not overwritten either"
    assert [dict(row) for row in plan.missing] == [{"cluster": "ber", "workspace": "LOGICAL_CLUSTER"}]


def test_what_is_there_is_not_written_again() -> None:
    found = [cluster("ffm", "s", workspace=A)], [secret("s", workspace=A)]
    assert added(label_plan(*found, [FFM])) == {}
    assert added(label_plan(*found, [{**FFM, "name": "x"}])) == {"Cluster/ffm": {NAME_LABEL: "x"}}


def test_the_secret_of_cluster_api_is_found_by_its_name() -> None:
    objects = [cluster("ffm", version=CLUSTER_API)], [secret("ffm-kubeconfig", capi="ffm"), secret("s")]
    assert added(label_plan(*objects, [FFM])) == {"Cluster/ffm": {WORKSPACE: A}, "Secret/ffm-kubeconfig": {WORKSPACE: A}}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (cluster("ffm"), "Cluster ffm names no Secret yet."),
        (cluster("ffm", "../x"), "Cluster ffm names no Secret yet."),
        (cluster("ffm", "s"), "Secret s of Cluster ffm does not exist yet."),
    ],
)
def test_a_secret_that_does_not_exist_yet_does_not_hold_up_its_cluster(found: dict[str, Any], sentence: str) -> None:
    plan = label_plan([found], [], [FFM])
    assert (added(plan), plan.waiting, plan.missing) == ({"Cluster/ffm": {WORKSPACE: A}}, (sentence,), ())


def test_without_owners_the_clusters_that_no_workspace_can_use_are_listed() -> None:
    clusters = [
        *(cluster("a"), cluster("b", workspace=""), cluster("c", "s", workspace=A), cluster("d", "t", workspace=B)),
        *(cluster("e", "gone", workspace=A), cluster("f", version=CLUSTER_API, workspace=A)),
    ]
    plan = label_plan(clusters, [secret("s"), secret("t", workspace=B), secret("f-kubeconfig", capi="f")], [])
    assert {row["cluster"]: row["workspace"] for row in plan.missing} == {"a": "LOGICAL_CLUSTER", "b": "LOGICAL_CLUSTER", "c": A}
    assert (plan.patches, plan.problems) == ((), ())


# What contradicts


def test_a_label_with_another_value_is_reported_with_the_object_the_value_and_the_remedy() -> None:
    said = problem([cluster("ffm", "s", workspace=B)], [secret("s")], [FFM])
    assert said.startswith(f"Cluster ffm has the label {WORKSPACE} with the value '{B}', and not '{A}'. No label is overwritten.")
    assert said.endswith(f"kubectl -n fleet label cluster.platform.edge-portal.eu ffm {WORKSPACE}-")
    said = problem([cluster("ffm", "s")], [secret("s", workspace=B)], [FFM])
    assert said.startswith(f"Secret s has the label {WORKSPACE} with the value '{B}'") and "-n fleet label secret s" in said
    assert "'', and not" in problem([cluster("ffm", workspace="")], [], [FFM]), "an empty label is one"
    assert NAME_LABEL in problem([cluster("ffm", name="x")], [], [{**FFM, "name": "y"}])


@pytest.mark.parametrize("other", [{"workspace": B}, {}])
def test_a_secret_that_a_cluster_of_another_or_of_no_workspace_names_is_given_to_none(other: dict[str, str]) -> None:
    said = problem([cluster("ffm", "s"), cluster("imported", "s", **other)], [secret("s")], [FFM])
    assert said.startswith(
        f"Secret s is named by Clusters that are not of one workspace: ffm ({A}), imported ({other.get('workspace', 'no')}"
    )
    both = [FFM, {"cluster": "imported", "workspace": A}]
    assert other or set(added(label_plan([cluster("ffm", "s"), cluster("imported", "s")], [secret("s")], both))) == {
        "Cluster/ffm",
        "Cluster/imported",
        "Secret/s",
    }


def test_the_secret_that_cluster_api_made_for_another_cluster_is_not_taken() -> None:
    said = problem([cluster("ffm", "s")], [secret("s", capi="ber")], [FFM])
    assert "which Cluster API made for Cluster ber." in said
    assert said.endswith(f"label the Secret yourself: kubectl -n fleet label secret s {WORKSPACE}={A}")
    assert set(added(label_plan([cluster("ffm", "s")], [secret("s", capi="ber", workspace=A)], [FFM]))) == {"Cluster/ffm"}


def test_two_clusters_never_stand_for_one_kubernetes_cluster() -> None:
    owners = [{"cluster": "a", "workspace": A, "name": "ffm"}, {"cluster": "b", "workspace": A, "name": "ffm"}]
    clusters = [cluster("a"), cluster("b")]
    assert "Clusters a and b would both stand for KubernetesCluster ffm" in problem(clusters, [], owners)
    apart = [{**owner, "namespace": f"n{number}"} for number, owner in enumerate(owners)]
    assert len(added(label_plan(clusters, [], apart))) == 2
    assert "a and ffm would both" in problem([cluster("a"), cluster("ffm", workspace=A)], [], owners[:1])
    assert "a and ffm would both" in problem([cluster("a"), cluster("ffm", workspace=A, namespace="n1")], [], owners[:1])
    same = [{**owner, "namespace": "n1"} for owner in owners]
    assert "a and b would both" in problem(clusters, [], same)


@one_test(
    "owners said",
    ("ffm", "owners: must be a list"),
    (["ffm"], "owners[0]: must be a mapping"),
    ([{"cluster": "ffm"}], "owners[0].workspace: must be the logical cluster of a workspace"),
    ([{"cluster": "ffm", "workspace": "LOGICAL_CLUSTER"}], "owners[0].workspace: "),
    ([{"cluster": "ffm", "workspace": "root:org"}], "and not its path"),
    ([{"workspace": A}], "owners[0].cluster: "),
    ([{**FFM, "nam": "x"}], "unknown key; did you mean name?"),
    ([{**FFM, "name": "a" * 64}], "owners[0].name: must be the name of a KubernetesCluster, of at most 63"),
    ([FFM, FFM], "owners[1].cluster: ffm is there twice"),
    ([{**FFM, "cluster": "fmf"}], "There is no Cluster fmf."),
)
def test_owners_that_are_none_are_reported(owners: Any, said: str) -> None:
    assert said in problem([cluster("ffm")], [], owners)


# What the operator makes of it

NAMES = ("a", "b", "c")
SECRET_NAMES = ("s", "t", "a-kubeconfig")
UNLABELLED: st.SearchStrategy[dict[str, str]] = st.just({})
LABELS = UNLABELLED | st.fixed_dictionaries(
    {}, optional={"workspace": st.sampled_from([A, B, ""]), "name": st.sampled_from(NAMES), "namespace": st.sampled_from(["n1", "n2"])}
)
CLUSTERS = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(st.sampled_from(["", "s", "s", "a-kubeconfig"]), st.sampled_from([OWN, CLUSTER_API]), LABELS),
    min_size=2,
)
SECRET_LABELS = UNLABELLED | st.fixed_dictionaries(
    {}, optional={"workspace": st.sampled_from([A, B, B, ""]), "capi": st.sampled_from(NAMES)}
)
SECRETS = st.fixed_dictionaries(dict.fromkeys(SECRET_NAMES, SECRET_LABELS)) | st.dictionaries(st.sampled_from(SECRET_NAMES), SECRET_LABELS)
Clusters = dict[str, tuple[str, str, dict[str, str]]]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Clusters, dict[str, dict[str, str]], list[dict[str, str]]]:
    """Clusters, Secrets and owners. An owner agrees with the label of the workspace: else the plan is refused, and shows little."""
    clusters = draw(CLUSTERS)
    owners = []
    for name in draw(st.lists(st.sampled_from([*clusters, *clusters, *NAMES]), min_size=1, max_size=2, unique=True)):
        labels = clusters[name][2] if name in clusters else {}
        agreed = {"cluster": name, "workspace": labels.get("workspace") or draw(st.sampled_from([A, A, B]))}
        more = draw(
            UNLABELLED | st.fixed_dictionaries({}, optional={"name": st.sampled_from(NAMES), "namespace": st.sampled_from(["n1", "n2"])})
        )
        owners.append({**agreed, **more})
    return clusters, draw(SECRETS), owners


@examples(300)
@given(worlds())
def test_labels_are_only_added_and_then_the_operator_finds_every_listed_cluster_and_takes_none_from_another_workspace(
    drawn: tuple[Clusters, dict[str, dict[str, str]], list[dict[str, str]]],
) -> None:
    clusters, secrets, owners = drawn
    before = [cluster(name, ref, version=version, **labels) for name, (ref, version, labels) in clusters.items()]
    held = [secret(name, **labels) for name, labels in secrets.items()]
    plan = label_plan(before, held, owners)
    assert not (plan.patches and plan.problems)
    if plan.problems:
        return
    after, opened = patched(before, plan), patched(held, plan)
    for old, new in zip([*before, *held], [*after, *opened], strict=True):
        kept, now = old["metadata"]["labels"], new["metadata"]["labels"]
        assert kept.items() <= now.items()
        assert not kept.get(WORKSPACE) or now[WORKSPACE] == kept[WORKSPACE]
    for owner in owners:
        name, namespace = owner.get("name", owner["cluster"]), owner.get("namespace", "n1")
        [meant] = [obj for obj in after if obj["metadata"]["name"] == owner["cluster"]]
        name = meant["metadata"]["labels"].get(NAME_LABEL, name)
        namespace = meant["metadata"]["labels"].get(NAMESPACE_LABEL, namespace)
        assert cluster_of(after, owner["workspace"], namespace, name) == meant
        ref = secret_ref(meant)
        assert secret_name(meant) == ref.name
        found = next((obj for obj in opened if obj["metadata"]["name"] == ref.name), None)
        if found is not None:
            wanted = {"metadata": {"annotations": {"kcp.io/cluster": owner["workspace"]}}}
            content = {**found, "data": {"kubeconfig": "e30=", "value": "e30="}}
            assert not isinstance(sealed_kubeconfig(name, wanted, ref, content), NotUsable)
            naming = {owner_of(obj) for obj in after if secret_ref(obj).name == ref.name}
            assert naming == {owner["workspace"]}
    again = label_plan(after, opened, owners)
    assert (again.patches, again.problems) == ((), ())


def test_the_filter_returns_the_plan_as_lists_and_refuses_what_are_no_objects() -> None:
    cluster_labels = FilterModule().filters()["cluster_labels"]
    found = cluster_labels([cluster("ffm", "s")], [secret("s")])
    assert found == {"patches": [], "problems": [], "waiting": [], "missing": [{"cluster": "ffm", "workspace": "LOGICAL_CLUSTER"}]}
    assert len(cluster_labels([cluster("ffm", "s")], [secret("s")], [FFM])["patches"]) == 2
    no_objects: list[Any] = ["x", None, ["x"], [{}], [{"metadata": {}}]]
    for wrong in no_objects:
        with pytest.raises(AnsibleFilterError, match="not a list of Clusters"):
            cluster_labels(wrong, [])
        with pytest.raises(AnsibleFilterError, match="not a list of Secrets"):
            cluster_labels([], wrong)
