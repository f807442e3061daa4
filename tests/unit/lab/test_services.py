# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where a Service can be reached."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.addresses import ClusterAddresses
from tests.lab.hub import Door
from tests.lab.services import doors, names, next_address, target_port, wants_address

PLACE = ClusterAddresses(20, 1)


def service(name: str = "clustermesh-apiserver", kind: str = "LoadBalancer", address: str = "", node_port: int = 0) -> dict[str, Any]:
    port = {"port": 2379, "targetPort": 2379, **({"nodePort": node_port} if node_port else {})}
    ingress = [{"ip": address}] if address else []
    return {
        "metadata": {"namespace": "kube-system", "name": name},
        "spec": {"type": kind, "ports": [port]},
        "status": {"loadBalancer": {"ingress": ingress}},
    }


def test_the_first_load_balancer_gets_the_first_address_and_the_next_one_another() -> None:
    first = service()
    assert wants_address(first)
    assert next_address(PLACE, [first]) == "127.20.1.2"
    served = service(address="127.20.1.2")
    assert not wants_address(served)
    assert next_address(PLACE, [served, service("other")]) == "127.20.1.100"
    assert next_address(PLACE, [served, service("other")], wire=True) == "198.19.1.1"
    assert next_address(PLACE, [served, service("other", address="198.19.1.1")], wire=True) == "198.19.1.2"
    assert not wants_address(service(kind="ClusterIP"))


def test_the_mesh_is_reached_at_its_address_on_every_node_and_by_its_own_pods_at_the_cluster_ip() -> None:
    name = "kube-system/clustermesh-apiserver"
    assert doors(service(address="127.20.1.2", node_port=30001), PLACE, ["127.20.1.10", "127.20.1.11"]) == [
        Door("127.20.1.2", 2379, name),
        Door("127.20.1.10", 30001, name),
        Door("127.20.1.11", 30001, name),
        Door("127.20.1.4", 2379, name, everywhere=False),
    ]


def test_a_named_target_port_is_looked_up_in_the_pod() -> None:
    named = service()
    named["spec"]["ports"][0]["targetPort"] = "etcd"
    pod = {"spec": {"containers": [{"ports": [{"name": "etcd", "containerPort": 2379}]}]}}
    assert target_port(named, pod) == 2379
    with pytest.raises(ValueError, match="etcd"):
        target_port(named, {"spec": {"containers": [{}]}})


def test_a_service_has_the_names_of_its_cluster_and_a_headless_one_none() -> None:
    every = [{**service(name), "spec": {"clusterIP": address}} for name, address in (("web", "10.96.0.9"), ("none", "None"))]
    every.append({"metadata": {"namespace": "shop", "name": "pending"}, "spec": {}})
    assert list(names(every, "kube-system")) == ["10.96.0.9 web web.kube-system web.kube-system.svc"]
    assert list(names(every, "shop")) == ["10.96.0.9 web.kube-system web.kube-system.svc"]
