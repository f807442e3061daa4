# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a cloud's load balancer and kube-proxy would do for Services: hand out addresses, lead them to ready pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.lab.addresses import MESH_PORT, ClusterAddresses
from tests.lab.hub import Door

Object = dict[str, Any]
MESH_SERVICE = "clustermesh-apiserver"


def name_of(service: Mapping[str, Any]) -> str:
    """namespace/name."""
    return f"{service['metadata']['namespace']}/{service['metadata']['name']}"


def wants_address(service: Mapping[str, Any]) -> bool:
    """Whether a Service of type LoadBalancer still has no address."""
    return service["spec"].get("type") == "LoadBalancer" and not _ingress(service)


def next_address(addresses: ClusterAddresses, services: Iterable[Mapping[str, Any]], *, wire: bool = False) -> str:
    """The first LoadBalancer address that no Service has, for agents to serve if it is on their ``wire``. Raises NoRoomError."""
    taken = {address for service in services for address in _addresses_of(service)}
    address_of = addresses.wire_balancer if wire else addresses.load_balancer
    number = 0
    while address_of(number) in taken:
        number += 1
    return address_of(number)


def doors(service: Mapping[str, Any], addresses: ClusterAddresses, node_ips: Sequence[str]) -> list[Door]:
    """Where a Service can be reached: LoadBalancer addresses, node ports on every node and, for the mesh's own Service, the address that
    stands in for its ClusterIP (only the cluster's own pods see that one)."""
    name, spec = name_of(service), service["spec"]
    found = []
    for port in spec.get("ports") or []:
        found += [Door(address, port["port"], name) for address in _addresses_of(service)]
        if port.get("nodePort"):
            found += [Door(address, port["nodePort"], name) for address in node_ips]
        if service["metadata"]["name"] == MESH_SERVICE and port["port"] == MESH_PORT:
            found.append(Door(addresses.cluster_ip, MESH_PORT, name, everywhere=False))
    return found


def names(services: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[str]:
    """Yield lines of /etc/hosts: the names that a cluster's DNS would give pods of ``namespace`` for ClusterIPs of Services."""
    for service in services:
        name, space = service["metadata"]["name"], service["metadata"]["namespace"]
        address = service["spec"].get("clusterIP", "None")
        if address != "None":  # headless
            yield " ".join([address, *([name] if space == namespace else []), f"{name}.{space}", f"{name}.{space}.svc"])


def target_port(service: Mapping[str, Any], pod: Mapping[str, Any]) -> int:
    """The number of the first port's targetPort in ``pod``; a name is looked up in its containers. Raises ValueError."""
    port = service["spec"]["ports"][0]
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for container in pod["spec"]["containers"]:
        for candidate in container.get("ports") or []:
            if candidate.get("name") == target:
                return int(candidate["containerPort"])
    raise ValueError(f"Service {name_of(service)}: no container port is called {target!r}")


def _ingress(service: Mapping[str, Any]) -> list[dict[str, str]]:
    """Addresses and, where a test plays a cloud that gives those, DNS names."""
    found: list[dict[str, str]] = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return found


def _addresses_of(service: Mapping[str, Any]) -> list[str]:
    return [entry["ip"] for entry in _ingress(service) if entry.get("ip")]
