# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters of a namespace: which Secret counts, and what all the Secrets of a tenant may cost the operator of all tenants."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import WORKSPACE_LABEL
from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from mesh_operator.base.kinds import CLUSTER
from mesh_operator.credentials import clusters as clusters_module
from mesh_operator.credentials import labelled_secrets
from mesh_operator.credentials.clusters import NOT_IN_TIME, Clusters
from mesh_operator.credentials.labelled_secrets import ARGO_LABEL, CLUSTER_LABEL, MOST, PAGE, PAGES
from mesh_operator.credentials.management_plane import NotUsable, SealedKubeconfig
from mesh_operator.credentials.namespace_clusters import TOO_MANY, TOO_MANY_GIVEN, NamespaceClusters
from mesh_operator.source.namespaces import workspace_of, workspace_of_label
from mesh_operator.source.stored import Stored
from tests.testing.properties import examples
from tests.testing.rows import in_one_test, one_test
from tests.testing.secret_server import SecretServer

TEAM: Final = "0123456789abcdef"
KEY: Final = MeshKey(TEAM, "team-a", "edge")
SECRETS: Final = "/api/v1/namespaces/team-a/secrets"
Object = dict[str, Any]
Found = SealedKubeconfig | NotUsable


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


def clusters_of(server: SecretServer, touched: Callable[[str], None] = lambda _: None) -> NamespaceClusters:
    return NamespaceClusters(server, Fleet(), "platform", touched)  # type: ignore[arg-type]  # of KubernetesClusters, the method that is used


def resolved(*secrets: Object, kubernetes_cluster: bool = False, error: bool = False) -> SealedKubeconfig | NotUsable:
    server = SecretServer(list(secrets))
    server.error = error
    known = Stored(ObjectKey(CLUSTER, TEAM, "team-a", "c1"), {"metadata": {}}, "kubernetes") if kubernetes_cluster else None
    return clusters_of(server).resolve_all(KEY, {"c1": known}, lambda: False)["c1"]


@one_test(
    "secrets text",
    ([secret("any", OWN)], "a3ViZQ=="),
    ([secret("any", OWN, value="dmFsdWU=")], "dmFsdWU="),
    ([secret("c1-kubeconfig", CAPI, value="dmFsdWU=")], "dmFsdWU="),
    ([secret("c1", ARGO, server="cw==", config="Yw==")], '{"server": "cw==", "config": "Yw=="}'),
    ([secret("of-team-a", GIVEN, "platform")], "a3ViZQ=="),
    ([secret("any", OWN, value="b3du"), secret("c1-kubeconfig", CAPI), secret("of-team-a", GIVEN, "platform")], "b3du"),
)
def test_a_cluster_is_found_by_each_kind_of_secret_and_the_tenants_own_label_goes_first(secrets: list[Object], text: str) -> None:
    found = resolved(*secrets)
    assert isinstance(found, SealedKubeconfig) and found.text == text


@one_test(
    "secrets reason",
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
)
def test_no_secret_of_another_namespace_or_name_is_used(secrets: list[Object], reason: str) -> None:
    found = resolved(*secrets)
    assert isinstance(found, NotUsable) and found.reason == reason


def test_a_kubernetes_cluster_is_looked_for_last_and_forbidden_secrets_are_said_to_be_so() -> None:
    found, denied = resolved(kubernetes_cluster=True), resolved(error=True)
    assert isinstance(found, NotUsable) and found.reason == "OfTheFleet"
    assert isinstance(denied, NotUsable) and denied.reason == "ManagementPlaneUnavailable" and "CM-API-03" in denied.message


def test_a_changed_secret_touches_the_meshes_of_its_namespace_alone() -> None:
    server, touched = SecretServer([secret("one", OWN), secret("two", OWN, "team-b")]), list[str]()
    clusters = clusters_of(server, touched.append)
    places = [("ws-a", "team-a"), ("ws-b", "team-b")]
    clusters.poll(places)
    assert touched == [], "the first read has nothing to compare with"
    server.secrets[0]["metadata"]["resourceVersion"] = "2"
    clusters.poll(places)
    server.secrets.pop()
    clusters.poll(places)
    server.error = True
    clusters.poll(places)
    assert touched == ["ws-a", "ws-b"]


# The bounds of what a lookup costs


def named(count: int) -> dict[str, None]:
    return {f"c{number}": None for number in range(count)}


