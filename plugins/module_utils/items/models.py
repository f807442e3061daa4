# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Items as users write them: metadata name plus spec, parsed and validated (reconcile/parse.py). Clusters are inventory names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from ..mesh.binding.item_kinds import ItemKind
from .item import Item

AFFINITIES: Final = ("Local", "Remote", "None")


@dataclass(frozen=True, kw_only=True)
class ServiceSelector:
    """Selector of Services: one by ``name``, or every Service of ``namespace`` that has all of ``labels``.

    With both, the Service of that name where it has the labels. At least one of the two is given.
    """

    namespace: str
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def selects_many(self) -> bool:
        """Return whether the labels alone decide which Services, and how many, are selected."""
        return not self.name


@dataclass(frozen=True, kw_only=True)
class Failover:
    """Failover of a global service: when local backends are not enough, and how soon a dead peer has to be detected."""

    detect_within: int = 60  # seconds
    min_local_ready: int = 1  # endpoints
    hysteresis: int = 0  # endpoints more than ``min_local_ready`` that it takes to come back


@dataclass(frozen=True, kw_only=True)
class GlobalService(Item):
    """Spec of a GlobalService."""

    KIND: ClassVar = ItemKind.GLOBAL_SERVICE
    selector: ServiceSelector
    targets: tuple[str, ...]  # targetClusters; all members when the spec names none
    annotations: Mapping[str, str] = field(default_factory=dict)  # globalAnnotations that Cilium reads of a global Service
    further: Mapping[str, str] = field(default_factory=dict)  # other globalAnnotations: each needs a permission of the cluster
    shared: bool | None = None  # None: Cilium's default (true)
    affinity: str | None = None  # of AFFINITIES; None: Cilium's default (None)
    backend: str = "Annotations"  # or "MCS"
    create_missing: bool = False  # createMissingServices: a stub where a consuming cluster has no such Service
    failover: Failover | None = None


@dataclass(frozen=True, kw_only=True)
class LabelRequirement:
    """Requirement of a Kubernetes label selector."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PodSelection:
    """Pods of one side of an intent.

    All pods or namespaces are selected only by ``all_pods`` and ``all_namespaces``; an empty field never means everything.
    """

    namespace: str = ""  # "" only with ``all_namespaces``
    labels: Mapping[str, str] = field(default_factory=dict)  # as Kubernetes has them; ``name: x`` is stored as app=x
    expressions: tuple[LabelRequirement, ...] = ()
    clusters: tuple[str, ...] = ()  # inventory names; all members when the spec names none
    all_pods: bool = False
    all_namespaces: bool = False


@dataclass(frozen=True, kw_only=True)
class PortRule:
    """One entry of ``ports``. ``port`` 0: every port of the protocol. ICMP has an ``icmp_type`` instead, never 0 (policies/compile.py)."""

    protocol: str  # TCP, UDP, SCTP, ANY, ICMP, ICMPv6
    port: int = 0
    end_port: int = 0  # 0: no range
    icmp_type: int | None = None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """``probe`` of an intent."""

    enabled: bool = False
    interval_seconds: int = 60
    method: str = "auto"  # auto, hubble, job
    image: str = ""  # of the Job; "" : the Job cannot be used
    command: tuple[str, ...] = ()  # of the Job; (): the built-in one, which wants /bin/sh and nc in the image


@dataclass(frozen=True, kw_only=True)
class ConnectivityIntent(Item):
    """Spec of a ConnectivityIntent."""

    KIND: ClassVar = ItemKind.INTENT
    action: str  # Allow, Deny, Isolate
    mode: str = "Namespaced"  # or Clusterwide
    source: PodSelection | None = None  # None: Isolate, which has no source
    destination: PodSelection
    ports: tuple[PortRule, ...] = ()  # (): all
    probe: Probe = field(default_factory=Probe)


@dataclass(frozen=True, kw_only=True)
class ExposedPort:
    """Port that is exposed: by number or by name."""

    number: int = 0
    name: str = ""
    protocol: str = "TCP"  # TCP or UDP; "": as the Service has it


@dataclass(frozen=True, kw_only=True)
class ExposedService(Item):
    """Spec of an ExposedService."""

    KIND: ClassVar = ItemKind.EXPOSURE
    namespace: str  # of the Service
    service: str
    port: ExposedPort
    exposure: str  # class: LoadBalancer, NodePort, Gateway
    clusters: tuple[str, ...]  # where it is exposed; with ``primary`` the standby clusters in order, without the primary
    primary: str = ""  # "": all of ``clusters`` at a time
    hostname: str = ""
    source_ranges: tuple[str, ...] = ()  # canonical CIDRs; (): no source is allowed
    node_ports: bool = True  # allocateLoadBalancerNodePorts, for class LoadBalancer
    gateway_class: str = "cilium"
    tls_secret: str = ""  # tlsRef: name of a TLS Secret in ``namespace``, for class Gateway
    created: str = ""  # creation time of the item, RFC 3339, for "oldest hostname wins"; "" outside kcp
