# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses and port under which the object of an item can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..findings.wording import printable
from ..items.models import ExposedService
from ..mesh.endpoints.addresses import ip_version, is_ip
from ..mesh.facts.cluster import ClusterFacts, NodeFacts
from ..mesh.facts.traffic import Key, ObjectFacts, TrafficFacts

_TEXT: Final = 300


@dataclass(frozen=True, kw_only=True)
class AddressStatus:
    """Addresses of the object as the cluster reports them.

    Without an address none is assigned yet, or its controller refuses; ``message`` is the controller's text.
    """

    addresses: tuple[str, ...] = ()
    port: int = 0
    rejected: str = ""  # CamelCase reason why it gets no address as it is; "" for none
    message: str = ""
    beyond: bool = False  # the cluster does not see the address in packets: a host name, or ipMode Proxy


def address_status(
    item: ExposedService, observed: ObjectFacts | None, facts: ClusterFacts, traffic: TrafficFacts, versions: Iterable[int]
) -> AddressStatus:
    """Return the addresses of the object ``observed``.

    :param versions: IP versions that are exposed.
    """
    if observed is None:
        return AddressStatus()
    if item.exposure == "Gateway":
        return _of_gateway(observed)
    ports = [port for port in observed.spec.get("ports") or () if isinstance(port, Mapping)]
    if item.exposure == "LoadBalancer":
        return _of_load_balancer(observed, ports)
    number = next((int(port["nodePort"]) for port in ports if port.get("nodePort")), 0)
    local = observed.spec.get("externalTrafficPolicy") == "Local"
    nodes = _nodes_with_endpoints(traffic, (item.namespace, item.service)) if local else None
    return AddressStatus(addresses=_of_nodes(facts.nodes, nodes, frozenset(versions)) if number else (), port=number)


def _of_load_balancer(observed: ObjectFacts, ports: Sequence[Mapping[str, Any]]) -> AddressStatus:
    balancer = observed.status.get("loadBalancer")
    found = balancer.get("ingress") if isinstance(balancer, Mapping) else None
    rows = [row for row in found or () if isinstance(row, Mapping)]
    addresses = tuple(text for row in rows if (text := str(row.get("ip") or row.get("hostname") or "")))
    beyond = any(not row.get("ip") or row.get("ipMode", "VIP") != "VIP" for row in rows)
    number = next((int(port["port"]) for port in ports if port.get("port")), 0)
    return AddressStatus(addresses=tuple(map(printable, addresses)), port=number, beyond=beyond)


def _of_gateway(observed: ObjectFacts) -> AddressStatus:
    listeners = [entry for entry in observed.spec.get("listeners") or () if isinstance(entry, Mapping)]
    port = next((int(entry["port"]) for entry in listeners if entry.get("port")), 0)
    values = [str(row.get("value") or "") for row in observed.status.get("addresses") or () if isinstance(row, Mapping)]
    refused = _refusal(observed)
    reason, message = (str(refused.get("reason") or "NotProgrammed"), str(refused.get("message") or "")) if refused else ("", "")
    return AddressStatus(
        addresses=() if reason else tuple(printable(value) for value in values if value),
        port=port,
        rejected=reason if reason.isalnum() else "NotProgrammed" if reason else "",
        message=printable(message)[:_TEXT],
    )


def _refusal(observed: ObjectFacts) -> Mapping[str, Any] | None:
    """Return a condition with which the controller refuses the Gateway or its listener (a missing certificate, for example)."""
    listeners = [row for row in observed.status.get("listeners") or () if isinstance(row, Mapping)]
    rows = [row for holder in (observed.status, *listeners) for row in holder.get("conditions") or () if isinstance(row, Mapping)]
    said_no = (row for row in rows if row.get("type") in ("Accepted", "ResolvedRefs") and row.get("status") == "False")
    return next(said_no, None)


def _of_nodes(nodes: Iterable[NodeFacts], wanted: frozenset[str] | None, versions: frozenset[int]) -> tuple[str, ...]:
    """Return the addresses of ready nodes: ExternalIP where any node has one, else InternalIP."""
    ready = [node for node in nodes if node.ready and (wanted is None or node.name in wanted)]
    outside = any(node.external_ips for node in ready)
    found = [ip for node in ready for ip in (node.external_ips if outside else node.internal_ips)]
    return tuple(ip for ip in found if is_ip(ip) and ip_version(ip) in versions)


def _nodes_with_endpoints(traffic: TrafficFacts, key: Key) -> frozenset[str]:
    """Return the nodes with a ready endpoint. With ``externalTrafficPolicy: Local`` the others drop the traffic."""
    slices = traffic.slices_by_service.get(key, ())
    return frozenset(endpoint.node for entry in slices for endpoint in entry.endpoints if endpoint.ready and endpoint.node)
