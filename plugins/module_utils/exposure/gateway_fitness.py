# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reasons why a port cannot be exposed by a Gateway in a cluster."""

from __future__ import annotations

from typing import Final

from ..findings.wording import config_evidence, helm, lines, printable, restart, show
from ..items.models import ExposedService
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import GATEWAY_GROUP, TrafficFacts
from ..mesh.versions.cilium_config import enabled
from .issues import ExposureIssue
from .names import GATEWAY_CONTROLLER
from .parse import DEFAULT_GATEWAY_CLASS
from .target import ExposureTarget

SERVED: Final = f"{GATEWAY_GROUP}/v1"

HTTP_PROTOCOLS: Final = frozenset({"http", "kubernetes.io/h2c", "kubernetes.io/ws", "h2c", "ws", "grpc"})
"""Values of appProtocol that HTTPRoute carries to its backends without TLS (Kubernetes standard names; GEP-1911)."""

HTTP_NAMES: Final = ("http", "http2", "h2c", "grpc", "ws", "web")
"""A port without appProtocol is named after its protocol, with or without more behind a dash."""

HTTP_PORTS: Final = (80, 8080)
"""Numbers of HTTP ports, for a port with neither appProtocol nor name: http and http-alt (IANA)."""


def why_no_gateway(item: ExposedService, target: ExposureTarget, facts: ClusterFacts, traffic: TrafficFacts) -> ExposureIssue | None:
    """Return why no Gateway is possible; None if one is."""
    return _not_served(traffic) or _no_class(item, facts, traffic) or _not_http(target)


def _not_served(traffic: TrafficFacts) -> ExposureIssue | None:
    if SERVED not in traffic.served:
        return ExposureIssue(
            code="CM-EXPO-05",
            reason="ClassNotPossible",
            summary="The cluster does not have the Gateway API",
            evidence=f"/apis does not list {SERVED}",
            fix="Install the standard CRDs of the Gateway API that fit the version of Cilium, or use class LoadBalancer.",
        )
    for what in ("gateways", "httproutes"):
        unread = traffic.could_not_read(what)
        if unread is not None:
            return ExposureIssue(
                code="CM-EXPO-05",
                reason="NotReadable",
                summary=f"The user of the kubeconfig may not read the {what} of the cluster, so the existing ones are not known",
                evidence=unread.message,
                fix=unread.remedy,
            )
    return None


def _no_class(item: ExposedService, facts: ClusterFacts, traffic: TrafficFacts) -> ExposureIssue | None:
    found = traffic.gateway_classes.get(item.gateway_class)
    controller = str(found.spec.get("controllerName", "")) if found else ""
    if found is None and traffic.could_not_read("gatewayclasses") is None:
        return ExposureIssue(
            code="CM-EXPO-05",
            reason="ClassNotPossible",
            summary=f"There is no GatewayClass {item.gateway_class}",
            evidence=config_evidence(facts, "enable-gateway-api") if item.gateway_class == DEFAULT_GATEWAY_CLASS else "",
            fix=lines(helm(facts, "gatewayAPI.enabled=true"), restart(facts))
            if item.gateway_class == DEFAULT_GATEWAY_CLASS
            else "Name an existing class in gatewayClassName.",
        )
    by_cilium = controller == GATEWAY_CONTROLLER or (not controller and item.gateway_class == DEFAULT_GATEWAY_CLASS)
    if by_cilium and not enabled(facts, "enable-gateway-api", False):
        return ExposureIssue(
            code="CM-EXPO-05",
            reason="ClassNotPossible",
            summary=f"Cilium does not serve Gateways in this cluster, and GatewayClass {item.gateway_class} is Cilium's",
            evidence=config_evidence(facts, "enable-gateway-api"),
            fix=lines(helm(facts, "gatewayAPI.enabled=true"), restart(facts)),
        )
    return None


def _not_http(target: ExposureTarget) -> ExposureIssue | None:
    """Return an issue if the port is not known to be HTTP.

    A Gateway terminates the connection and speaks HTTP to the backend: no other protocol passes.
    """
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
    return ExposureIssue(
        code="CM-EXPO-05",
        reason="ProtocolNotSupported",
        summary=f"Port {target.number}/{target.protocol} does not declare HTTP, and a Gateway forwards nothing else",
        evidence=printable(f"it has {said}"),
        fix="Use class LoadBalancer, which forwards the connection unchanged. If the port speaks plain HTTP, say so in the Service: "
        "appProtocol: http.",
    )
