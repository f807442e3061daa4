# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Inputs of mesh_explain, and the reads of the identities of a few pods: one GET per pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.json_fields import mapping, number, text, texts
from ..items.labels import matches
from ..items.scene import Scene
from ..mesh.facts.traffic import PodMeta, TrafficFacts
from ..observe.reads import Read
from .question import QuestionSide

PODS_READ = 5  # of each end; pods of one workload are alike


@dataclass(frozen=True, kw_only=True)
class EndpointIdentity:
    """Identity of a pod as its CiliumEndpoint reports it. ``id`` 0: it has no identity yet."""

    id: int
    state: str  # ready, waiting-for-identity, ...
    labels: tuple[str, ...] = ()  # security labels with their source, e.g. "k8s:app=web"


@dataclass(frozen=True, kw_only=True)
class ExplainInputs:
    """Facts that an explanation needs.

    ``identities``: (inventory name, namespace, pod) -> its CiliumEndpoint, None when it has none; of the pods that were read.
    """

    scene: Scene
    links: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)  # (local, peer) -> row of status.links
    identities: Mapping[tuple[str, str, str], EndpointIdentity | None] = field(default_factory=dict)
    unread_identities: Mapping[str, str] = field(default_factory=dict)  # inventory name -> why CiliumEndpoints could not be read there

    def traffic(self, cluster: str) -> TrafficFacts | None:
        """Return what was observed of a cluster's traffic; None if it does not answer."""
        return self.scene.traffic.get(cluster)

    def why_silent(self, cluster: str) -> str:
        """Return why a cluster does not answer."""
        failure = self.scene.failures.get(cluster)
        return failure.clause if failure else "it was not asked"


def pods_of(traffic: TrafficFacts, side: QuestionSide) -> tuple[PodMeta, ...]:
    """Return the pods that a side names, by their metadata."""
    found = traffic.pods_by_namespace.get(side.namespace, ())
    if side.pod:
        return tuple(pod for pod in found if pod.name == side.pod)
    return tuple(pod for pod in found if side.labels and matches(side.labels, pod.labels))


def identity_reads(pods: Iterable[PodMeta]) -> dict[tuple[str, str], Read]:
    """Return the reads of the identities of the first pods, by (namespace, pod)."""
    root = "/apis/cilium.io/v2/namespaces"
    first = list(pods)[:PODS_READ]
    return {(pod.namespace, pod.name): Read(path=f"{root}/{pod.namespace}/ciliumendpoints/{pod.name}") for pod in first}


def identity_of(value: Any) -> EndpointIdentity | None:
    """Return the identity in a CiliumEndpoint; None without the object."""
    if value is None:
        return None
    identity = mapping(value, "status", "identity")
    return EndpointIdentity(id=number(identity, "id"), state=text(value, "status", "state"), labels=texts(identity, "labels"))
