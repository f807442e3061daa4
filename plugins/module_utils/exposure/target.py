# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The Service that an item is about, and the one port of it, as one cluster has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..checks.wording import listed, printable
from ..facts import ClusterFacts
from ..items.facts import Key, ObjectFacts, TrafficFacts
from ..items.kinds import ItemKind, ItemRef
from ..items.models import ExposedPort, ExposedService
from ..items.owned import ITEM_ANNOTATION
from ..items.system import why_not_for_items
from .codes import PORT_UNFIT, SERVICE_MISSING, SERVICE_UNFIT
from .remarks import Remark


@dataclass(frozen=True, kw_only=True)
class Target:
    """A Service that can be exposed. ``port`` is its entry in ``spec.ports`` as the API server sent it."""

    service: ObjectFacts
    port: Mapping[str, Any]

    @property
    def selector(self) -> Mapping[str, str]:
        return dict(self.service.spec.get("selector") or {})

    @property
    def number(self) -> int:
        return int(self.port["port"])

    @property
    def protocol(self) -> str:
        return protocol_of(self.port)

    @property
    def target_port(self) -> int | str:
        return target_port_of(self.port)


def find_target(item: ExposedService, traffic: TrafficFacts) -> Target | Remark:
    """What ``item`` names in this cluster, or why it cannot be exposed there."""
    key = (item.namespace, item.service)
    service = traffic.services.get(key)
    namespace = traffic.namespaces.get(item.namespace)
    if namespace is None or service is None:
        return _missing(key, there=namespace is not None)
    if namespace.status.get("phase") == "Terminating":
        return Remark(
            code=SERVICE_UNFIT,
            reason="NamespaceTerminating",
            summary=f"Namespace {item.namespace} is being deleted",
            evidence="its status.phase is Terminating; the API server creates nothing in it",
            fix="Wait until it is gone, then make it and the Service anew, or name another Service.",
        )
    return _unfit(item, service) or _port(item, service)


def of_the_system(target: Target, facts: ClusterFacts) -> Remark | None:
    """Why the Service is none that an item may open to anybody."""
    why = why_not_for_items(target.service.key, target.selector, facts)
    if not why:
        return None
    return Remark(
        code=SERVICE_UNFIT,
        reason="OfTheSystem",
        summary=f"Service {target.service.namespace}/{target.service.name} is {why}; it is not exposed",
        evidence="its name, or the pods that it selects, say so",
        fix="Expose another Service. How peers reach clustermesh-apiserver is set by meshConfig.serviceType of the binding.",
    )


def protocol_of(port: Mapping[str, Any]) -> str:
    """TCP where nothing is said (Service API)."""
    return str(port.get("protocol") or "TCP")


def target_port_of(port: Mapping[str, Any]) -> int | str:
    """Number, or the name of a container's port; the port itself where nothing is said (Service API)."""
    found: int | str = port.get("targetPort") or port.get("port") or 0
    return found


def _missing(key: Key, *, there: bool) -> Remark:
    namespace, name = key
    return Remark(
        code=SERVICE_MISSING,
        reason="ServiceNotFound",
        summary=f"There is no Service {namespace}/{name}",
        evidence="" if there else f"there is no namespace {namespace}",
        fix=f"Create Service {name} in namespace {namespace}, or leave this cluster out of clusters.",
    )


def _unfit(item: ExposedService, service: ObjectFacts) -> Remark | None:
    shown = f"Service {service.namespace}/{service.name}"
    if service.spec.get("type") == "ExternalName":
        return Remark(
            code=SERVICE_UNFIT,
            reason="ExternalName",
            summary=f"{shown} is of type ExternalName: a DNS alias, which has no endpoints",
            fix="Expose what the name leads to, where it runs.",
        )
    made_for = ItemRef.parse(service.annotations.get(ITEM_ANNOTATION, ""))
    if made_for is not None and made_for.kind is ItemKind.EXPOSURE:
        return Remark(
            code=SERVICE_UNFIT,
            reason="MadeByAMesh",
            summary=f"{shown} was itself made for an ExposedService",
            evidence=f"its annotation {ITEM_ANNOTATION} says so",
            fix="Name the Service that it was made from.",
        )
    if not service.spec.get("selector") and item.exposure != "Gateway":
        return Remark(
            code=SERVICE_UNFIT,
            reason="NoSelector",
            summary=f"{shown} has no selector, so that a Service beside it would have no endpoints",
            evidence="somebody keeps its endpoints by hand",
            fix="Give it a selector, or use class Gateway, which leads to the Service itself.",
        )
    return None


def _port(item: ExposedService, service: ObjectFacts) -> Target | Remark:
    ports = [port for port in service.spec.get("ports") or () if isinstance(port, Mapping) and port.get("port")]
    meant = [port for port in ports if _named(item.port, port)]
    found = [port for port in meant if item.port.protocol in ("", protocol_of(port))]
    if len(found) == 1:
        return Target(service=service, port=found[0])
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


def _port_remark(reason: str, summary: str, evidence: str, fix: str) -> Remark:
    return Remark(code=PORT_UNFIT, reason=reason, summary=summary[0].upper() + summary[1:], evidence=evidence, fix=fix)


def _named(asked: ExposedPort, port: Mapping[str, Any]) -> bool:
    return (not asked.number or port["port"] == asked.number) and (not asked.name or port.get("name") == asked.name)


def _shown(port: Mapping[str, Any]) -> str:
    name = f" ({port['name']})" if port.get("name") else ""
    return f"{port['port']}/{protocol_of(port)}{name}"
