# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Karmada, the management plane and the clusters themselves hold of the members, as reads.py finds it in answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..base.errors import ClusterError
from ..kubeconfig.endpoint import Endpoint
from .contents import Contents, Found

Object = Mapping[str, Any]


class PreservedWork(NamedTuple):
    """Work with preserveResourcesOnDeletion, which keeps a dead member's Cluster from going (Karmada: handleWorkDelete)."""

    name: str
    version: str  # resourceVersion
    finalizers: tuple[str, ...]
    deleting: bool


@dataclass(frozen=True, kw_only=True)
class KarmadaFacts:
    """Karmada's side. ``clusters``: every Cluster by name; the rest by name of a member of the run."""

    clusters: Mapping[str, Object] = field(default_factory=dict)
    tombstones: Mapping[str, Object] = field(default_factory=dict)
    placed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # workloads of the tenant, such as "Deployment web"
    going: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # those besides whose ResourceBinding is being deleted
    works: Mapping[str, tuple[PreservedWork, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClusterSide:
    """A cluster that answered. The objects are None where they do not exist."""

    uid: str  # of kube-system, which distinguishes clusters
    endpoint: Endpoint
    endpoint_networks: tuple[str, ...] = ()
    namespace: Object | None = None  # karmada-cluster
    account: Object | None = None
    impersonator: Object | None = None
    role: Object | None = None
    binding: Object | None = None
    contents: Contents | None = None  # of the tenant's namespace; None: not there, or not read
    rest: Contents | None = None  # of karmada-cluster; None: not there, or not read
    brought: tuple[Found, ...] = ()  # objects without a namespace that Karmada brought for this member; () if not read


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that a run reads. By name of the cluster: each is in ``sides``, in ``silent``, or was not contacted."""

    karmada: KarmadaFacts
    sides: Mapping[str, ClusterSide] = field(default_factory=dict)
    silent: Mapping[str, ClusterError] = field(default_factory=dict)
    planes: Mapping[str, Object] = field(default_factory=dict)  # Clusters of the management plane, by name of the object