def resolve(server: SecretServer, names: dict[str, None], ended: Callable[[], bool] = lambda: False) -> dict[str, Found]:
    return clusters_of(server).resolve_all(KEY, names, ended)


def said(found: Found) -> tuple[str, str]:
    return ("", found.text) if isinstance(found, SealedKubeconfig) else (found.reason, found.message)


def heavy(count: int, size: int, label: str = CLUSTER_LABEL) -> list[Object]:
    return [secret(f"s{number}", {label: f"c{number}"}, other="x" * size) for number in range(count)]


def test_many_large_secrets_cost_one_list_of_metadata_and_the_secrets_that_a_mesh_names() -> None:
    server = SecretServer(heavy(250, 100_000))
    assert {said(found)[0] for found in resolve(server, named(3)).values()} == {"KubeconfigMissing"}
    assert server.asked == [f"metadata {SECRETS} {CLUSTER_LABEL}", *(f"get {SECRETS}/s{number}" for number in range(3))]
    assert server.answered < 450_000, "of 25 MB"


def test_a_mesh_of_255_clusters_lists_each_place_once() -> None:
    given_by_platform = [
        secret(f"g{number}", {**GIVEN, "edge-connect.eu/source-name": f"c{number}"}, "platform") for number in range(100, 250)
    ]
    own = [secret(f"s{number}", {CLUSTER_LABEL: f"c{number}"}) for number in range(100)]
    server = SecretServer([*own, *given_by_platform])
    found = resolve(server, named(255))
    assert {said(found[f"c{number}"])[0] for number in range(250)} == {""} and said(found["c254"])[0] == "ClusterNotFound"
    lists = [asked for asked in server.asked if not asked.startswith("get ")]
    assert len(lists) == 2 == len(set(lists)) and all(asked.startswith("metadata ") for asked in lists)
    assert len(server.asked) == len(set(server.asked)) <= 2 + 255 * 3, "nothing is asked for twice"


def test_more_labelled_secrets_than_are_read_leave_no_cluster_in_doubt() -> None:
    server = SecretServer(heavy(MOST + 1, 10))
    long = f"{'a' * 60}.{'b' * 60}"
    server.secrets.append(secret(long, ARGO, server="cw==", config="Yw=="))
    found = resolve(server, {**named(255), long: None})
    assert {said(found[name]) for name in named(255)} == {("QuotaExceeded", TOO_MANY)}
    assert isinstance(found[long], SealedKubeconfig), "no label holds this name, so none is looked for"
    assert len(server.asked) == MOST // PAGE + 1 + 1
    server.secrets.pop(0)
    assert said(resolve(server, {"c1": None})["c1"])[0] == "KubeconfigMissing", "as many as are read are read"


def test_too_many_secrets_of_the_platform_are_not_said_to_be_the_tenants() -> None:
    server = SecretServer([secret(f"g{number}", GIVEN, "platform") for number in range(MOST + 1)])
    assert said(resolve(server, {"c1": None})["c1"]) == ("QuotaExceeded", TOO_MANY_GIVEN)


def test_metadata_without_measure_is_read_in_small_answers_and_not_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled_secrets, "PAGE_BYTES", 20_000)
    server = SecretServer(heavy(100, 10))
    for entry in server.secrets:
        entry["metadata"]["annotations"] = {"note": "x" * 11_000}
    assert said(resolve(server, {"c1": None})["c1"]) == ("QuotaExceeded", TOO_MANY)
    assert server.largest <= 20_000 and len(server.asked) == PAGES


def test_a_list_that_fails_is_not_tried_again_for_every_name() -> None:
    server = SecretServer()
    server.error = True
    assert {said(found)[0] for found in resolve(server, named(255)).values()} == {"ManagementPlaneUnavailable"}
    assert len(server.asked) == 1


@pytest.mark.parametrize("requests", range(1, 9))
def test_nothing_is_read_for_a_turn_that_has_ended(requests: int) -> None:
    server = SecretServer([*heavy(2, 10), secret("of-team-a", {**GIVEN, "edge-connect.eu/source-name": "c2"}, "platform")])
    found = resolve(server, named(4), lambda: len(server.asked) >= requests)
    assert len(server.asked) == requests
    assert said(found["c3"]) == ("ManagementPlaneUnavailable", NOT_IN_TIME)


def test_the_end_of_the_turn_ends_a_long_list_between_two_pages() -> None:
    server = SecretServer(heavy(MOST, 10))
    resolve(server, named(4), lambda: len(server.asked) >= 2)
    assert server.asked == [f"metadata {SECRETS} {CLUSTER_LABEL}"] * 2


