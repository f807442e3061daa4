# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the clusters hold before the first playbook runs: a Service with pods that say where they are, and a client that only asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.lab import workloads
from tests.lab.pods import RUN

Object = dict[str, Any]

SPACE: Final = "default"
CLIENT: Final = "client"
NAME: Final = "web"
WEB: Final = f"/apis/apps/v1/namespaces/{SPACE}/deployments/{NAME}"

SERVICE: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": NAME, "namespace": SPACE},
    "spec": {"selector": {"app": NAME}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}


def deployment(text: str, replicas: int = 1) -> Object:
    """Return the Deployment behind the Service; its pods answer ``text`` to every request."""
    labels = {"app": NAME}
    container = workloads.pod(NAME, labels, ["serve", text])["spec"]["containers"][0]
    template = {
        "metadata": {"labels": labels, "annotations": {RUN: "true"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME, "namespace": SPACE}, "spec": spec}


def scene(text: str, replicas: int = 1) -> Iterator[Object]:
    """Yield every object of one cluster."""
    yield deployment(text, replicas)
    yield SERVICE
    yield workloads.pod(CLIENT, {"app": CLIENT}, workloads.PAUSE)
