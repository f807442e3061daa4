# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""API objects as a cluster with Cilium's chart answers them, cut down to what is read."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from tests.testing.made_certificates import Made, make

NAMESPACE = "kube-system"
SERVER_NAMES = ("clustermesh-apiserver.cilium.io", "*.mesh.cilium.io", "clustermesh-apiserver.kube-system.svc", "127.0.0.1")
HELM = {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "cilium"}}

PEER_YAML = """endpoints:
- https://c2.mesh.cilium.io:2379
trusted-ca-file: /var/lib/cilium/clustermesh/c2.etcd-client-ca.crt
key-file: /var/lib/cilium/clustermesh/c2.etcd-client.key
cert-file: /var/lib/cilium/clustermesh/c2.etcd-client.crt
"""


def secret(name: str, data: Mapping[str, bytes], *, managed: list[dict[str, Any]] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Secret",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "7", "managedFields": managed or [], **metadata},
        "data": {k: base64.b64encode(v).decode() for k, v in data.items()},
    }


def owns(manager: str, *path: str, fields: list[str]) -> dict[str, Any]:
    """One entry of managedFields: ``manager`` owns ``fields`` (in fieldsV1's own spelling) under ``path``."""
    tree: dict[str, Any] = {field: {} for field in fields}
    for step in reversed(path):
        tree = {f"f:{step}": tree}
    return {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": tree}


def tls_secret(name: str, made: Made, authority: Made, **metadata: Any) -> dict[str, Any]:
    return secret(name, {"ca.crt": authority.pem, "tls.crt": made.pem, "tls.key": made.key}, **metadata)


def alias_key(ip: str) -> str:
    return "k:" + json.dumps({"ip": ip}, separators=(",", ":"))


def deployment() -> dict[str, Any]:
    aliases = [{"ip": "10.0.0.9", "hostnames": ["c2.mesh.cilium.io"]}, {"ip": "10.0.0.8", "hostnames": ["other"]}]
    containers = [
        {"name": "etcd", "image": "quay.io/cilium/clustermesh-apiserver:v1.18.11", "args": ["--name=x"]},
        {
            "name": "apiserver",
            "image": "quay.io/cilium/clustermesh-apiserver:v1.18.11",
            "args": ["clustermesh", "--cluster-users-enabled"],
            "env": [{"name": "PLAIN", "value": "1"}, {"name": "CLUSTER_NAME", "valueFrom": {"configMapKeyRef": {}}}],
        },
        {"name": "kvstoremesh", "image": "quay.io/cilium/clustermesh-apiserver:v1.18.11", "args": ["kvstoremesh"]},
    ]
    where = ("spec", "template", "spec", "hostAliases")
    return {
        "metadata": {
            "name": "clustermesh-apiserver",
            "generation": 3,
            "managedFields": [
                owns("ours", *where, fields=[alias_key("10.0.0.9"), "."]),
                owns("helm", *where, fields=[alias_key("10.0.0.8"), "k:broken"]),
            ],
            **HELM,
        },
        "spec": {"template": {"spec": {"containers": containers, "hostAliases": aliases}}},
        "status": {"observedGeneration": 3, "readyReplicas": 1, "updatedReplicas": 1},
    }


def pod(name: str, app: str, *, ready: bool = True, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    container = "cilium-agent" if app == "cilium" else "kvstoremesh"
    return {
        "metadata": {"name": name, "labels": {"k8s-app": app}, **metadata},
        "spec": {"nodeName": f"node-of-{name}", "containers": [{"name": container}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def node(name: str, ip: str, *, ready: bool = True, **spec: Any) -> dict[str, Any]:
    addresses = [
        {"type": "InternalIP", "address": ip},
        {"type": "Hostname", "address": name},
        {"type": "ExternalIP", "address": "203.0.113.1"},
    ]
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


def cluster_objects(authority: Made | None = None) -> dict[str, Any]:
    """API path -> object, or list of objects for collections."""
    authority = authority or make("Cilium CA", ca=True)
    core, apps = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/apps/v1/namespaces/{NAMESPACE}"
    leaf = {name: make(name, issuer=authority, names=SERVER_NAMES) for name in ("server", "remote", "local", "admin")}
    agent = [{"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.18.11"}]
    return {
        "/api/v1/namespaces/kube-system": {"metadata": {"uid": "11111111-2222"}},
        "/version": {"gitVersion": "v1.36.4"},
        f"{core}/configmaps/cilium-config": {"metadata": HELM, "data": {"cluster-name": "c1", "cluster-id": "1"}},
        f"{core}/configmaps/clustermesh-remote-users": {
            "metadata": {"resourceVersion": "8", **HELM},
            "data": {"users.yaml": "users:\n- name: remote-c2\n  role: remote\n"},
        },
        f"{core}/secrets/cilium-ca": secret("cilium-ca", {"ca.crt": authority.pem, "ca.key": authority.key}),
        **{f"{core}/secrets/clustermesh-apiserver-{n}-cert": tls_secret(n, made, authority, **HELM) for n, made in leaf.items()},
        f"{core}/secrets/cilium-clustermesh": secret("cilium-clustermesh", {}),
        f"{core}/secrets/cilium-kvstoremesh": secret("cilium-kvstoremesh", {"c2": PEER_YAML.encode()}),
        f"{core}/services/clustermesh-apiserver": {
            "metadata": HELM,
            "spec": {"type": "LoadBalancer", "clusterIP": "10.1.0.5", "ports": [{"name": "apiserv", "port": 2379, "nodePort": 32379}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"hostname": "lb.example.org"}]}},
        },
        f"{core}/pods": [pod("cilium-b", "cilium"), pod("cilium-a", "cilium"), pod("mesh-1", "clustermesh-apiserver")],
        f"{apps}/daemonsets/cilium": {
            "metadata": {"name": "cilium", "generation": 1},
            "spec": {"template": {"spec": {"containers": agent}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2},
        },
        f"{apps}/deployments/clustermesh-apiserver": deployment(),
        f"{apps}/deployments": [
            {"metadata": {"name": name, **HELM}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
            for name in ("cilium-operator", "clustermesh-apiserver", "hubble-relay")
        ],
        "/api/v1/nodes": [node("n2", "10.9.0.2"), node("n1", "10.9.0.1", podCIDRs=["10.244.0.0/24"])],
        "/apis/cilium.io/v2/ciliumnodes": [{"metadata": {"name": "n1"}, "spec": {"ipam": {"podCIDRs": ["10.0.0.0/24"]}}}],
    }
