# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Source and destination of a flow, and the labels of their identities as Cilium forms them.

The identity of a pod consists of its labels that count (label_filters.py) and, overriding any label of the pod itself, its
namespace, the labels of that namespace, its service account and its cluster (pkg/k8s/utils/utils.go, SanitizePodLabels). All of them
have the source ``k8s``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .label_filters import LabelFilters
from .ternary import Ternary

NAMESPACE: Final = "io.kubernetes.pod.namespace"
CLUSTER: Final = "io.cilium.k8s.policy.cluster"
SERVICE_ACCOUNT: Final = "io.cilium.k8s.policy.serviceaccount"
NAMESPACE_LABELS: Final = "io.cilium.k8s.namespace.labels."
_OWN_PREFIX: Final = "io.cilium.k8s"

WORLD: Final = "entity:world"
"""Stands for what the entity ``world`` means. The label is ``reserved:world`` or, with both IP families, one for each (labels/cidr.go)."""

TRANSPORT: Final = ("TCP", "UDP", "SCTP")
ICMP: Final = ("ICMP", "ICMPV6")


class EndpointKind(StrEnum):
    """Kind of an endpoint in Cilium."""

    POD = "pod"  # with an identity of its own; a pod with hostNetwork is its node
    WORLD = "world"  # an address outside of all clusters, and not the Kubernetes API server
    HOST = "host"  # the node that the other side of the flow runs on
    REMOTE_NODE = "remote-node"  # any other node of any cluster of the mesh


@dataclass(frozen=True, kw_only=True)
class PolicyEndpoint:
    """Source or destination of a flow."""

    kind: EndpointKind = EndpointKind.POD
    cluster: str = ""  # inventory name; "" for the world
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # of the pod, as Kubernetes has them
    namespace_labels: Mapping[str, str] | None = None  # None: not known
    service_account: str | None = None  # None: not known
    named_ports: Mapping[str, tuple[str, int]] | None = None  # container port name -> (protocol, number); None: not known
    address: str = ""  # of the world; "" is any

    @property
    def shown(self) -> str:
        """Text for people, such as ``pod of production in c1 (app=web)``."""
        if self.kind is not EndpointKind.POD:
            return f"{self.kind.value}{' ' + self.address if self.address else ''}"
        labels = ", ".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return f"pod of {self.namespace} in {self.cluster} ({labels})"


@dataclass(frozen=True, kw_only=True)
class FirstPacket:
    """The first packet of a connection. ``port`` is the destination's, after a Service was resolved; for ICMP it is the type."""

    source: PolicyEndpoint
    destination: PolicyEndpoint
    protocol: str  # TCP, UDP, SCTP, ICMP, ICMPv6
    port: int


@dataclass(frozen=True)
class Identity:
    """Labels of an identity as ``source:key``.

    ``unsure`` holds keys whose presence is unknown; ``labels`` has the value of one where that is known. One that ends in "." or ":" means
    all keys with that prefix.
    """

    labels: Mapping[str, str]
    unsure: tuple[str, ...] = ()

    @property
    def is_pod(self) -> bool:
        """Whether a pod has it: it is not one of the identities that Cilium reserves."""
        return not any(key == WORLD or key.startswith("reserved:") for key in self.labels)

    def value(self, key: str) -> tuple[Ternary, str | None]:
        """Return (whether the key of a selector is present, the value that it has then; None if that is unknown).

        Source ``any`` matches a label of every source (pkg/labels/array.go).
        """
        sources = ("k8s", "reserved") if key.startswith("any:") else (key.partition(":")[0],)
        bare = key.partition(":")[2]
        for source in sources:
            full = f"{source}:{bare}"
            if full in self.unsure or any(full.startswith(prefix) for prefix in self.unsure if prefix[-1] in ".:"):
                return None, self.labels.get(full)
            if full in self.labels:
                return True, self.labels[full]
        return False, ""


@dataclass(frozen=True)
class Party:
    """An endpoint together with its identity."""

    endpoint: PolicyEndpoint
    identity: Identity


_NODES_UNSURE: Final = ("reserved:kube-apiserver", "node:")


def identity_of(endpoint: PolicyEndpoint, cluster_name: str, filters: LabelFilters) -> Identity:
    """Return the identity of an endpoint.

    ``cluster_name`` and ``filters`` are those of the endpoint's own cluster: its agents form the identity, the others adopt it.
    """
    if endpoint.kind is EndpointKind.WORLD:
        return Identity({WORLD: ""}, ("reserved:world", "reserved:world-ipv4", "reserved:world-ipv6"))
    if endpoint.kind is EndpointKind.HOST:
        return Identity({"reserved:host": ""}, _NODES_UNSURE)
    if endpoint.kind is EndpointKind.REMOTE_NODE:
        return Identity({"reserved:remote-node": ""}, _NODES_UNSURE)
    own = {key: value for key, value in endpoint.labels.items() if not key.startswith(_OWN_PREFIX) and key != NAMESPACE}
    special = {NAMESPACE: endpoint.namespace, CLUSTER: cluster_name}
    special |= {NAMESPACE_LABELS + key: value for key, value in (endpoint.namespace_labels or {}).items()}
    if endpoint.service_account:
        special[SERVICE_ACCOUNT] = endpoint.service_account
    unsure = [f"k8s:{NAMESPACE_LABELS}"] if endpoint.namespace_labels is None else []
    unsure += [f"k8s:{SERVICE_ACCOUNT}"] if endpoint.service_account is None else []
    every = {**own, **special}
    unsure += [f"k8s:{key}" for key in every if filters.counts(key) is None]
    labels = {f"k8s:{key}": value for key, value in every.items() if filters.counts(key) is not False}
    return Identity(labels, tuple(unsure))
