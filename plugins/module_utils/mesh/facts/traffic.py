# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of one cluster about services and policies. Frozen values; by inventory name in ``Scene.traffic``.

Names follow the Kubernetes API. Nothing here is a secret. Objects of kinds that a cluster does not serve are simply absent; ``served`` says
which API groups it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from .cluster import Unread

MCS_GROUP: Final = "multicluster.x-k8s.io"
GATEWAY_GROUP: Final = "gateway.networking.k8s.io"

Labels = Mapping[str, str]
Key = tuple[str, str]  # (namespace, name)


@dataclass(frozen=True, kw_only=True)
class ObjectFacts:
    """Any API object. ``spec`` and ``status`` are plain JSON as the API server sent them ({} where there is none)."""

    kind: str
    path: str  # absolute API path of the object
    namespace: str = ""  # "" for a cluster-wide object
    name: str
    uid: str = ""
    resource_version: str = ""
    created: str = ""  # creationTimestamp, RFC 3339
    changed: str = ""  # last change of the object itself, not of its status; RFC 3339, "" if it is not known
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    owner_kind: str = ""  # kind of the controller, e.g. "Job"; "" without one
    writers: tuple[str, ...] = ()  # field managers of the object itself, not of its status
    spec: Mapping[str, Any] = field(default_factory=dict)
    specs: tuple[Mapping[str, Any], ...] = ()  # further rules of a CNP or CCNP
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Key of the object: (namespace, name)."""
        return self.namespace, self.name

    @property
    def shown(self) -> str:
        """Name of the object for messages, e.g. ``CiliumNetworkPolicy production/web``."""
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, kw_only=True)
class EndpointFacts:
    """One address of an EndpointSlice."""

    address: str
    ready: bool
    serving: bool
    node: str = ""
    pod: str = ""  # name of the target pod, "" when it is none


@dataclass(frozen=True, kw_only=True)
class SliceFacts:
    """One EndpointSlice."""

    namespace: str
    name: str
    service: str  # label kubernetes.io/service-name
    managed_by: str = ""  # label endpointslice.kubernetes.io/managed-by
    source_cluster: str = ""  # label multicluster.kubernetes.io/source-cluster: cluster name, set on mirrored ones
    ports: tuple[tuple[str, str, int], ...] = ()  # (name, protocol, port)
    endpoints: tuple[EndpointFacts, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PodMeta:
    """Metadata of a pod, which is all that selectors read."""

    namespace: str
    name: str
    labels: Labels = field(default_factory=dict)
    owner: str = ""  # "ReplicaSet backend-7d9f", "" without one
    host_network: bool = False  # it is its node for Cilium; False too where ``hostpods`` is in ``TrafficFacts.unread``


@dataclass(frozen=True, kw_only=True)
class TrafficFacts:
    """Services, policies and pods of one cluster.

    Kinds that were not requested are empty; reads that failed are in ``unread`` under the names of ``observe.traffic``.
    """

    host: str
    served: frozenset[str] = frozenset()  # "group/version" that the API server has, e.g. "multicluster.x-k8s.io/v1alpha1"
    namespaces: Mapping[str, ObjectFacts] = field(default_factory=dict)
    services: Mapping[Key, ObjectFacts] = field(default_factory=dict)
    slices: tuple[SliceFacts, ...] = ()
    pods: tuple[PodMeta, ...] = ()
    policies: tuple[ObjectFacts, ...] = ()  # CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy, NetworkPolicy
    exports: Mapping[Key, ObjectFacts] = field(default_factory=dict)  # ServiceExport
    imports: Mapping[Key, ObjectFacts] = field(default_factory=dict)  # ServiceImport
    gateways: Mapping[Key, ObjectFacts] = field(default_factory=dict)  # Gateway
    gateway_classes: Mapping[str, ObjectFacts] = field(default_factory=dict)  # GatewayClass
    routes: tuple[ObjectFacts, ...] = ()  # HTTPRoute, TLSRoute, TCPRoute, ...
    unread: tuple[Unread, ...] = ()

    @cached_property
    def slices_by_service(self) -> Mapping[Key, tuple[SliceFacts, ...]]:
        """EndpointSlices by (namespace, name) of their Service."""
        found: dict[Key, list[SliceFacts]] = {}
        for entry in self.slices:
            found.setdefault((entry.namespace, entry.service), []).append(entry)
        return {key: tuple(entries) for key, entries in found.items()}

    @cached_property
    def pods_by_namespace(self) -> Mapping[str, tuple[PodMeta, ...]]:
        """Pods by namespace."""
        found: dict[str, list[PodMeta]] = {}
        for pod in self.pods:
            found.setdefault(pod.namespace, []).append(pod)
        return {namespace: tuple(pods) for namespace, pods in found.items()}

    @cached_property
    def pods_by_label(self) -> Mapping[tuple[str, str, str], tuple[PodMeta, ...]]:
        """Pods by (namespace, label key, label value), where namespace "" holds the pods of all. Selectors of hundreds of items use it."""
        found: dict[tuple[str, str, str], list[PodMeta]] = {}
        for pod in self.pods:
            for key, value in pod.labels.items():
                for namespace in ("", pod.namespace):
                    found.setdefault((namespace, key, value), []).append(pod)
        return {place: tuple(pods) for place, pods in found.items()}

    @cached_property
    def owned(self) -> tuple[ObjectFacts, ...]:
        """Every object that a binding may have made or marked; the caller compares the owner label or annotation."""
        found = (*self.services.values(), *self.policies, *self.exports.values(), *self.gateways.values(), *self.routes)
        return tuple(found)

    @cached_property
    def by_path(self) -> Mapping[str, ObjectFacts]:
        """Objects of ``owned`` by their API path."""
        return {entry.path: entry for entry in self.owned}

    def could_not_read(self, what: str) -> Unread | None:
        """Return the entry of ``unread`` for the read ``what``; None if the read succeeded."""
        return next((entry for entry in self.unread if entry.what == what), None)

    def serves(self, group: str) -> str:
        """Return the ``group/version`` of ``group`` that is served; "" if it is not."""
        return next((entry for entry in sorted(self.served) if entry.partition("/")[0] == group), "")
