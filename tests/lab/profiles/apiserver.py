# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Deployment ``clustermesh-apiserver``: etcd, the apiserver and kvstoremesh."""

from __future__ import annotations

from typing import Any

from .config import REMOTE_USERS, cilium_config
from .objects import PART_OF, chart_labels, helm_object
from .options import Manifest, ProfileOptions
from .secrets import ADMIN_CERT, LOCAL_CERT, REMOTE_CERT, SERVER_CERT
from .texts import host_aliases

NAME = "clustermesh-apiserver"
SELECTOR = {"k8s-app": NAME}
LABELS = {**PART_OF, **SELECTOR, "app.kubernetes.io/name": NAME}

_BINARY = "/usr/bin/clustermesh-apiserver"
_ETCD_CONFIG = "--kvstore-opt=etcd.config=/var/lib/cilium/etcd-config.yaml"
_IDENTITY = ["--cluster-name=$(CLUSTER_NAME)", "--cluster-id=$(CLUSTER_ID)"]
_MODE = 0o400


def deployment(options: ProfileOptions) -> Manifest:
    """The Deployment with one replica."""
    containers = [_etcd(options), _apiserver(options)]
    if options.kvstoremesh:
        containers.append(_kvstoremesh(options))
    pod: dict[str, Any] = {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 30,
        "initContainers": [_etcd_init(options)],
        "containers": containers,
        "volumes": _volumes(options),
    }
    if options.config_enabled and options.kvstoremesh and options.peers:
        pod["hostAliases"] = host_aliases(options.ordered_peers)
    template: dict[str, Any] = {"metadata": {"labels": {**LABELS, **chart_labels(options)}}, "spec": pod}
    if options.chart.default_container:
        template["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "apiserver"}
    return {
        **helm_object(options, "apps/v1", "Deployment", NAME, labels=LABELS),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": SELECTOR},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template,
        },
    }


def certificate_files(secret: str, prefix: str) -> dict[str, Any]:
    """A projection of a TLS Secret under the file names that etcd configurations use, e.g. ``common-etcd-client.key``."""
    names = {"tls.key": f"{prefix}.key", "tls.crt": f"{prefix}.crt", "ca.crt": f"{prefix}-ca.crt"}
    return {"secret": {"name": secret, "optional": True, "items": [{"key": key, "path": path} for key, path in names.items()]}}


def agent_sources() -> list[dict[str, Any]]:
    """What agents, and the operator where it joins the mesh, see below /var/lib/cilium/clustermesh."""
    return [
        {"secret": {"name": "cilium-clustermesh", "optional": True}},
        certificate_files(REMOTE_CERT, "common-etcd-client"),
        certificate_files(LOCAL_CERT, "local-etcd-client"),
    ]


def projected(name: str, sources: list[dict[str, Any]]) -> dict[str, Any]:
    """A projected volume that only its owner may read."""
    return {"name": name, "projected": {"defaultMode": _MODE, "sources": sources}}


def _etcd_init(options: ProfileOptions) -> dict[str, Any]:
    args = [
        "etcdinit",
        "--etcd-cluster-name=clustermesh-apiserver",
        "--etcd-initial-cluster-token=$(INITIAL_CLUSTER_TOKEN)",
        "--etcd-data-dir=/var/run/etcd",
    ]
    container = _container(options, "etcd-init", [_BINARY], args)
    container["env"] = [_from_config("CILIUM_CLUSTER_NAME", "cluster-name"), _from_field("INITIAL_CLUSTER_TOKEN", "metadata.uid")]
    container["volumeMounts"] = [{"name": "etcd-data-dir", "mountPath": "/var/run/etcd"}]
    return container


def _etcd(options: ProfileOptions) -> dict[str, Any]:
    if options.chart.etcd_on_pod_ip:
        listen, advertise = "https://127.0.0.1:2379,https://[$(HOSTNAME_IP)]:2379", "https://[$(HOSTNAME_IP)]:2379"
        metrics = "http://[$(HOSTNAME_IP)]:9963"
    else:
        listen, advertise, metrics = "https://0.0.0.0:2379", "https://localhost:2379", "http://0.0.0.0:9963"
    args = [
        "--data-dir=/var/run/etcd",
        "--name=clustermesh-apiserver",
        "--client-cert-auth",
        "--trusted-ca-file=/var/lib/etcd-secrets/ca.crt",
        "--cert-file=/var/lib/etcd-secrets/tls.crt",
        "--key-file=/var/lib/etcd-secrets/tls.key",
        f"--listen-client-urls={listen}",
        f"--advertise-client-urls={advertise}",
        "--initial-cluster-token=$(INITIAL_CLUSTER_TOKEN)",
        "--auto-compaction-retention=1",
        *(["--enable-grpc-gateway=false"] if options.chart.etcd_grpc_gateway_flag else []),
        f"--listen-metrics-urls={metrics}",
        "--metrics=basic",
    ]
    container = _container(options, "etcd", ["/usr/bin/etcd"], args)
    container["env"] = [
        {"name": "ETCDCTL_API", "value": "3"},
        *([_from_field("HOSTNAME_IP", "status.podIP")] if options.chart.etcd_on_pod_ip else []),
        _from_field("INITIAL_CLUSTER_TOKEN", "metadata.uid"),
    ]
    container["ports"] = [_port("etcd", 2379), _port("etcd-metrics", 9963)]
    container["volumeMounts"] = [
        _read_only("etcd-server-secrets", "/var/lib/etcd-secrets"),
        {"name": "etcd-data-dir", "mountPath": "/var/run/etcd"},
    ]
    return container


