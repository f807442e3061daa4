# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pods of one side of an intent with address, node, readiness and ports, which their metadata does not contain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from ..base.json_fields import items, labels_of, mapping, number, text
from ..items.labels import selects
from ..items.models import LabelRequirement, PodSelection
from ..mesh.facts.traffic import PodMeta, TrafficFacts


@dataclass(frozen=True, kw_only=True)
class ProbedPod:
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
        """Whether the pod has an identity of its own.

        A pod in the host's network has the identity of the host, which no pod selector means.
        """
        return not self.host_network


def probed_pods(found: Iterable[Any]) -> tuple[ProbedPod, ...]:
    """Return the pods of a list, as the API server has them, without those that are being deleted."""
    return tuple(_pod(value) for value in found if not text(value, "metadata", "deletionTimestamp"))


def _pod(value: Any) -> ProbedPod:
    spec = mapping(value, "spec")
    ports = [p for container in items(spec, "containers") for p in items(container, "ports")]
    conditions = items(value, "status", "conditions")
    return ProbedPod(
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


def label_selector(selection: PodSelection) -> str:
    """Return the query parameter of a list; "" selects all pods.

    Keys and values were validated when the spec was parsed.
    """
    equal = [f"{key}={value}" for key, value in sorted(selection.labels.items())]
    return ",".join([*equal, *(_requirement(r) for r in selection.expressions)])


def pods_of(selection: PodSelection, traffic: TrafficFacts) -> tuple[PodMeta, ...] | None:
    """Return the selected pods of a cluster; None when its pods could not be read."""
    if traffic.could_not_read("pods") is not None:
        return None
    pods = traffic.pods if selection.all_namespaces else traffic.pods_by_namespace.get(selection.namespace, ())
    return tuple(pod for pod in pods if selects(selection, pod.namespace, pod.labels))


def _requirement(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(requirement.values)
    words = {"Exists": key, "DoesNotExist": f"!{key}", "In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
    return words[requirement.operator]
