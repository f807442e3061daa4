# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names, paths and annotations of the objects of an exposed service."""

from __future__ import annotations

from typing import Final

from ..items.models import ExposedService
from ..items.owned import NAME_LIMIT, object_name
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from ..mesh.facts.traffic import GATEWAY_GROUP
from .ranges import versions_of

DNS_ANNOTATION: Final = "external-dns.alpha.kubernetes.io/hostname"
"""external-dns makes the record (kubernetes-sigs/external-dns, docs/annotations)."""

CLAIM_ANNOTATION: Final = f"{MANAGER_DOMAIN}/hostname"
"""The hostname that an object claims, also where no DNS record is to come from it: a standby, or a primary that is down."""

GATEWAY_CONTROLLER: Final = "io.cilium/gateway-controller"


def order_of(item: ExposedService) -> tuple[str, ...]:
    """Return the clusters of the item; the primary first."""
    return (item.primary, *item.clusters) if item.primary else item.clusters


def name_of(binding: Binding, item: ExposedService) -> str:
    """Return the name of all objects of the item, equal in all clusters.

    A change that a Service does not allow gives another name: the API server refuses another first IP version, and does not remove node
    ports (Service API, ipFamilies and allocateLoadBalancerNodePorts). Names of Services begin with a letter (RFC 1035), names of items
    need not.
    """
    six = versions_of(item.source_ranges) == {6} and item.exposure != "Gateway"
    more = (*(("IPv6",) if six else ()), *(("no node ports",) if not item.node_ports else ()))
    name = object_name(binding, item.ref, *more)
    return name if name[0].isalpha() else f"e{name}" if len(name) < NAME_LIMIT else f"e{name[1:]}"


def services_path(namespace: str) -> str:
    """Return the API path of Services in the namespace."""
    return f"/api/v1/namespaces/{namespace}/services"


def policies_path(namespace: str) -> str:
    """Return the API path of CiliumNetworkPolicies in the namespace."""
    return f"/apis/cilium.io/v2/namespaces/{namespace}/ciliumnetworkpolicies"


def gateways_path(namespace: str) -> str:
    """Return the API path of Gateways in the namespace."""
    return f"/apis/{GATEWAY_GROUP}/v1/namespaces/{namespace}/gateways"


def routes_path(namespace: str) -> str:
    """Return the API path of HTTPRoutes in the namespace."""
    return f"/apis/{GATEWAY_GROUP}/v1/namespaces/{namespace}/httproutes"


def main_path(binding: Binding, item: ExposedService) -> str:
    """Return the API path of the object that gets the address: the Gateway, or the Service."""
    collection = gateways_path(item.namespace) if item.exposure == "Gateway" else services_path(item.namespace)
    return f"{collection}/{name_of(binding, item)}"


def route_path(binding: Binding, item: ExposedService) -> str:
    """Return the API path of the HTTPRoute of the item."""
    return f"{routes_path(item.namespace)}/{name_of(binding, item)}"
