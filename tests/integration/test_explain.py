# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The playbook explain on a real mesh: a way that works, and the same way with one thing after another broken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.labs import THREE_120, TWO_118
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

SHOP = "shop"
ASKED: dict[str, Any] = {
    "cilium_mesh_from": {"cluster": "c1", "namespace": SHOP, "name": "web"},
    "cilium_mesh_to": {"namespace": SHOP, "service": "nginx"},
    "cilium_mesh_port": "http",
}
POLICIES = f"/apis/cilium.io/v2/namespaces/{SHOP}/ciliumnetworkpolicies"


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "example.invalid/main", "ports": [{"name": "http", "containerPort": 8080}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": SHOP}, "spec": spec}


def service() -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    metadata = {"name": "nginx", "namespace": SHOP, "annotations": {"service.cilium.io/global": "true"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "nginx"}, "ports": ports}}


def furnish(lab: MeshLab) -> None:
    """A client in c1, the pods of a global Service in c2."""
    for cluster, workload in (("c1", "web"), ("c2", "nginx")):
        api = lab.api(cluster)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        api.create(deployment(workload))
        api.create(service())
    wait_for(lambda: ready_endpoints(lab.api("c2")), equals(1), what="the pod of nginx is ready")
    wait_for(lambda: len(lab.api("c1").list(f"/api/v1/namespaces/{SHOP}/pods")), equals(1), what="the client has a pod")
    give_identity(lab.api("c1"))


def give_identity(api: LabApi) -> None:
    """The lab has no agents that would write the CiliumEndpoint of a pod."""
    (pod,) = api.list(f"/api/v1/namespaces/{SHOP}/pods")
    identity = {"id": 65601, "labels": ["k8s:app=web", f"k8s:io.kubernetes.pod.namespace={SHOP}"]}
    metadata = {"name": pod["metadata"]["name"], "namespace": SHOP}
    status = {"id": 7, "identity": identity, "state": "ready"}
    api.create({"apiVersion": "cilium.io/v2", "kind": "CiliumEndpoint", "metadata": metadata, "status": status})


def ready_endpoints(api: LabApi) -> int:
    slices = api.list(f"/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices")
    return sum(bool(e["conditions"].get("ready")) for s in slices for e in s.get("endpoints") or ())


def verdicts(run: PlaybookRun) -> dict[tuple[str, str], str]:
    return {(hop["hop"], hop["cluster"]): hop["verdict"] for hop in run.result["explanation"]["hops"]}


def broken(run: PlaybookRun) -> list[tuple[str, str]]:
    return [place for place, verdict in verdicts(run).items() if verdict == "broken"]


@pytest.mark.lab(TWO_118, use=2, gate=THREE_120)
def test_the_hop_that_is_broken_is_named_and_nothing_is_written(lab: MeshLab) -> None:
    furnish(lab)
    assert lab.play("connect").rc == 0
    before = lab.snapshot(volatile=True)

    whole = lab.play("explain", **ASKED, own_process=True)
    assert whole.rc == 0, whole.output
    assert not whole.changed
    assert set(verdicts(whole).values()) == {"ok", "skipped"}, whole.output
    assert "Nothing is in the way" in whole.output
    assert lab.snapshot(volatile=True) == before

    lab.lab.block("c1", "c2", "udp/8472")
    lost = lab.play("explain", **ASKED)
    assert broken(lost) == [("network", "c1")], lost.output
    assert "UDP 8472 (vxlan)" in lost.output and "CM-NET-08" in lost.output
    lab.lab.heal("c1", "c2")

    rule = {"endpointSelector": {"matchLabels": {"app": "nginx"}}, "ingress": [{"fromEndpoints": [{"matchLabels": {"app": "other"}}]}]}
    policy = {"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "metadata": {"name": "closed", "namespace": SHOP}, "spec": rule}
    lab.api("c2").create(policy)
    denied = lab.play("explain", cilium_mesh_expected="not_broken", **ASKED, own_process=True)
    assert denied.rc != 0
    assert broken(denied) == [("ingress policy", "c2")], denied.output
    assert f"{SHOP}/closed" in denied.output
    lab.api("c2").delete(f"{POLICIES}/closed")

    lab.api("c2").patch(f"/apis/apps/v1/namespaces/{SHOP}/deployments/nginx", {"spec": {"replicas": 0}})
    wait_for(lambda: ready_endpoints(lab.api("c2")), equals(0), what="no pod of nginx is ready")
    empty = lab.play("explain", **ASKED)
    assert broken(empty) == [("backend", "c1")]
    assert "c2: 0 ready, exported" in empty.output
    lab.api("c2").patch(f"/apis/apps/v1/namespaces/{SHOP}/deployments/nginx", {"spec": {"replicas": 1}})
    wait_for(lambda: ready_endpoints(lab.api("c2")), equals(1), what="the pod of nginx is ready")

    lab.lab.cut("c2", "c1")
    cut = lab.play("explain", **ASKED)
    assert ("link", "c2") in broken(cut), cut.output
