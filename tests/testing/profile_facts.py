# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters as the charts leave them, without a server: the lab's manifests, read as an observation reads the answers of API servers.

`facts_of` gives the facts of the clusters that a lab with these options would have: the same manifests (tests/lab/profiles), nodes and
addresses, completed with what servers and controllers add.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.assemble import assemble
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import Read, first_read, further_reads, other_reads
from tests.lab.addresses import NETWORK, ClusterAddresses, node_pod_cidr
from tests.lab.api import path_of
from tests.lab.cluster import profile_options
from tests.lab.kubelet import Node, node_objects
from tests.lab.options import ClusterOptions, LabOptions
from tests.lab.profiles import CaPair, build, make_ca

NAMESPACE = "kube-system"
LAB = 1  # number of the lab, of which addresses are made

Object = dict[str, Any]


def facts_of(options: LabOptions) -> dict[str, ClusterFacts]:
    """Return the facts of every cluster of a lab with these options, by name. Keys are elliptic curves, to be quick."""
    ca = shared_ca() if options.ca == "shared" else None
    return {cluster.name: facts_from(cluster, answers_of(cluster, ca)) for cluster in options.cluster_options()}


@cache
def shared_ca() -> CaPair:
    """Return a CA for all clusters that share one."""
    return make_ca(key_type="ec")


def answers_of(options: ClusterOptions, ca: CaPair | None) -> dict[str, Object]:
    """Return every object of a cluster by its path, as its API server would answer."""
    found = {path_of(item): item for item in _manifests(options, ca)}
    return {path: _completed(path, copy.deepcopy(item), options) for path, item in found.items()}


def _manifests(options: ClusterOptions, ca: CaPair | None) -> list[Object]:
    addresses = ClusterAddresses(LAB, options.index)
    made = list(build(replace(profile_options(options, ca), key_type="ec")))
    for number in range(options.nodes):
        node = Node(f"{options.name}-node{number + 1}", addresses.node(number), node_pod_cidr(options.pod_cidr, number))
        made += node_objects(node, addresses.kubelet)
    made += [_pod(item, options) for item in made if item["kind"] in ("DaemonSet", "Deployment")]
    made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return made


def _pod(workload: Object, options: ClusterOptions) -> Object:
    template = workload["spec"]["template"]
    metadata = {"name": f"{workload['metadata']['name']}-0", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {**template["spec"], "nodeName": f"{options.name}-node1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _completed(path: str, item: Object, options: ClusterOptions) -> Object:
    """Add what a server gives every object, and what controllers say of these."""
    item["metadata"] |= {"uid": f"{options.name}{path}", "resourceVersion": "1", "generation": 1}
    if item["kind"] == "DaemonSet":
        counts = ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
        item["status"] = {"observedGeneration": 1, **dict.fromkeys(counts, options.nodes)}
    if item["kind"] == "Deployment":
        item["status"] = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}
    if item["kind"] == "Node":
        item["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    if item["kind"] == "Service":
        item["spec"].setdefault("clusterIP", f"10.{100 + options.index}.0.5")
        if item["spec"].get("type") == "LoadBalancer":
            item["status"] = {"loadBalancer": {"ingress": [{"ip": ClusterAddresses(LAB, options.index).load_balancer(0)}]}}
    return item


def facts_from(options: ClusterOptions, objects: Mapping[str, Object]) -> ClusterFacts:
    """Return the facts of a cluster that has these objects, by path."""

    def answer(read: Read) -> Any:
        if read.path == "/version":
            return {"gitVersion": "v1.36.4"}
        if not read.many:
            return objects.get(read.path)
        within = [item for path, item in objects.items() if path.rpartition("/")[0] == read.path]
        return [item for item in within if _selected(item, read.label_selector)]

    found = {"first": answer(first_read(NAMESPACE))}
    found |= {name: answer(read) for name, read in other_reads(NAMESPACE, "cilium-mesh-none").items()}
    found |= {name: answer(read) for name, read in further_reads(NAMESPACE, found).items()}
    return assemble(ClusterAccess(host=options.name, kubeconfig="", context=None, endpoint_networks=(NETWORK,)), found)


def _selected(item: Object, selector: str) -> bool:
    """Read the two forms of selectors that the observation uses: ``key=value`` and ``key in (one,other)``."""
    labels = item["metadata"].get("labels") or {}
    key, _, values = selector.partition(" in ")
    if values:
        return labels.get(key) in values.strip("()").split(",")
    key, _, value = selector.partition("=")
    return not selector or labels.get(key) == value
