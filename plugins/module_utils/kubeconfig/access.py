# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How a cluster is reached. It opens nothing: ``kube`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """Address and credentials of a cluster, as the inventory has them."""

    host: str  # inventory name
    kubeconfig: str | Mapping[str, Any] | None  # path, parsed document, or None: default kubeconfig (with a context) or in-cluster
    context: str | None
    namespace: str = "kube-system"  # where Cilium runs
    endpoint_override: str = ""  # "HOST:PORT" of the mesh endpoint
    endpoint_domains: tuple[str, ...] = ()  # domains below which the mesh endpoint may have a name in other clusters
    endpoint_networks: tuple[str, ...] = ()  # ranges whose addresses other clusters may dial although they are special
    denied_networks: tuple[str, ...] = ()  # ranges at which nothing is dialled for the owner of the cluster (base/dialling.py)
    allowed_annotations: tuple[str, ...] = ()  # further annotations that items may set on Services (services/annotations.py)
    elb_id: str = ""  # id of the load balancer that the platform reserved for the mesh endpoint
    unavailable: str = ""  # reason, given by the inventory, why the cluster cannot be reached; no connection is then tried

    def __repr__(self) -> str:
        return f"<ClusterAccess of {self.host}>"  # a parsed kubeconfig holds keys