def test_credentials_that_are_not_read_in_time_are_read_again_and_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters_module, "RESOLVING", 0.0)
    server = SecretServer(heavy(3, 10))
    assert {said(found) for found in resolve(server, named(3)).values()} == {("ManagementPlaneUnavailable", NOT_IN_TIME)}
    assert server.asked == []


def test_a_secret_that_became_another_ones_after_it_was_listed_is_not_used() -> None:
    server = SecretServer([secret("given", GIVEN, "platform")])

    def moved(asked: str) -> None:
        if asked == "get /api/v1/namespaces/platform/secrets/given":
            server.secrets = [secret("given", {**GIVEN, "edge-connect.eu/source-workspace": "team-b"}, "platform")]

    server.before = moved
    assert said(resolve(server, {"c1": None})["c1"])[0] == "ClusterNotFound"


NAMES: Final = ("c1", "c2", "c1-kubeconfig")
LABELS: Final = st.fixed_dictionaries(
    {},
    optional={
        CLUSTER_LABEL: st.sampled_from(NAMES),
        "cluster.x-k8s.io/cluster-name": st.sampled_from(NAMES),
        ARGO_LABEL: st.sampled_from(("cluster", "repository")),
        "edge-connect.eu/source-workspace": st.sampled_from(("team-a", "team-b")),
        "edge-connect.eu/source-name": st.sampled_from(NAMES),
    },
)
PLACES: Final = st.tuples(st.sampled_from(("team-a", "team-b", "platform")), st.sampled_from((*NAMES, "c2-kubeconfig", "x", "y")))


def first_place(secrets: Sequence[Object], name: str) -> list[Object]:
    """The Secrets of the first place that has any, as docs/operator-kubernetes.md says it."""

    def place(namespace: str, **wanted: str) -> list[Object]:
        return [s for s in secrets if s["metadata"]["namespace"] == namespace and wanted.items() <= s["metadata"]["labels"].items()]

    def called(found: list[Object], secret_name: str) -> list[Object]:
        return [s for s in found if s["metadata"]["name"] == secret_name]

    return (
        place("team-a", **{CLUSTER_LABEL: name})
        or called(place("team-a", **{"cluster.x-k8s.io/cluster-name": name}), f"{name}-kubeconfig")
        or called(place("team-a", **{ARGO_LABEL: "cluster"}), name)
        or place("platform", **{"edge-connect.eu/source-workspace": "team-a", "edge-connect.eu/source-name": name})
    )


@examples(60)
@given(st.dictionaries(PLACES, LABELS, max_size=8))
def test_all_names_at_once_find_what_each_name_finds_alone(given_labels: dict[tuple[str, str], dict[str, str]]) -> None:
    secrets = [secret(name, labels, place, kubeconfig=f"{place}/{name}") for (place, name), labels in given_labels.items()]
    found = resolve(SecretServer(secrets), dict.fromkeys(NAMES))
    for name in NAMES:
        wanted = first_place(secrets, name)
        if len(wanted) == 1:
            assert said(found[name]) == ("", wanted[0]["data"]["kubeconfig"])
        else:
            assert said(found[name])[0] == ("ClusterAmbiguous" if wanted else "ClusterNotFound")


# The bounds of a poll


def test_one_tenants_many_secrets_hold_up_the_others_for_one_page() -> None:
    server, touched = SecretServer([*heavy(MOST, 10), secret("one", OWN, "team-b")]), list[str]()
    clusters = clusters_of(server, touched.append)
    places = [("ws-a", "team-a"), ("ws-b", "team-b")]
    clusters.poll(places)
    for entry in server.secrets:
        entry["metadata"]["resourceVersion"] = "2"
    server.asked.clear()
    clusters.poll(places)
    assert touched == ["ws-b", "ws-a"] and all(asked.startswith("metadata ") for asked in server.asked)
    own = [number for number, asked in enumerate(server.asked) if "/team-b/" in asked]
    assert own == [1, 3, 5], "the two take turns"


def test_a_namespace_with_too_many_secrets_is_looked_at_again_when_it_has_fewer() -> None:
    server, touched = SecretServer(heavy(MOST + 1, 10)), list[str]()
    clusters = clusters_of(server, touched.append)
    for _ in range(2):
        clusters.poll([("ws-a", "team-a")])
    assert touched == []
    server.secrets.pop()
    clusters.poll([("ws-a", "team-a")])
    assert touched == ["ws-a"]


