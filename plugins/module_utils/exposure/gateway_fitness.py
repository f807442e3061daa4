# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Can a port be exposed by a Gateway in this cluster?"""

from __future__ import annotations

from typing import Final

from ..checks.wording import config_evidence, enabled, helm, lines, printable, restart, show
from ..facts import ClusterFacts
from ..items.facts import TrafficFacts
from ..items.models import ExposedService
from ..observe.traffic import GATEWAY_GROUP
from .codes import CLASS_NOT_POSSIBLE
from .names import GATEWAY_CONTROLLER
from .parse import DEFAULT_GATEWAY_CLASS
from .remarks import Remark
from .target import Target

SERVED: Final = f"{GATEWAY_GROUP}/v1"

HTTP_PROTOCOLS: Final = frozenset({"http", "kubernetes.io/h2c", "kubernetes.io/ws", "h2c", "ws", "grpc"})
"""appProtocol of what HTTPRoute carries to its backends in plain (Kubernetes standard names; GEP-1911)."""

HTTP_NAMES: Final = ("http", "http2", "h2c", "grpc", "ws", "web")
"""A port without appProtocol is named after its protocol, with or without more behind a dash."""

HTTP_PORTS: Final = (80, 8080)
"""Of a port with neither: http and http-alt (IANA)."""


def why_no_gateway(item: ExposedService, target: Target, facts: ClusterFacts, traffic: TrafficFacts) -> Remark | None:
    """What stands in the way; None for nothing."""
    return _not_served(traffic) or _no_class(item, facts, traffic) or _not_http(target)


def _not_served(traffic: TrafficFacts) -> Remark | None:
    if SERVED not in traffic.served:
        return Remark(
            code=CLASS_NOT_POSSIBLE,
            reason="ClassNotPossible",
            summary="The cluster does not have the Gateway API",
            evidence=f"/apis does not list {SERVED}",
            fix="Install the standard CRDs of the Gateway API that fit the version of Cilium, or use class LoadBalancer.",
        )
    for what in ("gateways", "httproutes"):
        unread = traffic.could_not_read(what)
        if unread is not None:
            return Remark(
                code=CLASS_NOT_POSSIBLE,
                reason="NotReadable",
                summary=f"The {what} of the cluster may not be read, so that nothing is known of those that are there",
                evidence=unread.message,
                fix=unread.remedy,
            )
    return None


def _no_class(item: ExposedService, facts: ClusterFacts, traffic: TrafficFacts) -> Remark | None:
    found = traffic.gateway_classes.get(item.gateway_class)
    controller = str(found.spec.get("controllerName", "")) if found else ""
    if found is None and traffic.could_not_read("gatewayclasses") is None:
        return Remark(
            code=CLASS_NOT_POSSIBLE,
            reason="ClassNotPossible",
            summary=f"There is no GatewayClass {item.gateway_class}",
            evidence=config_evidence(facts, "enable-gateway-api") if item.gateway_class == DEFAULT_GATEWAY_CLASS else "",
            fix=lines(helm(facts, "gatewayAPI.enabled=true"), restart(facts))
            if item.gateway_class == DEFAULT_GATEWAY_CLASS
            else "Name a class that there is in gatewayClassName.",
        )
    by_cilium = controller == GATEWAY_CONTROLLER or (not controller and item.gateway_class == DEFAULT_GATEWAY_CLASS)
    if by_cilium and not enabled(facts, "enable-gateway-api", False):
        return Remark(
            code=CLASS_NOT_POSSIBLE,
            reason="ClassNotPossible",
            summary=f"Cilium does not serve Gateways in this cluster, and GatewayClass {item.gateway_class} is Cilium's",
            evidence=config_evidence(facts, "enable-gateway-api"),
            fix=lines(helm(facts, "gatewayAPI.enabled=true"), restart(facts)),
        )
    return None


def _not_http(target: Target) -> Remark | None:
    """A Gateway ends the connection and speaks HTTP to the backend: nothing else passes."""
    protocol, name = str(target.port.get("appProtocol") or ""), str(target.port.get("name") or "")
    if target.protocol == "TCP":
        if protocol:
            fits = protocol in HTTP_PROTOCOLS
        elif name:
            fits = name in HTTP_NAMES or name.startswith(tuple(f"{known}-" for known in HTTP_NAMES))
        else:
            fits = target.number in HTTP_PORTS
        if fits:
            return None
    said = f"appProtocol {show(protocol)}" if protocol else f"name {show(name)}" if name else f"number {target.number} and no name"
    return Remark(
        code=CLASS_NOT_POSSIBLE,
        reason="ProtocolNotSupported",
        summary=f"Port {target.number}/{target.protocol} does not say that it speaks HTTP, and a Gateway passes nothing else on",
        evidence=printable(f"it has {said}"),
        fix="Use class LoadBalancer, which passes the connection on as it is. If the port speaks plain HTTP, say so in the Service: "
        "appProtocol: http.",
    )
