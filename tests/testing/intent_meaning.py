# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The meaning of intents, written down without looking at any policy: which flows they let through, when they are all there is."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    LabelRequirement,
    PodSelection,
    PortRule,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import EndpointKind, PolicyEndpoint


def means(intents: Iterable[ConnectivityIntent], source: PolicyEndpoint, destination: PolicyEndpoint, protocol: str, port: int) -> bool:
    """Is the flow let through, when these intents are all there is?

    A Deny keeps out what it lists, and nothing more. Pods that an Allow or an Isolate means are reached by those that an Allow lists, and
    by no other pod. Pods that none of them means are reached by all pods.
    """
    concerned = [intent for intent in intents if meant(intent.destination, destination)]
    listed = [i for i in concerned if i.source and meant(i.source, source) and (not i.ports or any(on(p, protocol, port) for p in i.ports))]
    if any(intent.action == "Deny" for intent in listed):
        return False
    isolated = any(intent.action in ("Allow", "Isolate") for intent in concerned)
    return not isolated or any(intent.action == "Allow" for intent in listed)


def meant(side: PodSelection, endpoint: PolicyEndpoint) -> bool:
    where = endpoint.kind is EndpointKind.POD and endpoint.cluster in (side.clusters or (endpoint.cluster,))
    named = side.all_namespaces or endpoint.namespace == side.namespace
    labels = all(endpoint.labels.get(key) == value for key, value in side.labels.items())
    return where and named and labels and all(holds(entry, endpoint.labels.get(entry.key)) for entry in side.expressions)


def holds(entry: LabelRequirement, value: str | None) -> bool:
    answers = {"In": value in entry.values, "NotIn": value not in entry.values, "Exists": value is not None, "DoesNotExist": value is None}
    return answers[entry.operator]


def on(rule: PortRule, protocol: str, port: int) -> bool:
    if rule.protocol in ("ICMP", "ICMPv6"):
        return protocol == rule.protocol and port == rule.icmp_type
    same = protocol == rule.protocol or (rule.protocol == "ANY" and protocol in ("TCP", "UDP", "SCTP"))
    return same and (not rule.port or rule.port <= port <= (rule.end_port or rule.port))
