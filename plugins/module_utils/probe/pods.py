# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The pods of one side of an intent, with what the metadata does not tell: address, node, readiness, ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from ..items.models import PodSelection
from ..kube import Cluster
from ..observe.objects import items, labels_of, mapping, number, text
from .selecting import label_selector


@dataclass(frozen=True, kw_only=True)
class PodSeen:
    """One pod that is not being deleted."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    address: str = ""  # "" when it has none, or none that can be parsed
    ready: bool = False
    host_network: bool = False
    account: str = ""  # ServiceAccount
    tcp_ports: tuple[int, ...] = ()  # that its containers declare

    @property
    def has_identity(self) -> bool:
        """Of its own. A pod in the host's network has that of the host, which no pod selector means."""
        return not self.host_network


def read_pods(cluster: Cluster, selection: PodSelection, namespace: str, most: int) -> tuple[PodSeen, ...]:
    """At most ``most`` pods that the selection selects in one namespace. Raises ClusterError. One request."""
    found = cluster.list(f"/api/v1/namespaces/{namespace}/pods", label_selector=label_selector(selection), most=most)
    return tuple(_pod(value) for value in found if not text(value, "metadata", "deletionTimestamp"))


def _pod(value: Any) -> PodSeen:
    spec = mapping(value, "spec")
    ports = [p for container in items(spec, "containers") for p in items(container, "ports")]
    conditions = items(value, "status", "conditions")
    return PodSeen(
        namespace=text(value, "metadata", "namespace"),
        name=text(value, "metadata", "name"),
        labels=labels_of(value),
        node=text(spec, "nodeName"),
        address=_address(text(value, "status", "podIP")),
        ready=any(text(c, "type") == "Ready" and text(c, "status") == "True" for c in conditions),
        host_network=spec.get("hostNetwork") is True,
        account=text(spec, "serviceAccountName"),
        tcp_ports=tuple(
            number(p, "containerPort") for p in ports if (text(p, "protocol") or "TCP") == "TCP" and number(p, "containerPort")
        ),
    )


def _address(value: str) -> str:
    try:
        return str(ip_address(value))
    except ValueError:
        return ""
