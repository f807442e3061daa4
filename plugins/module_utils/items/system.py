# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects on which a cluster and its mesh depend, and which no item may redirect or cut off. Pure.

Everything else in system namespaces, cluster DNS for one, is its owner's business: a Service or policy there may well be intended.
- A global ``default/kubernetes`` sends pods to the API servers of other clusters, which know neither them nor their tokens.
- A global Service of clustermesh-apiserver hands one cluster the state of another under its name; an exposed one opens the etcd to all.
- A policy for the pods of clustermesh-apiserver keeps peers out, which come from outside: the mesh ends with the item that it carries.

Labels: clustermesh-apiserver/{service,deployment}.yaml and hubble/peer-service.yaml of the chart, alike in 1.15 to 1.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import Key, PodMeta, TrafficFacts

API_SERVER: Final = ("default", "kubernetes")
NAMES: Final = frozenset({"clustermesh-apiserver", "hubble-peer"})
APP_LABEL: Final = "k8s-app"
APPS: Final = frozenset({"cilium", "clustermesh-apiserver"})

CONTROL_PLANE: Final[Mapping[str, str]] = {
    "app.kubernetes.io/part-of": "cilium",
    "app.kubernetes.io/name": "clustermesh-apiserver",
    APP_LABEL: "clustermesh-apiserver",
}


def protected_service(key: Key, selector: Mapping[str, str], facts: ClusterFacts) -> str:
    """Return why items must leave a Service alone, as the end of "it is ..."; "" for any other.

    :param selector: spec.selector of the Service.
    """
    if key == API_SERVER:
        return "the connection of this cluster's pods to their own API server"
    if key[0] == facts.namespace and (key[1] in NAMES or selector.get(APP_LABEL) in APPS):
        return "part of Cilium itself, on which the mesh depends"
    return ""


def is_system_namespace(namespace: str, facts: ClusterFacts) -> bool:
    """Return whether the cluster's own components, or Cilium, run in the namespace. No workload of an item may run beside them."""
    return namespace in ("kube-system", facts.namespace)


def control_plane_pods(facts: ClusterFacts, traffic: TrafficFacts) -> Iterator[PodMeta]:
    """Yield pods of clustermesh-apiserver: the one that the chart makes, and those observed."""
    yield PodMeta(namespace=facts.namespace, name="clustermesh-apiserver", labels=CONTROL_PLANE)
    yield from traffic.pods_by_label.get((facts.namespace, APP_LABEL, "clustermesh-apiserver"), ())
