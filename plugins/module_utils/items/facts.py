# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What was observed of a cluster that concerns services and policies. Frozen values; by inventory name in ``Scene.traffic``.

Names follow the Kubernetes API. Nothing here is a secret. Objects of kinds that a cluster does not serve are simply absent; ``served`` says
which API groups it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..facts import Unread

Labels = Mapping[str, str]
Key = tuple[str, str]  # (namespace, name)


@dataclass(frozen=True, kw_only=True)
class ObjectFacts:
    """Any object. ``spec`` and ``status`` are plain JSON as the API server sent them ({} where there is none)."""

    kind: str
    path: str  # absolute API path of the object
    namespace: str = ""  # "" for what is cluster-wide
    name: str
    uid: str = ""
    resource_version: str = ""
    created: str = ""  # creationTimestamp, RFC 3339
    changed: str = ""  # when somebody last changed the object itself, not its status; RFC 3339, "" when it is not told
    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    owner_kind: str = ""  # kind of the controller, e.g. "Job"; "" without one
    spec: Mapping[str, Any] = field(default_factory=dict)
    specs: tuple[Mapping[str, Any], ...] = ()  # further rules of a CNP or CCNP
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def shown(self) -> str:
        """``CiliumNetworkPolicy production/web``."""
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One address of an EndpointSlice."""

    address: str
    ready: bool
    serving: bool
    terminating: bool
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
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PodMeta:
    """Metadata of a pod, all that selectors look at."""

    namespace: str
    name: str
    labels: Labels = field(default_factory=dict)
    owner: str = ""  # "ReplicaSet backend-7d9f", "" without one


@dataclass(frozen=True, kw_only=True)
class TrafficFacts:
    """One cluster. What was not asked for is empty; what could not be read is named in ``unread`` by the names of ``observe.traffic``."""

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
        found: dict[Key, list[SliceFacts]] = {}
        for entry in self.slices:
            found.setdefault((entry.namespace, entry.service), []).append(entry)
        return {key: tuple(entries) for key, entries in found.items()}

    @cached_property
    def pods_by_namespace(self) -> Mapping[str, tuple[PodMeta, ...]]:
        found: dict[str, list[PodMeta]] = {}
        for pod in self.pods:
            found.setdefault(pod.namespace, []).append(pod)
        return {namespace: tuple(pods) for namespace, pods in found.items()}

    @cached_property
    def pods_by_label(self) -> Mapping[tuple[str, str, str], tuple[PodMeta, ...]]:
        """(namespace, key, value) -> pods with that label; namespace "" is all of them. Selectors of hundreds of items ask."""
        found: dict[tuple[str, str, str], list[PodMeta]] = {}
        for pod in self.pods:
            for key, value in pod.labels.items():
                for namespace in ("", pod.namespace):
                    found.setdefault((namespace, key, value), []).append(pod)
        return {place: tuple(pods) for place, pods in found.items()}

    @cached_property
    def owned(self) -> tuple[ObjectFacts, ...]:
        """Every object here that a binding may have made or marked; whoever asks looks at the owner label or annotation."""
        found = (*self.services.values(), *self.policies, *self.exports.values(), *self.gateways.values(), *self.routes)
        return tuple(found)

    @cached_property
    def by_path(self) -> Mapping[str, ObjectFacts]:
        """Those objects by their API path."""
        return {entry.path: entry for entry in self.owned}

    def could_not_read(self, what: str) -> Unread | None:
        return next((entry for entry in self.unread if entry.what == what), None)

    def serves(self, group: str) -> str:
        """The ``group/version`` of ``group`` that is served; "" when it is not."""
        return next((entry for entry in sorted(self.served) if entry.partition("/")[0] == group), "")