def _apiserver(options: ProfileOptions) -> dict[str, Any]:
    chart, config = options.chart, cilium_config(options)
    users = options.mode != "legacy"
    args = [
        "clustermesh",
        *_IDENTITY,
        _ETCD_CONFIG,
        "--kvstore-opt=etcd.qps=20",
        "--kvstore-opt=etcd.bootstrapQps=10000",
        f"--max-connected-clusters={options.max_connected_clusters}",
        "--health-port=9880",
        *(["--cluster-users-enabled", "--cluster-users-config-path=/var/lib/cilium/etcd-config/users.yaml"] if users else []),
        *(["--enable-external-workloads=false"] if chart.external_workloads_flag else []),
        "--prometheus-serve-addr=:9962",
        "--controller-group-metrics=all",
    ]
    if chart.default_global_namespace:
        args.append(f"--clustermesh-default-global-namespace={config['clustermesh-default-global-namespace']}")
    container = _container(options, "apiserver", [_BINARY], args)
    container["env"] = [
        _from_config("CLUSTER_NAME", "cluster-name"),
        _from_config("CLUSTER_ID", "cluster-id", optional=True),
        _from_config("ENABLE_K8S_ENDPOINT_SLICE", "enable-k8s-endpoint-slice", optional=True),
    ]
    container["ports"] = [_port("apiserv-health", 9880), _port("apiserv-metrics", 9962)]
    container["readinessProbe"] = _readiness("apiserv-health")
    container["volumeMounts"] = [
        _read_only("etcd-admin-client", "/var/lib/cilium/etcd-secrets"),
        *([_read_only("etcd-users-config", "/var/lib/cilium/etcd-config")] if users else []),
    ]
    return container


def _kvstoremesh(options: ProfileOptions) -> dict[str, Any]:
    chart = options.chart
    args = [
        "kvstoremesh",
        *_IDENTITY,
        _ETCD_CONFIG,
        "--kvstore-opt=etcd.qps=100",
        "--kvstore-opt=etcd.bootstrapQps=10000",
        "--kvstore-opt=etcd.maxInflight=10",
        "--clustermesh-config=/var/lib/cilium/clustermesh",
        f"--max-connected-clusters={options.max_connected_clusters}",
        *([f"--clustermesh-cache-ttl={cilium_config(options)['clustermesh-cache-ttl']}"] if chart.cache_ttl else []),
        "--health-port=9881",
        "--prometheus-serve-addr=:9964",
        "--controller-group-metrics=all",
        *(["--enable-heartbeat=false"] if chart.heartbeat_flag else []),
    ]
    container = _container(options, "kvstoremesh", [_BINARY], args)
    container["env"] = [_from_config("CLUSTER_NAME", "cluster-name"), _from_config("CLUSTER_ID", "cluster-id")]
    container["ports"] = [_port("kvmesh-health", 9881), _port("kvmesh-metrics", 9964)]
    container["readinessProbe"] = _readiness("kvmesh-health")
    container["volumeMounts"] = [
        _read_only("etcd-admin-client", "/var/lib/cilium/etcd-secrets"),
        _read_only("kvstoremesh-secrets", "/var/lib/cilium/clustermesh"),
    ]
    return container


def _volumes(options: ProfileOptions) -> list[dict[str, Any]]:
    volumes = [projected("etcd-server-secrets", [_tls_files(SERVER_CERT)]), projected("etcd-admin-client", [_tls_files(ADMIN_CERT)])]
    if options.mode != "legacy":
        # Not optional: without the ConfigMap the pod stays in ContainerCreating.
        volumes.append({"name": "etcd-users-config", "configMap": {"name": REMOTE_USERS, "defaultMode": _MODE}})
    volumes.append({"name": "etcd-data-dir", "emptyDir": {}})
    if options.kvstoremesh:
        peers = {"secret": {"name": "cilium-kvstoremesh", "optional": True}}
        volumes.append(projected("kvstoremesh-secrets", [peers, certificate_files(REMOTE_CERT, "common-etcd-client")]))
    return volumes


def _tls_files(secret: str) -> dict[str, Any]:
    return {"secret": {"name": secret, "items": [{"key": key, "path": key} for key in ("tls.crt", "tls.key", "ca.crt")]}}


def _container(options: ProfileOptions, name: str, command: list[str], args: list[str]) -> dict[str, Any]:
    return {"name": name, "image": f"quay.io/cilium/clustermesh-apiserver:v{options.chart.patch}", "command": command, "args": args}


def _from_config(name: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    reference: dict[str, Any] = {"name": "cilium-config", "key": key}
    if optional:
        reference["optional"] = True
    return {"name": name, "valueFrom": {"configMapKeyRef": reference}}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _read_only(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path, "readOnly": True}


def _readiness(port: str) -> dict[str, Any]:
    return {"httpGet": {"path": "/readyz", "port": port, "scheme": "HTTP"}, "failureThreshold": 3, "periodSeconds": 10}
