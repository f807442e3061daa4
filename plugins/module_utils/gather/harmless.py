# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names whose values an archive may show. Of configuration, flags and annotations the value of any other name is removed.

A value cannot be recognised as a secret by its looks, so the names decide: what is not listed here is not shown. Names of cilium-config and
of flags: install/kubernetes/cilium/templates of Cilium 1.16 to 1.20, those that bear on a mesh, on the network, or on policies.
"""

from __future__ import annotations

from typing import Final

_SETTINGS: Final = """
agent-health-port agent-not-ready-taint-key allow-localhost annotate-k8s-node arping-refresh-period auto-direct-node-routes
bgp-secrets-namespace bpf-distributed-lru bpf-events-drop-enabled bpf-events-policy-verdict-enabled bpf-events-trace-enabled
bpf-lb-acceleration bpf-lb-algorithm bpf-lb-algorithm-annotation bpf-lb-dsr-dispatch bpf-lb-external-clusterip bpf-lb-map-max bpf-lb-mode
bpf-lb-mode-annotation bpf-lb-sock bpf-lb-sock-hostns-only bpf-lb-sock-terminate-pod-connections bpf-lb-source-range-all-types
bpf-map-dynamic-size-ratio bpf-policy-map-max bpf-policy-stats-map-max bpf-root cgroup-root cilium-endpoint-gc-interval
cluster-health-port cluster-id cluster-name cluster-pool-ipv4-cidr cluster-pool-ipv4-mask-size cluster-pool-ipv6-cidr
cluster-pool-ipv6-mask-size clustermesh-cache-ttl clustermesh-config clustermesh-default-global-namespace clustermesh-enable-endpoint-sync
clustermesh-enable-mcs-api clustermesh-mcs-api-install-crds clustermesh-sync-timeout cni-chaining-mode cni-exclusive cni-log-file
custom-cni-conf datapath-mode debug debug-verbose default-lb-service-ipam devices direct-routing-device disable-endpoint-crd
dns-policy-unload-on-shutdown dnsproxy-enable-transparent-mode egress-gateway-reconciliation-trigger-interval
enable-auto-protect-node-port-range enable-bgp-control-plane enable-bpf-clock-probe enable-bpf-masquerade enable-bpf-tproxy
enable-cilium-clusterwide-network-policy enable-cilium-endpoint-slice enable-cilium-network-policy enable-egress-gateway
enable-encryption-strict-mode enable-encryption-strict-mode-egress enable-encryption-strict-mode-ingress enable-endpoint-health-checking
enable-endpoint-lockdown-on-policy-overflow enable-endpoint-routes enable-envoy-config enable-external-ips enable-gateway-api
enable-health-check-loadbalancer-ip enable-health-check-nodeport enable-health-checking enable-host-firewall enable-host-legacy-routing
enable-host-port enable-hubble enable-icmp-rules enable-identity-mark enable-ingress-controller enable-internal-traffic-policy
enable-ip-masq-agent enable-ipsec enable-ipsec-encrypted-overlay enable-ipv4 enable-ipv4-big-tcp enable-ipv4-masquerade enable-ipv6
enable-ipv6-big-tcp enable-ipv6-masquerade enable-k8s-cluster-network-policy enable-k8s-endpoint-slice enable-k8s-networkpolicy
enable-k8s-terminating-endpoint enable-l2-announcements enable-l2-neigh-discovery enable-l7-proxy enable-lb-ipam
enable-local-redirect-policy enable-masquerade-to-route-source enable-metrics enable-node-port enable-node-selector-labels
enable-non-default-deny-policies enable-policy enable-policy-secrets-sync enable-sctp enable-session-affinity
enable-svc-source-range-check enable-tcx enable-vtep enable-well-known-identities enable-wireguard enable-xt-socket-fallback
enable-ztunnel encrypt-node encryption-strict-egress-cidr encryption-strict-mode-allow-remote-node-identities encryption-strict-mode-cidr
endpoint-status external-envoy-proxy health-check-icmp-failure-threshold hubble-disable-tls hubble-export-file-max-backups
hubble-export-file-max-size-mb hubble-listen-address hubble-network-policy-correlation-enabled hubble-socket-path hubble-tls-cert-file
hubble-tls-client-ca-files hubble-tls-key-file identity-allocation-mode identity-gc-interval identity-heartbeat-timeout
identity-management-mode install-no-conntrack-iptables-rules ipam ipam-cilium-node-update-rate ipsec-key-file ipsec-key-rotation-duration
ipv4-native-routing-cidr ipv6-native-routing-cidr k8s-client-burst k8s-client-qps k8s-require-ipv4-pod-cidr k8s-require-ipv6-pod-cidr
kube-proxy-replacement kube-proxy-replacement-healthz-bind-address label-prefix-file labels local-max-addr-scope max-connected-clusters
mesh-auth-enabled mesh-auth-gc-interval mesh-auth-queue-size mesh-auth-rotated-identities-queue-size metrics-sampling-interval
kvstore monitor-aggregation monitor-aggregation-flags monitor-aggregation-interval mtu native-routing-cidr node-port-bind-protection
nodeport-addresses nodes-gc-interval operator-api-serve-addr operator-prometheus-serve-addr packetization-layer-pmtud-mode
policy-audit-mode policy-cidr-match-mode policy-default-local-cluster policy-deny-response-mode policy-queue-size preallocate-bpf-maps
prometheus-serve-addr proxy-cluster-max-connections proxy-cluster-max-requests proxy-connect-timeout proxy-idle-timeout-seconds
proxy-prometheus-port read-cni-conf remove-cilium-node-taints routing-mode service-no-backend-response set-cilium-is-up-condition
set-cilium-node-taints sidecar-istio-proxy-image static-cnp-path synchronize-k8s-nodes tofqdns-enable-dns-compression
tofqdns-endpoint-max-ip-per-hostname tunnel tunnel-port tunnel-protocol tunnel-source-port-range underlay-protocol
unmanaged-pod-watcher-interval vtep-cidr vtep-endpoint wireguard-persistent-keepalive write-cni-conf-when-ready
"""

CONFIG: Final = frozenset(_SETTINGS.split())

_FLAGS: Final = """
advertise-client-urls auto-compaction-retention cert-file client-cert-auth cluster-users-config-path cluster-users-enabled config-dir
controller-group-metrics data-dir enable-external-workloads enable-grpc-gateway enable-heartbeat etcd-cluster-name etcd-data-dir
health-port key-file listen-client-urls listen-metrics-urls metrics name trusted-ca-file
"""

FLAGS: Final = CONFIG | frozenset(_FLAGS.split())

WORDS: Final = frozenset(
    {"cilium-agent", "cilium-operator", "cilium-operator-generic", "clustermesh", "clustermesh-apiserver", "etcdinit", "kvstoremesh"}
    | {"/usr/bin/clustermesh-apiserver", "/usr/bin/etcd"}
)
"""Words of command lines that are no flag."""

ANNOTATIONS: Final = (
    "service.cilium.io/",
    "io.cilium/",
    "clustermesh.cilium.io/",
    "network.cilium.io/",
    "meta.helm.sh/release-",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "kubectl.kubernetes.io/restartedAt",
    "prometheus.io/",
    "peers.cilium-mesh.edge-portal.eu/",
    "users.cilium-mesh.edge-portal.eu/",
    "moves.cilium-mesh.edge-portal.eu/",
)
"""Beginnings of the keys of annotations whose values are shown."""
