# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A list that could not be read whole never looks like one in which there is nothing: what is not there is taken away elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Forbidden, ServerRefused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import LISTS, read_traffic
from tests.testing.rows import one_test

GROUPS = ("cilium.io/v2", "discovery.k8s.io/v1", "networking.k8s.io/v1", "multicluster.x-k8s.io/v1alpha1", "gateway.networking.k8s.io/v1")


def named(name: str, namespace: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}


class Api(Cluster):
    """An API server in memory. ``answers``: resource -> pages; a page is a list of objects, None (404) or an error."""

    def __init__(self, answers: Mapping[str, Any], groups: tuple[str, ...] | None = GROUPS) -> None:
        self.host = "c1"
        self.answers = {"namespaces": [[named("default"), named("production")]], **answers}
        self.groups = groups
        self.pages: dict[str, int] = {}
        self.asked = 0
        self._page_sizes = {}

    def _json(self, method: str, path: str, **kwargs: Any) -> dict[str, Any] | None:
        self.asked += 1
        if path == "/apis":
            groups = self.groups
            return None if groups is None else {"groups": [{"versions": [{"groupVersion": text}]} for text in groups]}
        resource = "hostpods" if "fieldSelector" in kwargs["query"] else path.rpartition("/")[2]
        pages = self.answers.get(resource, [[]])
        turn = self.pages.get(resource, 0)
        self.pages[resource] = turn + 1
        page = pages[turn]
        if isinstance(page, ClusterError):
            raise page
        if page is None:
            return None
        return {"items": page, "metadata": {"continue": "more"} if turn + 1 < len(pages) else {}}


def read(answers: Mapping[str, Any], groups: tuple[str, ...] | None = GROUPS) -> TrafficFacts:
    return read_traffic(cast(Cluster, Api(answers, groups)), tuple(ItemKind))


def test_what_is_there_is_read_page_by_page() -> None:
    found = read({"services": [[named("a", "production")], [named("b", "production")]]})
    assert set(found.services) == {("production", "a"), ("production", "b")} and not found.unread


@one_test(
    "answers",
    {"namespaces": [None]},  # a proxy that answers 404 for a cluster that it does not reach
    {"namespaces": [[]]},  # every cluster has some
    {"services": [None]},
    {"services": [[named("a", "production")], None]},
    {"endpointslices": [None]},
    {"services": [[named("a", "production")], ServerRefused("410 Expired")]},
    {"ciliumnetworkpolicies": [[named("a", "production")], ServerRefused("410 Expired")]},
    {"pods": [ServerRefused("500")]},
    {"services": [Forbidden("no")]},
)
def test_a_cluster_of_which_half_was_read_counts_as_silent(answers: dict[str, Any]) -> None:
    with pytest.raises(ClusterError):
        read(answers)


@pytest.mark.parametrize("groups", [None, (), ("cilium.io/v2",), ("cilium.io/v2", "networking.k8s.io/v1")])
def test_half_an_answer_about_groups_is_none(groups: tuple[str, ...] | None) -> None:
    with pytest.raises(ClusterError, match="API groups"):
        read({}, groups)


@one_test("name", "ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies", "serviceexports", "serviceimports", "gateways", "httproutes")
def test_a_kind_that_goes_away_while_it_is_read_is_reported(name: str) -> None:
    found = read({name: [[named("a", "production")], None]})
    assert [entry.what for entry in found.unread] == [name]


@one_test("name", *[name for name, entry in LISTS.items() if entry.optional])
def test_what_planning_can_do_without_may_be_forbidden(name: str) -> None:
    assert [entry.what for entry in read({name: [Forbidden("no", remedy="grant it")]}).unread] == [name]


def test_pods_of_the_host_s_network_are_distinguished() -> None:
    found = read({"pods": [[named("agent", "kube-system"), named("web", "production")]], "hostpods": [[named("agent", "kube-system")]]})
    assert {pod.name: pod.host_network for pod in found.pods} == {"agent": True, "web": False} and not found.unread


def test_an_api_server_that_cannot_tell_them_apart_is_named() -> None:
    unknown = ServerRefused("field label not supported: spec.hostNetwork", status=400)
    found = read({"pods": [[named("web", "production")]], "hostpods": [unknown]})
    assert [entry.what for entry in found.unread] == ["hostpods"] and not found.pods[0].host_network
    with pytest.raises(ServerRefused):
        read({"pods": [unknown]})
    with pytest.raises(ServerRefused):
        read({"hostpods": [ServerRefused("the server broke", status=500)]})


def test_the_number_of_requests_does_not_depend_on_what_is_there() -> None:
    small, large = Api({}), Api({"services": [[named(f"s{n}", "production") for n in range(400)]]})
    for api in (small, large):
        read_traffic(api, tuple(ItemKind))
    assert small.asked == large.asked == len(LISTS) + 1
