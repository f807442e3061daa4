# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects of an ExposedService in one cluster. Pure.

- LoadBalancer, NodePort: a Service of this mesh beside the exposed one, with its selector and the one port. The tenant's own Service
  is not touched: its other ports stay internal, and removing the item is removing an object.
- NodePort with source ranges: a policy that denies the port of the pods to all other addresses outside.
- Gateway: a Gateway with one listener, and the HTTPRoute from it to the exposed Service itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..items.models import ExposedService
from ..items.owned import DesiredObject, owned_object
from ..mesh.binding.model import Binding
from ..mesh.facts.traffic import GATEWAY_GROUP
from ..services.annotations import AFFINITY, GLOBAL, SHARED, is_global, is_shared
from .enforcement import Enforcement
from .names import CLAIM_ANNOTATION, DNS_ANNOTATION, gateways_path, name_of, policies_path, routes_path, services_path
from .ranges import EVERYONE, of_versions
from .target import ExposureTarget

FAMILIES: Final = {4: "IPv4", 6: "IPv6"}
HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443


@dataclass(frozen=True, kw_only=True)
class Place:
    """One item in one cluster, and whether its hostname leads there now."""

    binding: Binding
    item: ExposedService
    host: str
    target: ExposureTarget
    enforcement: Enforcement
    serving: bool

    @property
    def listens_on(self) -> int:
        """Port of the Gateway's listener."""
        return HTTPS_PORT if self.item.tls_secret else HTTP_PORT

    def owned(self, collection: str, body: Mapping[str, Any], why: str) -> DesiredObject:
        """Return the body as an object of the item."""
        return owned_object(self.binding, self.item.ref, self.host, collection, body, why=why)


def objects_of(place: Place) -> list[DesiredObject]:
    """Return the objects in the order of writing: a policy that restricts access comes before the Service that opens it."""
    if place.item.exposure == "Gateway":
        return [_gateway(place), *([_route(place)] if place.serving else [])]
    return [*([_policy(place)] if place.enforcement.by_policy else []), _service(place)]


def _metadata(place: Place, annotations: Mapping[str, str]) -> dict[str, Any]:
    claim = {CLAIM_ANNOTATION: place.item.hostname} if place.item.hostname else {}
    return {
        "name": name_of(place.binding, place.item),
        "namespace": place.item.namespace,
        **({"annotations": {**annotations, **claim}} if annotations or claim else {}),
    }


def _service(place: Place) -> DesiredObject:
    item, target, ranges = place.item, place.target, place.enforcement
    port = {key: target.port[key] for key in ("name", "appProtocol") if target.port.get(key)}
    port |= {"port": target.number, "protocol": target.protocol, "targetPort": target.target_port}
    spec: dict[str, Any] = {"type": item.exposure, "selector": dict(target.selector), "ports": [port], **_families(ranges)}
    if item.exposure == "LoadBalancer":
        spec["loadBalancerSourceRanges"] = list(ranges.ranges)
        if not item.node_ports:
            spec["allocateLoadBalancerNodePorts"] = False
    if ranges.by_policy:
        spec["externalTrafficPolicy"] = "Local"
    annotations = {DNS_ANNOTATION: item.hostname} if item.hostname and place.serving else {}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(place, {**annotations, **mesh_annotations(place)}), "spec": spec}
    return place.owned(services_path(item.namespace), body, f"expose port {target.number} of Service {item.namespace}/{item.service}")


def mesh_annotations(place: Place) -> dict[str, str]:
    """Return the annotations that make our Service global, where the exposed Service is global.

    Our Service has the same name in all clusters. Then an address whose own cluster has no endpoint left still answers, from the other
    clusters in which the item is exposed. Local comes first: a client of this address means this cluster. With
    ``externalTrafficPolicy: Local`` only endpoints of the same node count.
    """
    given = place.target.service.annotations
    if place.enforcement.by_policy or not is_global(given):
        return {}
    return {GLOBAL: "true", SHARED: str(is_shared(given)).lower(), AFFINITY: "local"}


def _families(ranges: Enforcement) -> dict[str, Any]:
    """Return only IP versions that have a range: kube-proxy lets every address in by a version that has none."""
    if len(ranges.versions) > 1:
        return {"ipFamilyPolicy": "PreferDualStack"}
    return {"ipFamilyPolicy": "SingleStack", "ipFamilies": [FAMILIES[version] for version in ranges.versions]}


def _policy(place: Place) -> DesiredObject:
    target, ranges = place.target, place.enforcement
    denied = []
    for version in sorted(ranges.versions):
        within = of_versions(ranges.ranges, {version})
        if EVERYONE[version] not in within:
            denied.append({"cidr": EVERYONE[version], "except": list(within)})
    spec = {
        "endpointSelector": {"matchLabels": {f"k8s:{key}": value for key, value in sorted(target.selector.items())}},
        "ingressDeny": [
            {"fromCIDRSet": denied, "toPorts": [{"ports": [{"port": str(target.target_port), "protocol": target.protocol}]}]},
        ],
        "enableDefaultDeny": {"ingress": False},
    }
    body = {"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "metadata": _metadata(place, {}), "spec": spec}
    return place.owned(policies_path(place.item.namespace), body, "refuse clients from outside that are not in sourceRanges")


def _gateway(place: Place) -> DesiredObject:
    item = place.item
    secure = bool(item.tls_secret)
    listener: dict[str, Any] = {
        "name": "https" if secure else "http",
        "port": place.listens_on,
        "protocol": "HTTPS" if secure else "HTTP",
        "allowedRoutes": {"namespaces": {"from": "Same"}},
    }
    if item.hostname:
        listener["hostname"] = item.hostname
    if secure:
        listener["tls"] = {"mode": "Terminate", "certificateRefs": [{"kind": "Secret", "name": item.tls_secret}]}
    body = {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": "Gateway",
        "metadata": _metadata(place, {}),
        "spec": {"gatewayClassName": item.gateway_class, "listeners": [listener]},
    }
    return place.owned(gateways_path(item.namespace), body, f"an address for Service {item.namespace}/{item.service}")


def _route(place: Place) -> DesiredObject:
    """Return the HTTPRoute. external-dns takes names from routes: a cluster that is not serving has none."""
    item = place.item
    spec: dict[str, Any] = {
        "parentRefs": [{"name": name_of(place.binding, item)}],
        "rules": [{"backendRefs": [{"name": item.service, "port": place.target.number}]}],
    }
    if item.hostname:
        spec["hostnames"] = [item.hostname]
    body = {"apiVersion": f"{GATEWAY_GROUP}/v1", "kind": "HTTPRoute", "metadata": _metadata(place, {}), "spec": spec}
    return place.owned(routes_path(item.namespace), body, f"route the Gateway to Service {item.namespace}/{item.service}")
