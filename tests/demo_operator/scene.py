# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the tenants write: both the same, to the letter."""

from __future__ import annotations

from typing import Any, Final

import yaml

TENANTS: Final = ("shop", "bank")
CLUSTERS: Final = ("cluster-ffm-1", "cluster-ber-2")

MESH: Final = """\
apiVersion: networking.edge-portal.eu/v1alpha1
kind: ClusterMeshBinding
metadata: {name: edge-mesh-eu, namespace: default}
spec:
  clusterRefs: [{name: cluster-ffm-1}, {name: cluster-ber-2}]
---
apiVersion: networking.edge-portal.eu/v1alpha1
kind: GlobalService
metadata: {name: nginx, namespace: default}
spec:
  meshRef: {name: edge-mesh-eu}
  selector: {namespace: production, name: nginx}
---
apiVersion: networking.edge-portal.eu/v1alpha1
kind: ConnectivityIntent
metadata: {name: frontend-to-nginx, namespace: default}
spec:
  meshRef: {name: edge-mesh-eu}
  action: Allow
  source: {namespace: production, name: frontend}
  destination: {namespace: production, name: nginx}
  ports: [{protocol: TCP, port: 8080}]
"""
DOCUMENTS: Final[tuple[dict[str, Any], ...]] = tuple(yaml.safe_load_all(MESH))
NAME: Final[str] = DOCUMENTS[0]["metadata"]["name"]

WANTED: Final = {"ClusterMeshBinding": "Connected", "GlobalService": "Exported", "ConnectivityIntent": "Applied"}
"""The phase that each kind is to reach, in the order of the documents."""


def documents_in(home: str) -> tuple[dict[str, Any], ...]:
    """The documents in a namespace."""
    return tuple({**document, "metadata": {**document["metadata"], "namespace": home}} for document in DOCUMENTS)
