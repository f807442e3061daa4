# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The diff of what items write: the objects as they are and as they will be."""

from __future__ import annotations

from typing import Any

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.diff import diff_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, Step
from tests.testing.traffic_builders import object_facts, scene, service, traffic

CNP = "/apis/cilium.io/v2"


def place(*policies: ObjectFacts, **annotations: str) -> Scene:
    web = service("web", annotations={"theirs": "1", **{key.replace("_", "/"): value for key, value in annotations.items()}})
    return scene(traffic("c1", services=[web], policies=policies))


def sides(where: Scene, **call: Any) -> tuple[Any, Any]:
    step = Step(wave=1, cluster="c1", verb="v", object="X", why="w", item="globalServices/web", action=ApiWrite(**call))
    (entry,) = diff_plan(Plan(manager="m", steps=(step,)), where.facts, where.traffic)
    assert entry["before_header"] == entry["after_header"] == f"c1{call['path']}"
    return yaml.safe_load(entry["before"]), yaml.safe_load(entry["after"])


WEB = "/api/v1/namespaces/production/services/web"


def test_an_annotation_that_is_added_to_a_foreign_service_is_shown_alone() -> None:
    body = {"metadata": {"resourceVersion": "11", "annotations": {"service.cilium.io/global": "true"}}}
    before, after = sides(place(), method="merge", path=WEB, body=body)
    assert before is None
    assert after == {"metadata": {"annotations": {"service.cilium.io/global": "true"}}}


def test_an_annotation_that_goes_is_gone_after() -> None:
    body = {"metadata": {"annotations": {"service.cilium.io/global": None}}}
    before, after = sides(place(**{"service.cilium.io_global": "true"}), method="merge", path=WEB, body=body)
    assert (before, after) == ({"metadata": {"annotations": {"service.cilium.io/global": "true"}}}, None)


def test_an_object_that_is_made_has_nothing_before_and_one_that_goes_nothing_after() -> None:
    policy = object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", "p", namespace="production", api=CNP, spec={"ingress": [{}]})
    body = {"metadata": {"name": "p", "namespace": "production"}, "spec": {"ingress": [{}]}}
    assert sides(place(), method="apply", path=policy.path, body=body) == (None, body)
    before, after = sides(place(policy), method="delete", path=policy.path, body={"metadata": {"uid": "u"}})
    assert (before, after) == ({"spec": {"ingress": [{}]}}, None)


def test_a_rule_that_a_policy_loses_is_shown() -> None:
    """Server-side apply takes away what we no longer send, so the whole spec of a policy is compared."""
    spec = {"endpointSelector": {}, "ingress": [{"fromEntities": ["world"]}]}
    policy = object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", "p", namespace="production", api=CNP, spec=spec)
    body = {"metadata": {"name": "p", "namespace": "production"}, "spec": {"endpointSelector": {}, "ingressDeny": [{}]}}
    before, after = sides(place(policy), method="apply", path=policy.path, body=body)
    assert (before["spec"], after["spec"]) == (spec, {"endpointSelector": {}, "ingressDeny": [{}]})


def test_a_service_with_the_name_of_ciliums_own_in_another_namespace_is_not_taken_for_it() -> None:
    own = service("clustermesh-apiserver", annotations={"service.cilium.io/global": "false"})
    where = scene(traffic("c1", services=[own]))
    body = {"metadata": {"annotations": {"service.cilium.io/global": "true"}}}
    path = "/api/v1/namespaces/production/services/clustermesh-apiserver"
    assert sides(where, method="merge", path=path, body=body)[0] == {"metadata": {"annotations": {"service.cilium.io/global": "false"}}}
