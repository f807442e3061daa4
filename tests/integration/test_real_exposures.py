# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exposed services with real agents: who is answered at their addresses, from outside of the clusters and from within the mesh."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from tests.demo_traffic.scene import CLIENT, SPACE, WEB
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.integration.real_mesh import REFUSED, TEXTS, answers, furnish
from tests.lab import workloads
from tests.lab.addresses import OUTSIDE
from tests.lab.options import LabOptions
from tests.testing.waiting import equals, wait_for

ADMITTED, OTHER = OUTSIDE
SHOP: Final[dict[str, Any]] = {
    "name": "shop",
    "service": {"namespace": SPACE, "name": "web"},
    "port": {"name": "http"},
    "class": "LoadBalancer",
    "sourceRanges": [f"{ADMITTED}/32"],
}
OUTER: Final = {"listed": ADMITTED, "another": OTHER}
"""Clients outside, by whether the ranges of the item list them."""
INNER: Final = ("pod of c1", "node of c1", "pod of c2", "node of c2")

Object = dict[str, Any]


@pytest.fixture(scope="module")
def mesh(real_agents: None) -> Iterator[MeshLab]:
    """Two clusters with a global Service. In c1 its pod is on the second node, and what comes from outside meets the first one."""
    with MeshLab(LabOptions(name=unused_name(), clusters=2, agents="real", nodes=(2, 1))) as lab:
        lab.api("c1").patch("/api/v1/nodes/c1-node1", {"spec": {"unschedulable": True}})
        furnish(lab)
        yield lab


def expose(lab: MeshLab, *items: Object) -> dict[str, Object]:
    """Write the items; return their status per cluster when each has its addresses. They are of one item."""

    def written() -> Object:
        run = lab.play("exposures", mesh={**lab.mesh(), "exposedServices": list(items)})
        assert run.rc == 0, run.output
        return {"status": run.result["status"]["exposedServices"], "codes": run.finding_codes()}

    wanted = ["Exposed" for _ in items]
    found = wait_for(written, lambda made: [row["phase"] for row in made["status"]] == wanted, what="every item is exposed")
    return {"codes": found["codes"], **{row["clusterName"]: row for item in found["status"] for row in item["addresses"]}}


def url(row: Object, port: int = 0) -> str:
    return f"http://{row['addresses'][0]}:{port or row['port']}/"


def said(answer: workloads.Answer) -> str:
    return answer.text.strip() if answer.code == 0 else REFUSED


def from_outside(lab: MeshLab, where: str) -> dict[str, str]:
    """Who answers to each client outside."""
    return {name: said(lab.lab.outside(address, where)) for name, address in OUTER.items()}


def from_inside(lab: MeshLab, where: str) -> dict[str, str]:
    """Who answers to a pod and to a node of each cluster."""
    found = {}
    for cluster in lab.names:
        handle = lab.lab.clusters[cluster]
        found[f"pod of {cluster}"] = said(workloads.curl(handle.kubeconfig, SPACE, CLIENT, where, seconds=1))
        agent = handle.api.list("/api/v1/namespaces/kube-system/pods", label_selector="k8s-app=cilium")[0]["metadata"]["name"]
        ask = ["curl", "-sS", "--max-time", "1", where]
        found[f"node of {cluster}"] = said(workloads.execute(handle.kubeconfig, "kube-system", agent, ask))
    return found


def node_port(lab: MeshLab, cluster: str) -> int:
    """Node port of the Service of the item."""
    services = lab.api(cluster).list(f"/api/v1/namespaces/{SPACE}/services")
    (service,) = (row for row in services if row["metadata"]["name"].startswith("shop-"))
    return int(service["spec"]["ports"][0]["nodePort"])


def wait_outside(lab: MeshLab, where: str, listed: str, another: str = REFUSED) -> None:
    wait_for(partial(from_outside, lab, where), equals({"listed": listed, "another": another}), what=f"{listed} to the listed client")


def without_local_pods(lab: MeshLab, where: str, listed: str) -> None:
    """While c1 has no pod of the service, the address there answers as said, and its pods find c2; then c1 has one again."""
    lab.api("c1").patch(WEB, {"spec": {"replicas": 0}})
    wait_outside(lab, where, listed)
    assert answers(lab, "c1") == {TEXTS["c2"]}
    lab.api("c1").patch(WEB, {"spec": {"replicas": 1}})
    wait_outside(lab, where, TEXTS["c1"])


