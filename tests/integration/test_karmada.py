# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab's Karmada is a real one: it joins clusters, brings workloads to them, reports on them, and bears the loss of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import urllib3

from tests.integration.labs import KARMADA
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError, LabApi
from tests.lab.karmada import PROGRAMS
from tests.lab.lab import Lab
from tests.testing.karmada_members import join, unready
from tests.testing.waiting import wait_for

pytestmark = [pytest.mark.lab(KARMADA), pytest.mark.usefixtures("karmada_programs")]

NAMESPACE: Final = "shop"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web"
BINDING: Final = f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/web-deployment"


@pytest.fixture(scope="module")
def karmada(module_lab: MeshLab) -> Iterator[LabApi]:
    """Karmada's API, with both clusters of the lab as members."""
    api = LabApi.from_kubeconfig(module_lab.lab.karmada)
    for name in module_lab.names:
        join(api, module_lab.lab.clusters[name])
    wait_for(lambda: unready(api), lambda names: not names, what="both members are Ready")
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    api.post(f"/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/propagationpolicies", policy(*module_lab.names))
    yield api


def make_whole(lab: Lab) -> None:
    """Revive what is dead or frozen: aggregated-apiserver too, which ends when it loses kube-apiserver soon after its own start."""
    found = lab.status()["karmada"]
    for part in (*found["dead"], *found["frozen"]):
        lab.revive_karmada(part)


@pytest.fixture(autouse=True)
def whole(module_lab: MeshLab) -> None:
    make_whole(module_lab.lab)


@pytest.fixture
def workload(karmada: LabApi) -> None:
    """The Deployment as it was when it was new; a test before may have changed it, or deleted it."""
    if karmada.get(DEPLOYMENT) is None:
        karmada.create(deployment())
    else:
        karmada.patch(DEPLOYMENT, {"spec": deployment()["spec"]})


def deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec}


def policy(*clusters: str) -> dict[str, Any]:
    selected = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"resourceSelectors": [selected], "placement": {"clusterAffinity": {"clusterNames": [*clusters]}}}
    head = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
    return {**head, "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec}


def applied(karmada: LabApi) -> dict[str, tuple[object, object]]:
    """Per cluster: whether the workload is applied there, and the replicas that are ready."""
    items = ((karmada.get(BINDING) or {}).get("status") or {}).get("aggregatedStatus") or ()
    return {item["clusterName"]: (item.get("applied"), (item.get("status") or {}).get("readyReplicas")) for item in items}


def images(lab: MeshLab) -> set[str]:
    found = [lab.api(name).get(DEPLOYMENT) for name in lab.names]
    return {entry["spec"]["template"]["spec"]["containers"][0]["image"] if entry else "" for entry in found}


@pytest.mark.usefixtures("workload")
def test_a_workload_arrives_in_both_members_and_its_status_comes_back(module_lab: MeshLab, karmada: LabApi) -> None:
    wanted = dict.fromkeys(module_lab.names, (True, 2))
    wait_for(lambda: applied(karmada), lambda found: found == wanted, what="the workload is ready in both members")
    wait_for(lambda: images(module_lab), lambda found: found == {"registry.example/web:1"}, what="both members have its image")


@pytest.mark.usefixtures("workload")
@pytest.mark.parametrize("part", PROGRAMS)
def test_a_part_that_dies_is_reported_and_the_next_change_arrives_when_it_is_back(module_lab: MeshLab, karmada: LabApi, part: str) -> None:
    lab = module_lab.lab
    lab.kill_karmada(part)
    wait_for(lambda: lab.status()["karmada"]["dead"], lambda dead: part in dead, what=f"the status reports that {part} is dead")
    make_whole(lab)
    assert lab.status()["karmada"]["dead"] == []
    image = f"registry.example/web:{part}"
    change = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}}

    def patched() -> bool:
        karmada.patch(DEPLOYMENT, change)
        return True

    wait_for(patched, what="the change is accepted", passing=(ApiError, urllib3.exceptions.HTTPError))
    wait_for(lambda: images(module_lab), lambda found: found == {image}, what=f"the change arrives after {part} was dead")


def test_a_part_that_is_frozen_is_reported_and_goes_on_where_it_was(module_lab: MeshLab, karmada: LabApi) -> None:
    lab = module_lab.lab
    lab.freeze_karmada("scheduler")
    assert lab.status()["karmada"]["frozen"] == ["scheduler"]
    lab.revive_karmada("scheduler")
    assert (lab.status()["karmada"]["frozen"], lab.status()["karmada"]["dead"]) == ([], [])


@pytest.mark.usefixtures("workload")
def test_a_workload_that_is_deleted_goes_from_the_members(module_lab: MeshLab, karmada: LabApi) -> None:
    wait_for(lambda: images(module_lab), lambda found: "" not in found, what="both members have the workload")
    karmada.delete(DEPLOYMENT)
    wait_for(lambda: images(module_lab), lambda found: found == {""}, what="no member has the workload")
