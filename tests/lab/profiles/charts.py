# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What differs between Cilium's charts, as data: one row per minor version, read off installs of the patch version named in it.

Source of every row: the objects that the released chart left on a real kube-apiserver; source of the rules that one install cannot show
(users without ``config.enabled``, sorted peers, the schedule): the chart templates of the same versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

AuthMode = Literal["legacy", "migration", "cluster"]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One minor version. Every flag says what this chart does and another one does not."""

    minor: str
    patch: str  # the version whose install was read
    agent_files: str  # file prefix of the agents toward their own kvstoremesh
    auth_mode: AuthMode  # default of clustermesh.apiserver.tls.authMode
    users_list_self: bool  # with kvstoremesh, users.yaml begins with remote-<the cluster itself>
    users_need_config: bool  # no users ConfigMap without clustermesh.config.enabled
    peers_sorted: bool  # clustermesh.config.clusters is turned into a map, which Helm walks in the order of names
    host_aliases_in_yaml: bool  # cilium-host-aliases in the peer's etcd configuration
    etcd_on_pod_ip: bool  # etcd listens on $(HOSTNAME_IP), not on 0.0.0.0
    etcd_grpc_gateway_flag: bool
    external_workloads_flag: bool
    heartbeat_flag: bool
    cache_ttl: bool
    default_global_namespace: bool
    default_container: bool  # pods say which container kubectl means
    health_ports: bool  # the agent and the operator name their ports
    chart_label: bool  # helm.sh/chart on workloads, Services and the users ConfigMap
    non_idempotent_label: bool  # on what Helm makes anew at every upgrade
    certgen: str  # tag of quay.io/cilium/certgen; 1.17 and 1.20 take their neighbour's
    certgen_host_network: bool
    certgen_ttl: int | None  # ttlSecondsAfterFinished
    certgen_generate_ca: str  # the flag's spelling
    config: Mapping[str, str]  # keys of cilium-config beyond COMMON_CONFIG


# In cilium-config of every chart below, whatever the cluster is called. Source: as above.
COMMON_CONFIG: Mapping[str, str] = {
    "bpf-lb-external-clusterip": "false",
    "clustermesh-enable-endpoint-sync": "false",
    "clustermesh-enable-mcs-api": "false",
    "enable-hubble": "true",
    "enable-ipv4": "true",
    "enable-ipv4-big-tcp": "false",
    "enable-ipv4-masquerade": "true",
    "enable-ipv6": "false",
    "enable-ipv6-big-tcp": "false",
    "enable-ipv6-masquerade": "true",
    "hubble-disable-tls": "false",
    "hubble-listen-address": ":4244",
    "hubble-socket-path": "/var/run/cilium/hubble.sock",
    "hubble-tls-cert-file": "/var/lib/cilium/tls/hubble/server.crt",
    "hubble-tls-client-ca-files": "/var/lib/cilium/tls/hubble/client-ca.crt",
    "hubble-tls-key-file": "/var/lib/cilium/tls/hubble/server.key",
    "identity-allocation-mode": "crd",
    "ipam": "cluster-pool",
    "ipam-cilium-node-update-rate": "15s",
    "kube-proxy-replacement-healthz-bind-address": "",
    "mesh-auth-gc-interval": "5m0s",
    "mesh-auth-queue-size": "1024",
    "mesh-auth-rotated-identities-queue-size": "1024",
    "operator-prometheus-serve-addr": ":9963",
    "routing-mode": "tunnel",
    "tunnel-protocol": "vxlan",
}

_EXPORT_FILE = {"hubble-export-file-max-backups": "5", "hubble-export-file-max-size-mb": "10"}
_SINCE_117 = {
    "default-lb-service-ipam": "lbipam",
    "enable-lb-ipam": "true",
    "enable-non-default-deny-policies": "true",
    "tunnel-source-port-range": "0-0",
}
_SINCE_118 = {**_SINCE_117, "hubble-network-policy-correlation-enabled": "true"}
_SINCE_119 = {
    **_SINCE_118,
    "clustermesh-cache-ttl": "0s",
    "clustermesh-mcs-api-install-crds": "true",
    "mesh-auth-enabled": "false",
    "policy-default-local-cluster": "true",
    "proxy-cluster-max-connections": "1024",
    "proxy-cluster-max-requests": "1024",
}

# Each chart but the first names only what it does otherwise than the one before it.
_CHART_116 = Chart(
    minor="1.16",
    patch="1.16.19",
    agent_files="common-",
    auth_mode="legacy",
    users_list_self=True,
    users_need_config=False,
    peers_sorted=False,
    host_aliases_in_yaml=False,
    etcd_on_pod_ip=True,
    etcd_grpc_gateway_flag=False,
    external_workloads_flag=True,
    heartbeat_flag=False,
    cache_ttl=False,
    default_global_namespace=False,
    default_container=False,
    health_ports=False,
    chart_label=False,
    non_idempotent_label=False,
    certgen="v0.3.1",
    certgen_host_network=True,
    certgen_ttl=1800,
    certgen_generate_ca="--ca-generate",
    config={**_EXPORT_FILE, "mesh-auth-enabled": "true"},
)
_CHART_117 = replace(
    _CHART_116,
    minor="1.17",
    patch="1.17.17",
    agent_files="local-",
    users_list_self=False,
    config={**_SINCE_117, **_EXPORT_FILE, "mesh-auth-enabled": "true"},
)
_CHART_118 = replace(
    _CHART_117,
    minor="1.18",
    patch="1.18.11",
    etcd_on_pod_ip=False,
    external_workloads_flag=False,
    heartbeat_flag=True,
    default_container=True,
    certgen="v0.4.5",
    certgen_generate_ca="--ca-generate=true",
    config={**_SINCE_118, "mesh-auth-enabled": "true", "policy-default-local-cluster": "false"},
)
_CHART_119 = replace(
    _CHART_118,
    minor="1.19",
    patch="1.19.5",
    auth_mode="migration",
    users_need_config=True,
    peers_sorted=True,
    etcd_grpc_gateway_flag=True,
    cache_ttl=True,
    health_ports=True,
    non_idempotent_label=True,
    certgen_host_network=False,
    certgen_ttl=None,
    config=_SINCE_119,
)
_CHART_120 = replace(
    _CHART_119,
    minor="1.20",
    patch="1.20.0-pre.3",
    host_aliases_in_yaml=True,
    default_global_namespace=True,
    chart_label=True,
    config={**_SINCE_119, "clustermesh-default-global-namespace": "true"},
)

CHARTS: Mapping[str, Chart] = {chart.minor: chart for chart in (_CHART_116, _CHART_117, _CHART_118, _CHART_119, _CHART_120)}
