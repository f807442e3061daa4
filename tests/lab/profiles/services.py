# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Services of Cluster Mesh."""

from __future__ import annotations

from typing import Any

from .apiserver import LABELS, NAME, SELECTOR
from .objects import helm_object
from .options import Manifest, ProfileOptions


def services(options: ProfileOptions) -> list[Manifest]:
    """``clustermesh-apiserver``, which peers dial, and the headless ``clustermesh-apiserver-metrics``."""
    return [_mesh(options), _metrics(options)]


def _mesh(options: ProfileOptions) -> Manifest:
    port: dict[str, Any] = {"port": 2379, "protocol": "TCP", "targetPort": 2379}
    if options.service_type == "NodePort":
        port["nodePort"] = options.node_port
    spec: dict[str, Any] = {
        "type": options.service_type,
        "selector": SELECTOR,
        "ports": [port],
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
    }
    if options.service_type != "ClusterIP":
        spec["externalTrafficPolicy"] = "Cluster"
    return {**helm_object(options, "v1", "Service", NAME, labels=LABELS), "spec": spec}


def _metrics(options: ProfileOptions) -> Manifest:
    ports = {"apiserv-metrics": 9962, **({"kvmesh-metrics": 9964} if options.kvstoremesh else {}), "etcd-metrics": 9963}
    labels = {**LABELS, "app.kubernetes.io/component": "metrics"}
    spec = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "selector": SELECTOR,
        "ports": [{"name": name, "port": port, "protocol": "TCP", "targetPort": name} for name, port in ports.items()],
    }
    return {**helm_object(options, "v1", "Service", f"{NAME}-metrics", labels=labels), "spec": spec}
