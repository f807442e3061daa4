# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of DaemonSet ``cilium`` and the Deployments of Cilium, with the Secrets and ConfigMaps that their volumes show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.json_fields import annotations_of, items, labels_of, mapping, number, text, texts
from ..mesh.facts.cluster import HostAlias, VolumeSource, WorkloadFacts
from .ownership import owners_of_items


def workload_facts(value: Any, kind: str) -> WorkloadFacts | None:
    """Return the facts of a workload; None if it does not exist.

    :param kind: "DaemonSet" or "Deployment": lists do not name it, and the two count their pods under different names.
    """
    if value is None:
        return None
    pod = mapping(value, "spec", "template", "spec")
    containers = [c for c in items(pod, "containers") if text(c, "name")]
    return WorkloadFacts(
        kind=kind,
        name=text(value, "metadata", "name"),
        generation=number(value, "metadata", "generation"),
        observed_generation=number(value, "status", "observedGeneration"),
        containers={text(c, "name"): text(c, "image") for c in containers},
        arguments={text(c, "name"): texts(c, "args") for c in containers},
        environment={text(c, "name"): _plain_environment(c) for c in containers},
        host_aliases=_host_aliases(value, pod),
        labels=labels_of(value),
        annotations=annotations_of(value),
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        pod_labels=labels_of(mapping(value, "spec", "template")),
        pod_annotations=annotations_of(mapping(value, "spec", "template")),
        volumes=volumes_of(value),
        owner_kinds=owner_kinds(value),
        **_pod_counts(value, kind),
    )


def _pod_counts(value: Any, kind: str) -> dict[str, int]:
    if kind == "DaemonSet":
        names = {"desired": "desiredNumberScheduled", "ready": "numberReady", "updated": "updatedNumberScheduled"}
        return {ours: number(value, "status", theirs) for ours, theirs in names.items()}
    desired = number(value, "spec", "replicas", absent=1)  # apps/v1
    return {"desired": desired, "ready": number(value, "status", "readyReplicas"), "updated": number(value, "status", "updatedReplicas")}


def _plain_environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the values written in the template; those that come from elsewhere (valueFrom) are left out."""
    return {text(e, "name"): text(e, "value") for e in items(container, "env") if "value" in e and text(e, "name")}


def _host_aliases(value: Any, pod: Mapping[str, Any]) -> tuple[HostAlias, ...]:
    owners = owners_of_items(value, "spec", "template", "spec", "hostAliases", key="ip")
    return tuple(
        HostAlias(ip=text(a, "ip"), hostnames=texts(a, "hostnames"), managers=owners.get(text(a, "ip"), ()))
        for a in items(pod, "hostAliases")
    )


def volumes_of(workload: Any) -> dict[str, tuple[VolumeSource, ...]]:
    """Return volume -> sources, for volumes of the kinds projected, secret and configMap."""
    volumes = items(workload, "spec", "template", "spec", "volumes")
    found = {text(v, "name"): tuple(s for entry in _entries(v) if (s := _source(entry)) is not None) for v in volumes}
    return {name: sources for name, sources in found.items() if name and sources}


def _entries(volume: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return items(volume, "projected", "sources") or [volume]


def _source(entry: Mapping[str, Any]) -> VolumeSource | None:
    """Return the Secret or ConfigMap of an entry. A Secret volume names it ``secretName``; within a projected volume it is ``name``."""
    for kind, field in (("Secret", "secret"), ("ConfigMap", "configMap")):
        name = text(entry, field, "name") or text(entry, field, "secretName")
        if name:
            rows = items(entry, field, "items")
            return VolumeSource(kind=kind, name=name, items={text(row, "path"): text(row, "key") for row in rows})
    return None


def owner_kinds(value: Any) -> tuple[str, ...]:
    """Return the kinds of the owners of an object, sorted."""
    references = mapping(value, "metadata").get("ownerReferences")
    found = [text(r, "kind") for r in references] if isinstance(references, list) else []
    return tuple(sorted({kind for kind in found if kind}))
