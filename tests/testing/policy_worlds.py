# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Small worlds of policies: what the evaluator looks at, from policies as they stand in the documentation of Cilium."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import loader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import SUPPORTED, CiliumVersion
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import (
    EndpointKind,
    FirstPacket,
    PolicyEndpoint,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import FlowVerdict, PolicyOutcome, verdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import PolicyWorld, cluster_view

ALLOWED, DENIED, UNKNOWN = PolicyOutcome.ALLOWED, PolicyOutcome.DENIED, PolicyOutcome.UNKNOWN
VERSIONS = tuple(f"{minor}.0" for minor in SUPPORTED.minors)
WORLD = PolicyEndpoint(kind=EndpointKind.WORLD, address="192.0.2.10")


def policy_facts(body: Mapping[str, Any]) -> ObjectFacts:
    """A policy as the API server would show it. Without a namespace it is in "default", unless its kind is clusterwide."""
    kind, metadata = str(body["kind"]), body.get("metadata") or {}
    namespace = "" if kind == "CiliumClusterwideNetworkPolicy" else str(metadata.get("namespace") or "default")
    return ObjectFacts(
        kind=kind,
        path=f"/{kind}/{namespace}/{metadata.get('name')}",
        namespace=namespace,
        name=str(metadata.get("name", "policy")),
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        spec=body.get("spec") or {},
        specs=tuple(body.get("specs") or ()),
    )


def documents(text: str) -> list[ObjectFacts]:
    """Every policy of a YAML text."""
    return [policy_facts(body) for body in yaml.load_all(text, loader())]


def world(
    policies: Mapping[str, Iterable[ObjectFacts]] | str = "",
    *,
    version: str = "1.20.2",
    config: Mapping[str, str] | None = None,
    clusters: Iterable[str] | Mapping[str, str] = ("c1", "c2", "c3"),
    complete: bool = True,
) -> PolicyWorld:
    """A text is the policies of c1. ``clusters``: inventory names, which are the cluster names too, or the one to the other."""
    names = clusters if isinstance(clusters, Mapping) else {host: host for host in clusters}
    placed = {"c1": documents(policies)} if isinstance(policies, str) else policies
    views = {
        host: cluster_view(host, name, CiliumVersion.from_tag(version), config or {}, placed.get(host, ()), complete=complete)
        for host, name in names.items()
    }
    return PolicyWorld(clusters=views)


def pod(cluster: str = "c1", namespace: str = "default", **labels: str) -> PolicyEndpoint:
    """Keyword names of labels use "_" for "-" and "__" for "/". Its namespace has no labels but its name; its account is "default"."""
    texts = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    own = {"kubernetes.io/metadata.name": namespace}
    return PolicyEndpoint(cluster=cluster, namespace=namespace, labels=texts, namespace_labels=own, service_account="default")


def judged(policies: PolicyWorld, source: PolicyEndpoint, destination: PolicyEndpoint, what: str = "TCP/80") -> FlowVerdict:
    """``what``: PROTOCOL/PORT; for ICMP PROTOCOL/TYPE."""
    protocol, _sep, port = what.partition("/")
    return verdict(policies, FirstPacket(source=source, destination=destination, protocol=protocol, port=int(port)))


def outcome(policies: PolicyWorld, source: PolicyEndpoint, destination: PolicyEndpoint, what: str = "TCP/80") -> PolicyOutcome:
    return judged(policies, source, destination, what).outcome