def exposed_no_more(lab: MeshLab, rows: dict[str, Object]) -> None:
    """The addresses answer nothing once the list of exposed services is empty, and pods of the mesh still find the service."""
    expose(lab)
    for cluster in lab.names:
        wait_outside(lab, url(rows[cluster]), REFUSED)
        assert answers(lab, cluster) == set(TEXTS.values())


def test_a_load_balancer_answers_to_listed_clients_alone_from_its_own_cluster_then_from_the_other_one_until_it_is_removed(
    mesh: MeshLab,
) -> None:
    rows = expose(mesh, SHOP)
    assert {rows[name]["sourceRangesBy"] for name in mesh.names} == {"Cluster"}
    for cluster in mesh.names:
        wait_outside(mesh, url(rows[cluster]), TEXTS[cluster])
    without_local_pods(mesh, url(rows["c1"]), TEXTS["c2"])
    exposed_no_more(mesh, rows)


def test_the_ranges_of_a_load_balancer_are_not_for_pods_and_nodes_of_its_cluster_but_for_those_of_others(mesh: MeshLab) -> None:
    rows = expose(mesh, SHOP)
    where = url(rows["c1"])
    wait_outside(mesh, where, TEXTS["c1"])
    own, other = dict.fromkeys(("pod of c1", "node of c1"), TEXTS["c1"]), dict.fromkeys(("pod of c2", "node of c2"), REFUSED)
    wait_for(partial(from_inside, mesh, where), equals({**own, **other}), what="the own cluster alone is answered")
    assert from_inside(mesh, url(rows["c2"]))["pod of c1"] == REFUSED
    for ranges, name in (("10.2.0.0/16", "pod of c2"), ("198.18.2.10/32", "node of c2")):  # nothing is masqueraded in a lab
        expose(mesh, {**SHOP, "sourceRanges": [ranges]})
        wait_for(partial(from_inside, mesh, where), equals({**own, **other, name: TEXTS["c1"]}), what=f"a {name} is answered")
    expose(mesh)


def test_a_node_port_answers_to_listed_clients_and_to_the_whole_mesh_at_the_nodes_of_its_pods(mesh: MeshLab) -> None:
    rows = expose(mesh, {**SHOP, "class": "NodePort"})
    assert {rows[name]["sourceRangesBy"] for name in mesh.names} == {"NetworkPolicy"}
    assert rows["c1"]["addresses"] == ["198.18.1.11"]
    for cluster in mesh.names:
        wait_outside(mesh, url(rows[cluster]), TEXTS[cluster])
        every = dict.fromkeys(INNER, TEXTS[cluster])
        wait_for(partial(from_inside, mesh, url(rows[cluster])), equals(every), what="pods and nodes of the mesh are answered")
        assert answers(mesh, cluster) == set(TEXTS.values())
    assert set(from_outside(mesh, f"http://198.18.1.10:{rows['c1']['port']}/").values()) == {REFUSED}  # that node has no pod of it
    without_local_pods(mesh, url(rows["c1"]), REFUSED)
    exposed_no_more(mesh, rows)


def test_the_node_port_of_a_load_balancer_is_open_as_the_finding_says_until_cilium_checks_it_too(mesh: MeshLab) -> None:
    rows = expose(mesh, SHOP)
    assert "CM-EXPO-08" in rows["codes"]
    where = f"http://198.18.2.10:{node_port(mesh, 'c2')}/"
    wait_outside(mesh, where, TEXTS["c2"], TEXTS["c2"])
    api = mesh.api("c2")
    api.patch("/api/v1/namespaces/kube-system/configmaps/cilium-config", {"data": {"bpf-lb-source-range-all-types": "true"}})
    (agent,) = api.list("/api/v1/namespaces/kube-system/pods", label_selector="k8s-app=cilium")
    api.delete(f"/api/v1/namespaces/kube-system/pods/{agent['metadata']['name']}")
    wait_outside(mesh, where, TEXTS["c2"])
    wait_for(lambda: mesh.play("status").result["status"]["binding"]["phase"], equals("Connected"), what="the agent of c2 is ready again")
    rows = expose(mesh, {**SHOP, "clusters": ["c2"]})
    assert "CM-EXPO-08" not in rows["codes"]
    expose(mesh)