def test_a_poll_ends_when_the_operator_stops_and_says_of_the_rest_nothing() -> None:
    server, touched = SecretServer([*heavy(MOST, 10), secret("one", OWN, "team-b")]), list[str]()
    clusters = clusters_of(server, touched.append)
    places = [("ws-a", "team-a"), ("ws-b", "team-b")]
    clusters.poll(places)
    server.asked.clear()
    clusters.poll(places, lambda: len(server.asked) >= 3)
    assert len(server.asked) == 3 and touched == []
    server.secrets.pop()
    clusters.poll(places)
    assert touched == ["ws-b"], "what the first poll knew is still known"


# What the label of the platform means


IDENTITY: Final = "0c5e7a9e-5d3c-4a55-9a0f-0b1f8c1d2e3f"
TEAM_MARK: Final = workspace_of(IDENTITY, "team-a")
MARK_AS_NAME: Final = TEAM_MARK  # a tenant may have chosen it as the name of a namespace: it is on every object in members
NAMES_OF_NAMESPACES: Final = ("team-a", "team-b", MARK_AS_NAME)
MEANINGS: Final = (
    "team-a",
    TEAM_MARK,
    "team-b",
    workspace_of(IDENTITY, "team-b"),
    workspace_of(IDENTITY, MARK_AS_NAME),
    workspace_of("another", "team-a"),
    "",
)
"""Values of the label source-workspace, some by the namespace's name and some, as earlier versions had it, by its mark."""


def of_platform(namespace: str, cluster_label: str, secret_label: str) -> list[str]:
    """What a namespace gets of a Cluster and its Secret, and of a Secret without a Cluster."""
    name, place = "edge-connect.eu/source-name", "platform"
    status = {"conditions": [{"type": "Ready", "status": "True"}], "kubeconfigSecretRef": {"name": "of-cluster", "key": "kubeconfig"}}
    cluster = {"metadata": {"name": "x", "labels": {WORKSPACE_LABEL: cluster_label, name: "c1"}}, "status": status}
    given = secret("given", {WORKSPACE_LABEL: secret_label, name: "c1"}, place, kubeconfig="Z2l2ZW4=")
    own = secret("of-cluster", {WORKSPACE_LABEL: secret_label}, place, kubeconfig="Y2x1c3Rlcg==")
    found, workspace = list[str](), workspace_of(IDENTITY, namespace)
    for kept in ([own], [given]):
        server: Any = SecretServer(kept)
        fleet = Clusters(server, place, lambda _: None, workspace_of_label=lambda label: workspace_of_label(IDENTITY, label))
        fleet.objects.replace([cluster])
        annotations = {CLUSTER_ANNOTATION: workspace}
        known = Stored(ObjectKey(CLUSTER, workspace, namespace, "c1"), {"metadata": {"annotations": annotations}}, "kubernetes")
        found_all = NamespaceClusters(server, fleet, place, lambda _: None).resolve_all(
            MeshKey(workspace, namespace, "edge"), {"c1": known}, lambda: False
        )
        got = found_all["c1"]
        found += [got.text] if isinstance(got, SealedKubeconfig) else []
    return found


@in_one_test
@pytest.mark.parametrize("namespace", NAMES_OF_NAMESPACES)
@pytest.mark.parametrize("label", MEANINGS)
@pytest.mark.parametrize("other", MEANINGS)
def test_a_label_gives_clusters_and_secrets_to_the_namespace_that_it_names_and_to_no_other(namespace: str, label: str, other: str) -> None:
    def means(text: str) -> bool:
        return text == workspace_of(IDENTITY, namespace) or (text == namespace and not re.fullmatch("[0-9a-f]{16}", text))

    whole = ["Y2x1c3Rlcg=="] * (means(label) and means(other)) + ["Z2l2ZW4="] * (other == namespace and means(other))
    assert of_platform(namespace, label, other) == whole


def test_a_change_of_a_cluster_concerns_the_namespace_that_its_label_names() -> None:
    touched = list[str]()
    clusters = Clusters(SecretServer([]), "platform", touched.append, workspace_of_label=lambda label: workspace_of_label(IDENTITY, label))  # type: ignore[arg-type]  # a server with the methods that are used
    cluster = {"metadata": {"name": "x", "labels": {WORKSPACE_LABEL: "team-a"}, "resourceVersion": "1"}}
    clusters.objects.put(cluster)
    clusters.objects.missing(cluster)
    assert touched == [TEAM_MARK, TEAM_MARK]
