# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a profile can be asked for. Values only; wrong ones are refused here, with what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from .charts import CHARTS, AuthMode, Chart

Manifest = dict[str, Any]
ServiceType = Literal["LoadBalancer", "NodePort", "ClusterIP"]
TlsMethod = Literal["helm", "cronJob", "provided"]
KeyType = Literal["rsa", "ec"]

DOMAIN = "mesh.cilium.io"  # clustermesh.config.domain
RELEASE = "cilium"  # name of the Helm release


@dataclass(frozen=True)
class CaPair:
    """A certification authority: certificate and key, both PEM. The key never shows in a repr."""

    cert_pem: str
    key_pem: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class HelmPeer:
    """One entry of ``clustermesh.config.clusters``: either ``ips`` (then the name is <name>.mesh.cilium.io) or ``address`` (a DNS name)."""

    name: str
    ips: tuple[str, ...] = ()
    port: int = 2379
    address: str = ""

    @property
    def host(self) -> str:
        return f"{self.name}.{DOMAIN}" if self.ips else self.address


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """One cluster's installation, in the words of the chart's values where there are any.

    ``version`` is a minor version ("1.16" to "1.20"); images carry the patch version whose install was read. ``auth_mode`` None means the
    chart's default. ``ca`` None means a new one. ``key_type`` "ec" saves some 30 ms per key where a test makes many; charts make RSA 2048.
    ``remote_users``: without ``config_enabled`` newer charts render no ConfigMap ``clustermesh-remote-users``, and the pod that mounts it
    waits for ever; None and True create an empty one as an operator would, False leaves the trap open.
    ``tls_method`` "provided" is TLS that the user brought: leaves signed by a CA that is not Secret ``cilium-ca``, nothing owned by Helm.
    ``extra_config`` overrides keys of cilium-config; None removes a key. Days are validity periods of leaf certificates.
    """

    cluster_name: str
    cluster_id: int
    version: str = "1.20"
    namespace: str = "kube-system"
    kvstoremesh: bool = True
    auth_mode: AuthMode | None = None
    service_type: ServiceType = "LoadBalancer"
    node_port: int = 32379
    config_enabled: bool = False
    peers: tuple[HelmPeer, ...] = ()
    tls_method: TlsMethod = "helm"
    pod_cidr_pool: str = "10.0.0.0/8"
    pod_cidr_mask: int = 24
    extra_config: Mapping[str, str | None] = field(default_factory=dict)
    kube_proxy_replacement: bool = True
    ca: CaPair | None = None
    max_connected_clusters: int = 255
    remote_users: bool | None = None
    key_type: KeyType = "rsa"
    leaf_days: int = 1095

    def __post_init__(self) -> None:
        if self.version not in CHARTS:
            raise ValueError(f"Cilium version {self.version!r} has no profile; use one of {', '.join(CHARTS)}")
        for name, value, allowed in (
            ("auth_mode", self.auth_mode or "legacy", get_args(AuthMode)),
            ("service_type", self.service_type, get_args(ServiceType)),
            ("tls_method", self.tls_method, get_args(TlsMethod)),
            ("key_type", self.key_type, get_args(KeyType)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} {value!r} is unknown; use one of {', '.join(allowed)}")
        for peer in self.peers:
            if not peer.host:
                raise ValueError(f"peer {peer.name!r} has neither ips nor an address; the chart refuses that too")

    @property
    def chart(self) -> Chart:
        return CHARTS[self.version]

    @property
    def mode(self) -> AuthMode:
        """The authMode in force."""
        return self.auth_mode or self.chart.auth_mode

    @property
    def ordered_peers(self) -> tuple[HelmPeer, ...]:
        """The peers in the order in which this chart walks them."""
        return tuple(sorted(self.peers, key=lambda peer: peer.name)) if self.chart.peers_sorted else self.peers

    @property
    def helm_renders_users(self) -> bool:
        return self.mode != "legacy" and (self.config_enabled or not self.chart.users_need_config)
