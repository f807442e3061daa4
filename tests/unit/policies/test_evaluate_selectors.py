# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Cilium adds to selectors, by version: the cases of its own tests (pkg/k8s/apis/cilium.io/utils/utils_test.go)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import Identity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.label_filters import label_filters
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.selectors import (
    NotUnderstood,
    Requirement,
    local_cluster_requirement,
    parse_selector,
    peer_of_cnp,
    subject_of_cnp,
)
from tests.testing.policy_worlds import ALLOWED, DENIED, UNKNOWN, VERSIONS, outcome, pod, world
from tests.testing.rows import in_one_test, one_test

CLUSTER, NAMESPACE = "io.cilium.k8s.policy.cluster", "io.kubernetes.pod.namespace"


def shown(selector: object) -> set[tuple[str, str, tuple[str, ...]]]:
    requirements = selector.requirements  # type: ignore[attr-defined]  # each kind of selector has requirements
    return {(entry.key, entry.operator, tuple(sorted(entry.values))) for entry in requirements}


ROLE = ("any:role", "In", ("backend",))


@pytest.mark.parametrize(
    ("namespace", "value", "expected"),
    [
        ("default", {"matchLabels": {"role": "backend"}}, {ROLE, (f"k8s:{NAMESPACE}", "In", ("default",))}),
        # parse-in-namespace-with-ns-selector: what the user says of it is overwritten
        (
            "default",
            {"matchLabels": {"role": "backend", f"k8s:{NAMESPACE}": "foo"}},
            {ROLE, (f"k8s:{NAMESPACE}", "In", ("default",))},
        ),
        # parse-init-policy: nothing is added for a clusterwide one
        ("", {"matchLabels": {"role": "backend", "reserved:init": ""}}, {ROLE, ("reserved:init", "In", ("",))}),
        # parse-init-policy-namespaced
        (
            "default",
            {"matchExpressions": [{"key": "reserved:init", "operator": "DoesNotExist"}]},
            {("reserved:init", "DoesNotExist", ()), (f"k8s:{NAMESPACE}", "In", ("default",))},
        ),
    ],
)
def test_subjects(namespace: str, value: dict[str, object], expected: set[object]) -> None:
    assert shown(subject_of_cnp(value, namespace)) == expected


@one_test(
    "namespace cluster value expected",
    ("default", "", {}, {(f"k8s:{NAMESPACE}", "In", ("default",))}),
    # set-any-source-for-namespace
    ("default", "", {"matchLabels": {f"any:{NAMESPACE}": "ns-2"}}, {(f"any:{NAMESPACE}", "In", ("ns-2",))}),
    ("default", "", {"matchLabels": {NAMESPACE: "ns-2"}}, {(f"any:{NAMESPACE}", "In", ("ns-2",))}),
    # set-cluster-by-default
    ("default", "c1", {}, {(f"k8s:{NAMESPACE}", "In", ("default",)), (f"k8s:{CLUSTER}", "In", ("c1",))}),
    (
        "default",
        "c1",
        {"matchLabels": {f"k8s:{CLUSTER}": "c2"}},
        {(f"k8s:{NAMESPACE}", "In", ("default",)), (f"k8s:{CLUSTER}", "In", ("c2",))},
    ),
    # parse-in-namespace-with-ns-labels-selector
    (
        "default",
        "",
        {"matchLabels": {"any:io.cilium.k8s.namespace.labels.team": "a"}},
        {("any:io.cilium.k8s.namespace.labels.team", "In", ("a",))},
    ),
    # the same in a clusterwide one: labels of namespaces do not spare it the namespace (getEndpointSelector)
    (
        "",
        "",
        {"matchLabels": {"k8s:io.cilium.k8s.namespace.labels.team": "a"}},
        {("k8s:io.cilium.k8s.namespace.labels.team", "In", ("a",)), (f"k8s:{NAMESPACE}", "Exists", ())},
    ),
    # wildcard-to-from-endpoints-with-ccnp
    ("", "", {}, {(f"k8s:{NAMESPACE}", "Exists", ())}),
    # a reserved label: nothing is added at all
    ("default", "c1", {"matchLabels": {"reserved:host": ""}}, {("reserved:host", "In", ("",))}),
    # any operator on the key of clusters suppresses the default
    (
        "default",
        "c1",
        {"matchExpressions": [{"key": CLUSTER, "operator": "Exists"}]},
        {(f"k8s:{NAMESPACE}", "In", ("default",)), (f"any:{CLUSTER}", "Exists", ())},
    ),
)
def test_peers(namespace: str, cluster: str, value: dict[str, object], expected: set[object]) -> None:
    local = local_cluster_requirement(cluster, bool(cluster))

    assert shown(peer_of_cnp(value, namespace, local)) == expected


