# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A Service with a pod in every cluster of a lab, and an item of each kind about it."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.testing.waiting import equals, wait_for

NAMESPACE = "production"

Object = dict[str, Any]

SERVICE = {"name": "nginx", "selector": {"namespace": NAMESPACE, "name": "nginx"}}
INTENT: Object = {
    "name": "frontend-to-nginx",
    "action": "Allow",
    "source": {"namespace": NAMESPACE, "name": "frontend"},
    "destination": {"namespace": NAMESPACE, "name": "nginx"},
    "ports": [{"protocol": "TCP", "port": 8080}],
}
EXPOSURE: Object = {
    "name": "shop",
    "service": {"namespace": NAMESPACE, "name": "nginx"},
    "port": {"number": 80},
    "class": "LoadBalancer",
    "sourceRanges": ["192.0.2.0/24"],
}


def furnish(lab: MeshLab) -> None:
    """A Service with one pod behind it, in every cluster."""
    labels = {"app": "nginx"}
    container = {"name": "main", "image": "example.invalid/main", "ports": [{"name": "http", "containerPort": 8080}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    metadata = {"name": "nginx", "namespace": NAMESPACE}
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": ports}},
    ]
    for cluster in lab.names:
        for item in objects:
            lab.api(cluster).create(item)
    for cluster in lab.names:
        wait_for(partial(ready_endpoints, lab.api(cluster)), equals(1), what=f"{cluster} has one ready endpoint")


def ready_endpoints(api: LabApi) -> int:
    slices = api.list(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
    return sum(bool(e["conditions"].get("ready")) for s in slices for e in s.get("endpoints") or ())
