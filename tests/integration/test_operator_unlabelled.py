# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A management plane whose Clusters have no labels: it serves one workspace on request; the platform learns of it, and no tenant does."""

from __future__ import annotations

import json

import pytest

from mesh_operator.base.kinds import BINDING, CLUSTER
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

pytestmark = pytest.mark.xdist_group("other-operator")

METRIC = "mesh_operator_unlabelled_clusters"


def reason(tenant: Workspace, binding: str) -> str:
    return str(tenant.condition(BINDING, binding).get("reason", ""))


def left(tenants: tuple[Workspace, ...]) -> str:
    """The bindings that are still there, by name."""
    return " ".join(name for tenant in tenants for name in ("edge", "nowhere") if tenant.get(BINDING, name) is not None)


def message(tenant: Workspace, operator: OperatorProcess, binding: str, first: str, second: str) -> str:
    """The message of a binding whose Clusters are not found, with the names of its clusters taken out."""
    operator.wait(lambda: reason(tenant, binding), f"{binding} has its status", until=equals("ClusterNotFound"))
    return str(tenant.condition(BINDING, binding)["message"]).replace(first, "FIRST").replace(second, "SECOND")


def reported(operator: OperatorProcess) -> list[tuple[str, int, str]]:
    return [
        (str(event["level"]), int(event["count"]), str(event["name"]))
        for event in operator.events()
        if event.get("event") == "clusters_unlabelled"
    ]


def test_clusters_without_labels_serve_the_workspace_that_the_operator_names_and_show_no_other_one(operator_lab: OperatorLab) -> None:
    plane, lab = operator_lab.management, operator_lab.clusters.lab
    named, curious = operator_lab.workspace("named"), operator_lab.workspace("curious")
    for name in ("c1", "c2"):
        plane.add("", name, lab.clusters[name].kubeconfig, object_name=name)
    for tenant in (named, curious):
        for name in ("c1", "c2", "c8", "c9"):
            tenant.create(CLUSTER, name, providerRef={"name": "kind"})
        tenant.create(BINDING, "edge", clusterRefs=tenant.refs("c1", "c2"))
        tenant.create(BINDING, "nowhere", clusterRefs=tenant.refs("c8", "c9"))
    with operator_lab.operator("--no-leader-elect") as operator:
        said = {message(tenant, operator, "edge", "c1", "c2") for tenant in (named, curious)}
        said |= {message(tenant, operator, "nowhere", "c8", "c9") for tenant in (named, curious)}
        assert len(said) == 1, "a Cluster without the label looks like none"
        operator.wait(lambda: operator.metrics().get(METRIC, -1.0), "the platform has its figure", until=equals(2.0))
        assert reported(operator) == [("warning", 2, "c1, c2")]
    with operator_lab.operator("--no-leader-elect", "--mgmt-match", f"name={named.tenant.cluster}") as operator:
        operator.wait(lambda: named.phase(BINDING, "edge"), "the mesh is connected", until=equals("Connected"))
        said |= {message(curious, operator, "edge", "c1", "c2"), message(named, operator, "nowhere", "c8", "c9")}
        assert len(said) == 1, "it is used by another one, and looks like none"
        assert operator.metrics()[METRIC] == 0 and reported(operator) == []
        plays = {str(event.get("workspace")) for event in operator.events() if event.get("event") == "run_ended"}
        assert plays == {named.tenant.cluster}
        shown = json.dumps([*curious.resources().values(), *curious.client.list("/api/v1/events")])
        assert "unlabelled" not in shown.lower() and named.tenant.cluster not in shown
        for tenant in (named, curious):
            for binding in ("edge", "nowhere"):
                tenant.delete(BINDING, binding)
        operator.wait(lambda: left((named, curious)), "all bindings are gone", until=equals(""))
    for name in ("c1", "c2"):
        plane.remove(name)