FRONTEND = (
    "{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: a}, "
    "spec: {endpointSelector: {}, ingress: [{fromEndpoints: [%s]}]}}"
)


@one_test(
    "version config other_cluster",
    ("1.16.19", {}, ALLOWED),
    ("1.17.9", {}, ALLOWED),
    ("1.17.9", {"policy-default-local-cluster": "true"}, ALLOWED),  # agents of 1.17 do not know the key
    ("1.18.11", {}, ALLOWED),
    ("1.18.11", {"policy-default-local-cluster": "true"}, DENIED),
    ("1.19.5", {}, DENIED),
    ("1.19.5", {"policy-default-local-cluster": "false"}, ALLOWED),
    ("1.20.2", {}, DENIED),
    ("1.20.2", {"policy-default-local-cluster": "false"}, ALLOWED),
)
def test_a_peer_without_a_cluster(version: str, config: dict[str, str], other_cluster: object) -> None:
    """The reason why intents always name the cluster."""
    policy_world = world(FRONTEND % "{matchLabels: {app: web}}", version=version, config=config)

    assert outcome(policy_world, pod("c1", app="web"), pod()) is ALLOWED
    assert outcome(policy_world, pod("c2", app="web"), pod()) is other_cluster


@in_one_test
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("clusters", ["operator: Exists", "operator: In, values: [c1, c2]"])
def test_a_peer_with_an_expression_about_clusters_is_the_same_in_every_version(version: str, clusters: str) -> None:
    policy_world = world(FRONTEND % f"{{matchExpressions: [{{key: 'k8s:{CLUSTER}', {clusters}}}]}}", version=version)

    assert outcome(policy_world, pod("c2"), pod()) is ALLOWED
    assert outcome(policy_world, pod("c2", "other"), pod()) is DENIED


def test_sources_of_labels() -> None:
    """pkg/labels/array.go: "any:" looks at every source, "k8s:" at its own only."""
    identity = Identity({"k8s:app": "web", "reserved:host": ""})

    assert parse_selector({"matchLabels": {"app": "web"}}, "any").matches(identity) is True
    assert parse_selector({"matchLabels": {"k8s:app": "web"}}, "any").matches(identity) is True
    assert parse_selector({"matchLabels": {"cni:app": "web"}}, "any").matches(identity) is False
    assert parse_selector({"matchLabels": {"$host": ""}}, "any").matches(identity) is True


@pytest.mark.parametrize(
    ("operator", "values", "of_web", "of_api", "of_none"),
    [
        ("In", ["web"], True, False, False),
        ("NotIn", ["web"], False, True, True),
        ("Exists", [], True, True, False),
        ("DoesNotExist", [], False, False, True),
    ],
)
def test_operators(operator: str, values: list[str], of_web: bool, of_api: bool, of_none: bool) -> None:
    """As Kubernetes: NotIn holds where the label is absent."""
    selector = parse_selector({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}, "any")
    identities = (Identity({"k8s:app": "web"}), Identity({"k8s:app": "api"}), Identity({}))

    assert [selector.matches(identity) for identity in identities] == [of_web, of_api, of_none]
    assert selector.matches(Identity({}, ("k8s:app",))) is None


