# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Builders of what was observed of services and policies: a whole scene in one call, and anything wrong with it by one override."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import (
    EndpointFacts,
    ObjectFacts,
    PodMeta,
    SliceFacts,
    TrafficFacts,
)
from tests.testing.facts_builders import NOW, cluster_facts

NAMESPACE = "production"
SERVED = frozenset({"apps/v1", "cilium.io/v2", "discovery.k8s.io/v1", "networking.k8s.io/v1"})


def object_facts(kind: str, resource: str, name: str, *, namespace: str = "", api: str = "/api/v1", **fields: Any) -> ObjectFacts:
    """Any object. ``api``: ``/api/v1`` or ``/apis/GROUP/VERSION``."""
    place = f"{api}/namespaces/{namespace}/{resource}" if namespace else f"{api}/{resource}"
    values: dict[str, Any] = {"uid": f"uid-{namespace}-{name}", "resource_version": "11", "created": "2026-08-01T08:00:00Z"}
    return ObjectFacts(kind=kind, path=f"{place}/{name}", namespace=namespace, name=name, **{**values, **fields})


def namespace_facts(name: str = NAMESPACE, **annotations: str) -> ObjectFacts:
    """A namespace; keyword names of annotations use "_" for "-" and "__" for "/"."""
    texts = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    return object_facts("Namespace", "namespaces", name, annotations=texts, labels={"kubernetes.io/metadata.name": name})


def service(
    name: str = "nginx",
    *,
    namespace: str = NAMESPACE,
    ports: Sequence[Mapping[str, Any]] = ({"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080},),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    ingress: Sequence[Mapping[str, str]] = (),
    **spec: Any,
) -> ObjectFacts:
    """A Service as the API server shows it; further keywords go into its spec."""
    body: dict[str, Any] = {"type": "ClusterIP", "clusterIP": "10.96.0.20", "selector": {"app": name}, "ports": [dict(p) for p in ports]}
    status = {"loadBalancer": {"ingress": [dict(i) for i in ingress]}} if ingress else {}
    return object_facts(
        "Service",
        "services",
        name,
        namespace=namespace,
        annotations=dict(annotations or {}),
        labels=dict(labels or {"app": name}),
        spec={**body, **spec},
        status=status,
    )


def slice_facts(
    name: str = "nginx", *, namespace: str = NAMESPACE, ready: int = 2, unready: int = 0, ports: Any = None, **fields: Any
) -> SliceFacts:
    """The EndpointSlice of Service ``name`` with that many endpoints."""
    endpoints = [
        EndpointFacts(address=f"10.1.0.{n + 10}", ready=n < ready, serving=n < ready, node="node-1", pod=f"{name}-{n}")
        for n in range(ready + unready)
    ]
    values: dict[str, Any] = {
        "managed_by": "endpointslice-controller.k8s.io",
        "ports": ports if ports is not None else (("http", "TCP", 8080),),
        "endpoints": tuple(endpoints),
    }
    return SliceFacts(namespace=namespace, name=f"{name}-abcde", service=name, **{**values, **fields})


def pod(name: str, *, namespace: str = NAMESPACE, **labels: str) -> PodMeta:
    """A pod's metadata; keyword names of labels use "_" for "-" and "__" for "/"."""
    texts = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    return PodMeta(namespace=namespace, name=name, labels=texts, owner=f"ReplicaSet {name.rpartition('-')[0] or name}")


def traffic(
    host: str,
    *,
    namespaces: Iterable[ObjectFacts] = (),
    services: Iterable[ObjectFacts] = (),
    served: Iterable[str] = SERVED,
    **fields: Any,
) -> TrafficFacts:
    """What a cluster has. Namespaces of the services are there by themselves."""
    services = tuple(services)
    named = {entry.name: entry for entry in namespaces}
    implied = {entry.namespace: namespace_facts(entry.namespace) for entry in services}
    return TrafficFacts(
        host=host,
        served=frozenset(served),
        namespaces={NAMESPACE: namespace_facts(), **implied, **named},
        services={entry.key: entry for entry in services},
        **fields,
    )


def scene(
    *traffics: TrafficFacts,
    facts: Mapping[str, ClusterFacts] | None = None,
    version: str = "1.18.11",
    members: Sequence[str] = (),
    **fields: Any,
) -> Scene:
    """Members with this traffic, healthy and connected. ``members``: further ones that are silent; ``facts`` overrides single clusters."""
    hosts = [entry.host for entry in traffics]
    known = {host: cluster_facts(host, version=version) for host in hosts} | dict(facts or {})
    mesh = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=(*hosts, *members)))
    values: dict[str, Any] = {
        "names": {host: known[host].name for host in hosts} | {host: host for host in members},
        "phase": "Connected",
    }
    return Scene(mesh=mesh, now=NOW, facts=known, traffic={entry.host: entry for entry in traffics}, **{**values, **fields})
