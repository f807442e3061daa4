# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Target of an item in one cluster: the Service and its one port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..findings.wording import listed, printable
from ..items.models import ExposedPort, ExposedService
from ..items.owned import ITEM_ANNOTATION
from ..items.system import protected_service
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import Key, ObjectFacts, TrafficFacts
from .issues import ExposureIssue


@dataclass(frozen=True, kw_only=True)
class ExposureTarget:
    """A Service that can be exposed. ``port`` is its entry in ``spec.ports`` as the API server sent it."""

    service: ObjectFacts
    port: Mapping[str, Any]

    @property
    def selector(self) -> Mapping[str, str]:
        """Selector of the Service."""
        return dict(self.service.spec.get("selector") or {})

    @property
    def number(self) -> int:
        """Number of the port."""
        return int(self.port["port"])

    @property
    def protocol(self) -> str:
        """Protocol of the port."""
        return protocol_of(self.port)

    @property
    def target_port(self) -> int | str:
        """Number or name of the pods' port."""
        return target_port_of(self.port)


def find_target(item: ExposedService, traffic: TrafficFacts) -> ExposureTarget | ExposureIssue:
    """Return the target of ``item`` in this cluster, or why it cannot be exposed there."""
    key = (item.namespace, item.service)
    service = traffic.services.get(key)
    namespace = traffic.namespaces.get(item.namespace)
    if namespace is None or service is None:
        return _missing(key, exists=namespace is not None)
    if namespace.status.get("phase") == "Terminating":
        return ExposureIssue(
            code="CM-EXPO-02",
            reason="NamespaceTerminating",
            summary=f"Namespace {item.namespace} is being deleted",
            evidence="its status.phase is Terminating; the API server creates nothing in it",
            fix="Wait until it is gone, then make it and the Service anew, or name another Service.",
        )
    return _unfit(item, service) or _port(item, service)


def system_service_issue(target: ExposureTarget, facts: ClusterFacts) -> ExposureIssue | None:
    """Return why items may not expose the Service, if it belongs to the cluster or the mesh; else None."""
    why = protected_service(target.service.key, target.selector, facts)
    if not why:
        return None
    return ExposureIssue(
        code="CM-EXPO-02",
        reason="OfTheSystem",
        summary=f"Service {target.service.namespace}/{target.service.name} is {why}; it is not exposed",
        evidence="its name, or the pods that it selects, show that",
        fix="Expose another Service. How peers reach clustermesh-apiserver is set by meshConfig.serviceType of the binding.",
    )


def protocol_of(port: Mapping[str, Any]) -> str:
    """Return the protocol of a port; TCP where none is named (Service API)."""
    return str(port.get("protocol") or "TCP")


def target_port_of(port: Mapping[str, Any]) -> int | str:
    """Return the number or the name of a container's port; the port itself where none is named (Service API)."""
    found: int | str = port.get("targetPort") or port.get("port") or 0
    return found


def _missing(key: Key, *, exists: bool) -> ExposureIssue:
    namespace, name = key
    return ExposureIssue(
        code="CM-EXPO-01",
        reason="ServiceNotFound",
        summary=f"There is no Service {namespace}/{name}",
        evidence="" if exists else f"there is no namespace {namespace}",
        fix=f"Create Service {name} in namespace {namespace}, or leave this cluster out of clusters.",
    )


def _unfit(item: ExposedService, service: ObjectFacts) -> ExposureIssue | None:
    shown = f"Service {service.namespace}/{service.name}"
    if service.spec.get("type") == "ExternalName":
        return ExposureIssue(
            code="CM-EXPO-02",
            reason="ExternalName",
            summary=f"{shown} is of type ExternalName: a DNS alias, which has no endpoints",
            fix="Expose the Service behind the name, in the cluster where it runs.",
        )
    made_for = ItemRef.parse(service.annotations.get(ITEM_ANNOTATION, ""))
    if made_for is not None and made_for.kind is ItemKind.EXPOSURE:
        return ExposureIssue(
            code="CM-EXPO-02",
            reason="MadeByAMesh",
            summary=f"{shown} was itself made for an ExposedService",
            evidence=f"its annotation {ITEM_ANNOTATION} says so",
            fix="Name the Service that it was made from.",
        )
    if not service.spec.get("selector") and item.exposure != "Gateway":
        return ExposureIssue(
            code="CM-EXPO-02",
            reason="NoSelector",
            summary=f"{shown} has no selector, so that a Service beside it would have no endpoints",
            evidence="another writer maintains its endpoints",
            fix="Give it a selector, or use class Gateway, which leads to the Service itself.",
        )
    return None


def _port(item: ExposedService, service: ObjectFacts) -> ExposureTarget | ExposureIssue:
    ports = [port for port in service.spec.get("ports") or () if isinstance(port, Mapping) and port.get("port")]
    meant = [port for port in ports if _named(item.port, port)]
    found = [port for port in meant if item.port.protocol in ("", protocol_of(port))]
    if len(found) == 1:
        return ExposureTarget(service=service, port=found[0])
    has = f"its ports are {listed(printable(_shown(port)) for port in ports)}" if ports else "it has no ports"
    shown = f"Service {service.namespace}/{service.name}"
    asked = item.port.name or str(item.port.number)
    if len(found) > 1:
        return _port_remark("PortAmbiguous", f"{shown} has port {asked} for several protocols", has, "Name the protocol in port.protocol.")
    if meant:
        other = listed(protocol_of(port) for port in meant)
        why = f"port {asked} of {shown} is {other}, not {item.port.protocol}"
        return _port_remark("ProtocolMismatch", why, has, f"Set port.protocol to {other}, or name another port.")
    return _port_remark("PortNotFound", f"{shown} has no port {asked}", has, "Name one of its ports.")


def _port_remark(reason: str, summary: str, evidence: str, fix: str) -> ExposureIssue:
    return ExposureIssue(code="CM-EXPO-03", reason=reason, summary=summary[0].upper() + summary[1:], evidence=evidence, fix=fix)


def _named(asked: ExposedPort, port: Mapping[str, Any]) -> bool:
    return (not asked.number or port["port"] == asked.number) and (not asked.name or port.get("name") == asked.name)


def _shown(port: Mapping[str, Any]) -> str:
    name = f" ({port['name']})" if port.get("name") else ""
    return f"{port['port']}/{protocol_of(port)}{name}"
