# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""View of an API object built from the facts, as far as they have it: for a diff, so values of Secrets are digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..mesh.facts import ClusterFacts, PeerSecretFacts, SecretKeyFacts
from ..mesh.managed_fields import entries_of, summary
from ..mesh.traffic_facts import TrafficFacts

SHOWN_DIGITS: Final = 12
KINDS: Final = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "services": "Service",
    "deployments": "Deployment",
    "daemonsets": "DaemonSet",
}
PRECONDITIONS: Final = ("uid", "resourceVersion", "name", "namespace")


def observed_object(cluster: ClusterFacts, path: str) -> dict[str, Any] | None:
    """Return ``{metadata, data}`` of the object at the API path; ``{}`` if the facts do not cover it, None if it does not exist."""
    collection, _sep, name = path.rpartition("/")
    kind = KINDS.get(collection.rpartition("/")[2], "")
    found = _content(cluster, kind, name)
    if not found:
        return found
    entries = entries_of(cluster.writers.get(f"{kind} {name}", ()))
    return {**found, "metadata": {**found["metadata"], **({"managedFields": entries} if entries else {})}}


def traffic_object(traffic: TrafficFacts, path: str) -> dict[str, Any] | None:
    """Return ``{metadata, spec, specs}`` of the observed object at the API path; None if it does not exist."""
    found = traffic.by_path.get(path)
    if found is None:
        return None
    rules = {"specs": [dict(rule) for rule in found.specs]} if found.specs else {}
    spec = {"spec": dict(found.spec)} if found.spec else {}
    return {"metadata": {"labels": dict(found.labels), "annotations": dict(found.annotations)}, **spec, **rules}


def key_text(key: SecretKeyFacts) -> str:
    """Return a key of a Secret of peers as text: the configuration in clear, which holds no credentials; all else as a digest."""
    return key.config if key.config is not None else short_digest(key.digest)


def short_digest(digest: str) -> str:
    """Return a digest in its short form for diffs, ``sha256:`` and 12 digits."""
    return f"sha256:{digest[:SHOWN_DIGITS]}"


def part_of(whole: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``whole`` that ``shape`` has too."""
    found: dict[str, Any] = {}
    for key, value in shape.items():
        if key in whole:
            below = whole[key]
            found[key] = part_of(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else below
    return found


def merge_patched(whole: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``whole`` after a JSON merge patch (RFC 7386)."""
    found = dict(whole)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            below = found.get(key)
            found[key] = merge_patched(below if isinstance(below, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def readable_object(value: Mapping[str, Any] | None, other: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Return an object without preconditions, and with managedFields in words: only the owners whose fields differ from ``other``'s."""
    if value is None:
        return None
    metadata = {k: v for k, v in (value.get("metadata") or {}).items() if k not in PRECONDITIONS and v not in ({}, None)}
    if "managedFields" in metadata:
        against = summary(((other or {}).get("metadata") or {}).get("managedFields") or ())
        metadata["managedFields"] = {k: v for k, v in summary(metadata["managedFields"]).items() if against.get(k) != v}
    rest = {k: v for k, v in value.items() if k not in ("metadata", "apiVersion", "kind") and v not in ({}, None)}
    return {**({"metadata": metadata} if metadata else {}), **rest}


def _content(cluster: ClusterFacts, kind: str, name: str) -> dict[str, Any] | None:
    if kind == "Secret":
        return _secret(cluster, name)
    if kind == "ConfigMap" and name == "clustermesh-remote-users":
        users = cluster.users
        return _object(users.labels, users.annotations, {"users.yaml": users.text}) if users.present else None
    if kind == "ConfigMap" and name.startswith("cilium-mesh-"):
        registry = cluster.registry
        return _object(registry.labels, {}, {"leases.json": registry.text}) if registry.present else None
    if kind == "Service" and name == "clustermesh-apiserver":
        return _object(cluster.service.labels, cluster.service.annotations) if cluster.service else None
    for workload in (cluster.apiserver, cluster.agent, cluster.operator):
        if workload is not None and (workload.kind, workload.name) == (kind, name):
            return _object(workload.labels, workload.annotations)
    return {}


def _secret(cluster: ClusterFacts, name: str) -> dict[str, Any] | None:
    for peers in (cluster.kvstoremesh, cluster.clustermesh):
        if peers.name == name:
            return _peers(peers)
    for tls in (cluster.server_cert, cluster.remote_cert, cluster.local_cert, cluster.admin_cert):
        if tls.name == name:
            return _object({}, {}, {key: short_digest(digest) for key, digest in tls.digests.items()}) if tls.present else None
    return {}


def _peers(secret: PeerSecretFacts) -> dict[str, Any] | None:
    if not secret.present:
        return None
    return _object(secret.labels, secret.annotations, {key: key_text(facts) for key, facts in secret.keys.items()})


def _object(labels: Mapping[str, str], annotations: Mapping[str, str], data: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}, **({"data": dict(data)} if data else {})}
