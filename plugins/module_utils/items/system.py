# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a cluster and its mesh stand on, and no item may lead elsewhere or cut off. Pure.

Everything else in system namespaces, cluster DNS for one, is its owner's business: a Service or policy there may well be meant.

- A global ``default/kubernetes`` sends pods to the API servers of other clusters, which know neither them nor their tokens.
- A global Service of clustermesh-apiserver hands one cluster the state of another under its name; an exposed one is a door to the etcd.
- A policy for the pods of clustermesh-apiserver keeps peers out, which come from outside: the mesh ends with the item that it carries.

Labels: clustermesh-apiserver/{service,deployment}.yaml and hubble/peer-service.yaml of the chart, alike in 1.15 to 1.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..facts import ClusterFacts
from .facts import Key, PodMeta, TrafficFacts

API_SERVER: Final = ("default", "kubernetes")
NAMES: Final = frozenset({"clustermesh-apiserver", "hubble-peer"})
APP_LABEL: Final = "k8s-app"
APPS: Final = frozenset({"cilium", "clustermesh-apiserver"})

CONTROL_PLANE: Final[Mapping[str, str]] = {
    "app.kubernetes.io/part-of": "cilium",
    "app.kubernetes.io/name": "clustermesh-apiserver",
    APP_LABEL: "clustermesh-apiserver",
}


def why_not_for_items(key: Key, selector: Mapping[str, str], facts: ClusterFacts) -> str:
    """What a Service belongs to that items leave alone, as the end of "it is ..."; "" for any other. ``selector``: its spec.selector."""
    if key == API_SERVER:
        return "the way of this cluster's pods to their own API server"
    if key[0] == facts.namespace and (key[1] in NAMES or selector.get(APP_LABEL) in APPS):
        return "part of Cilium itself, which the mesh is made of"
    return ""


def is_system_namespace(namespace: str, facts: ClusterFacts) -> bool:
    """Does the cluster, or Cilium, run there? Nothing that an item brings along may run beside them."""
    return namespace in ("kube-system", facts.namespace)


def control_plane_pods(facts: ClusterFacts, traffic: TrafficFacts) -> Iterator[PodMeta]:
    """Pods of clustermesh-apiserver: as the chart makes them, and those that are there."""
    yield PodMeta(namespace=facts.namespace, name="clustermesh-apiserver", labels=CONTROL_PLANE)
    yield from traffic.pods_by_label.get((facts.namespace, APP_LABEL, "clustermesh-apiserver"), ())
