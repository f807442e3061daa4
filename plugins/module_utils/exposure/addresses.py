# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where the object of an item can be reached: its addresses and its port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..checks.wording import printable
from ..endpoints import is_ip, version_of
from ..facts import ClusterFacts, NodeFacts
from ..items.facts import Key, ObjectFacts, TrafficFacts
from ..items.models import ExposedService

_TEXT: Final = 300


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the cluster says of the object. No address: none is assigned yet, or whoever assigns them refuses; ``message`` is their word."""

    addresses: tuple[str, ...] = ()
    port: int = 0
    rejected: str = ""  # CamelCase reason for which nothing will come of it as it is; "" for none
    message: str = ""
    beyond: bool = False  # the cluster does not see traffic to the address as such: a host name, or ipMode Proxy


def standing_of(
    item: ExposedService, there: ObjectFacts | None, facts: ClusterFacts, traffic: TrafficFacts, versions: Iterable[int]
) -> Standing:
    """:param versions: IP versions that are exposed."""
    if there is None:
        return Standing()
    if item.exposure == "Gateway":
        return _of_gateway(there)
    ports = [port for port in there.spec.get("ports") or () if isinstance(port, Mapping)]
    if item.exposure == "LoadBalancer":
        return _of_load_balancer(there, ports)
    number = next((int(port["nodePort"]) for port in ports if port.get("nodePort")), 0)
    local = there.spec.get("externalTrafficPolicy") == "Local"
    nodes = _nodes_with_endpoints(traffic, (item.namespace, item.service)) if local else None
    return Standing(addresses=_of_nodes(facts.nodes, nodes, frozenset(versions)) if number else (), port=number)


def _of_load_balancer(there: ObjectFacts, ports: Sequence[Mapping[str, Any]]) -> Standing:
    balancer = there.status.get("loadBalancer")
    found = balancer.get("ingress") if isinstance(balancer, Mapping) else None
    rows = [row for row in found or () if isinstance(row, Mapping)]
    addresses = tuple(text for row in rows if (text := str(row.get("ip") or row.get("hostname") or "")))
    beyond = any(not row.get("ip") or row.get("ipMode", "VIP") != "VIP" for row in rows)
    number = next((int(port["port"]) for port in ports if port.get("port")), 0)
    return Standing(addresses=tuple(map(printable, addresses)), port=number, beyond=beyond)


def _of_gateway(there: ObjectFacts) -> Standing:
    listeners = [entry for entry in there.spec.get("listeners") or () if isinstance(entry, Mapping)]
    port = next((int(entry["port"]) for entry in listeners if entry.get("port")), 0)
    values = [str(row.get("value") or "") for row in there.status.get("addresses") or () if isinstance(row, Mapping)]
    refused = _refusal(there)
    reason, message = (str(refused.get("reason") or "NotProgrammed"), str(refused.get("message") or "")) if refused else ("", "")
    return Standing(
        addresses=() if reason else tuple(printable(value) for value in values if value),
        port=port,
        rejected=reason if reason.isalnum() else "NotProgrammed" if reason else "",
        message=printable(message)[:_TEXT],
    )


def _refusal(there: ObjectFacts) -> Mapping[str, Any] | None:
    """A condition with which the controller says no: to the Gateway, or to its listener (a certificate that is not there, say)."""
    listeners = [row for row in there.status.get("listeners") or () if isinstance(row, Mapping)]
    rows = [row for holder in (there.status, *listeners) for row in holder.get("conditions") or () if isinstance(row, Mapping)]
    said_no = (row for row in rows if row.get("type") in ("Accepted", "ResolvedRefs") and row.get("status") == "False")
    return next(said_no, None)


def _of_nodes(nodes: Iterable[NodeFacts], wanted: frozenset[str] | None, versions: frozenset[int]) -> tuple[str, ...]:
    """ExternalIP where any node has one, else InternalIP; of nodes that are ready."""
    ready = [node for node in nodes if node.ready and (wanted is None or node.name in wanted)]
    outside = any(node.external_ips for node in ready)
    found = [ip for node in ready for ip in (node.external_ips if outside else node.internal_ips)]
    return tuple(ip for ip in found if is_ip(ip) and version_of(ip) in versions)


def _nodes_with_endpoints(traffic: TrafficFacts, key: Key) -> frozenset[str]:
    """With ``externalTrafficPolicy: Local`` the others drop what arrives."""
    slices = traffic.slices_by_service.get(key, ())
    return frozenset(endpoint.node for entry in slices for endpoint in entry.endpoints if endpoint.ready and endpoint.node)