@pytest.mark.parametrize(
    "value",
    [
        "app=web",
        {"matchLabels": ["app"]},
        {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w"]}]},
        {"matchExpressions": [{"key": "app", "operator": "In"}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]},
    ],
)
def test_what_is_no_selector(value: object) -> None:
    with pytest.raises(NotUnderstood):
        parse_selector(value, "any")


def test_a_pod_cannot_pretend_to_be_elsewhere() -> None:
    """SanitizePodLabels (pkg/k8s/utils/utils.go): labels that stand for the cluster or the namespace are not taken from the pod."""
    policy_world = world(FRONTEND % f"{{matchLabels: {{'k8s:{CLUSTER}': c1, 'k8s:{NAMESPACE}': default}}}}")
    liar = replace(pod("c2", "other"), labels={CLUSTER: "c1", NAMESPACE: "default"})

    assert outcome(policy_world, liar, pod()) is DENIED


def test_labels_that_do_not_count() -> None:
    """pkg/labelsfilter/filter.go: a selector that asks for such a label matches nothing."""
    hashed = world(FRONTEND % "{matchLabels: {pod-template-hash: abc}}")
    recommended = world(FRONTEND % "{matchLabels: {app.kubernetes.io/name: web}}")
    other = world(FRONTEND % "{matchLabels: {topology.kubernetes.io/zone: a}}")
    before = world(FRONTEND % "{matchLabels: {topology.kubernetes.io/zone: a}}", version="1.16.19")
    zone = replace(pod(), labels={"topology.kubernetes.io/zone": "a"})

    assert outcome(hashed, pod(pod_template_hash="abc"), pod()) is DENIED
    assert outcome(recommended, replace(pod(), labels={"app.kubernetes.io/name": "web"}), pod()) is ALLOWED
    assert outcome(other, zone, pod()) is DENIED
    assert outcome(before, zone, pod()) is ALLOWED


@pytest.mark.parametrize(
    ("labels", "app", "team"),
    [
        ("k8s:app", ALLOWED, DENIED),  # one that includes: nothing else counts
        ("k8s:app k8s:team", ALLOWED, ALLOWED),
        ("k8s:!team", ALLOWED, DENIED),
        (r"k8s:!te.*", ALLOWED, DENIED),
        ("k8s:(a|b)+", UNKNOWN, UNKNOWN),  # not understood, and not run
        ("k8s:app k8s:(a|b)+", ALLOWED, UNKNOWN),  # what includes takes nothing away from what counts already
        ("k8s:app k8s:!(a|b)+", UNKNOWN, UNKNOWN),  # what ignores may take away the label of the namespace too
    ],
)
def test_label_filters_of_the_configuration(labels: str, app: object, team: object) -> None:
    config = {"labels": labels}
    by_app = world(FRONTEND % "{matchLabels: {app: web}}", config=config)
    by_team = world(FRONTEND % "{matchLabels: {team: a}}", config=config)

    assert outcome(by_app, pod(app="web", team="a"), pod()) is app
    assert outcome(by_team, pod(app="web", team="a"), pod()) is team


def test_a_file_of_label_prefixes_leaves_open_what_counts_and_not_what_its_value_would_be() -> None:
    config = {"label-prefix-file": "/etc/cilium/label-prefix"}
    allow = FRONTEND % "{matchLabels: {app: web}}"
    assert outcome(world(allow, config=config), pod(app="web"), pod(app="api")) is UNKNOWN
    assert outcome(world(allow, config=config), pod(app="api"), pod(app="web")) is UNKNOWN
    assert outcome(world("", config=config), pod(app="web"), pod(app="api")) is ALLOWED
    filters = label_filters(Minor(1, 20), config)
    identity = Identity({"k8s:app": "web"}, ("k8s:app",))
    assert filters.counts("app") is None and filters.unread == ("label-prefix-file",)
    for operator, values, wanted in (
        ("In", {"web"}, None),
        ("In", {"api"}, False),
        ("NotIn", {"web"}, None),
        ("NotIn", {"api"}, True),
        ("Exists", set(), None),
        ("DoesNotExist", set(), None),
    ):
        assert Requirement("k8s:app", operator, frozenset(values)).met(identity) is wanted, operator
