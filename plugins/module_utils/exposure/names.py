# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names and places of the objects of an exposed service, and what is written on them."""

from __future__ import annotations

from typing import Final

from ..items.kinds import ItemKind, ItemRef
from ..items.models import ExposedService
from ..items.owned import NAME_LIMIT, object_name
from ..model import MANAGER_DOMAIN, Binding
from ..observe.traffic import GATEWAY_GROUP
from .ranges import versions_of

DNS_ANNOTATION: Final = "external-dns.alpha.kubernetes.io/hostname"
"""external-dns makes the record (kubernetes-sigs/external-dns, docs/annotations)."""

CLAIM_ANNOTATION: Final = f"{MANAGER_DOMAIN}/hostname"
"""The hostname that an object claims, also where no DNS record is to come from it: a standby, or a primary that is down."""

GATEWAY_CONTROLLER: Final = "io.cilium/gateway-controller"


def ref_of(item: ExposedService) -> ItemRef:
    return ItemRef(ItemKind.EXPOSURE, item.name)


def order_of(item: ExposedService) -> tuple[str, ...]:
    """Clusters of the item; the primary first."""
    return (item.primary, *item.clusters) if item.primary else item.clusters


def name_of(binding: Binding, item: ExposedService) -> str:
    """Of all objects of the item, equal in all clusters. What cannot be changed on a Service gives another name: the API server refuses
    another first IP version, and does not take node ports back (Service API, ipFamilies and allocateLoadBalancerNodePorts).

    Names of Services begin with a letter (RFC 1035), names of items need not.
    """
    six = versions_of(item.source_ranges) == {6} and item.exposure != "Gateway"
    more = (*(("IPv6",) if six else ()), *(("no node ports",) if not item.node_ports else ()))
    name = object_name(binding, ref_of(item), *more)
    return name if name[0].isalpha() else f"e{name}" if len(name) < NAME_LIMIT else f"e{name[1:]}"


def services_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def policies_path(namespace: str) -> str:
    return f"/apis/cilium.io/v2/namespaces/{namespace}/ciliumnetworkpolicies"


def gateways_path(namespace: str) -> str:
    return f"/apis/{GATEWAY_GROUP}/v1/namespaces/{namespace}/gateways"


def routes_path(namespace: str) -> str:
    return f"/apis/{GATEWAY_GROUP}/v1/namespaces/{namespace}/httproutes"


def main_path(binding: Binding, item: ExposedService) -> str:
    """API path of the object that gets the address: the Gateway, or the Service."""
    collection = gateways_path(item.namespace) if item.exposure == "Gateway" else services_path(item.namespace)
    return f"{collection}/{name_of(binding, item)}"


def route_path(binding: Binding, item: ExposedService) -> str:
    return f"{routes_path(item.namespace)}/{name_of(binding, item)}"
