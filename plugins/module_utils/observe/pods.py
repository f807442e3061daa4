# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of the pods of the agents and of clustermesh-apiserver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.json_fields import items, labels_of, mapping, parse_time, text
from ..mesh.facts.cluster import PodFacts

AGENT = "cilium"
APISERVER = "clustermesh-apiserver"


def pod_facts(pods: Iterable[Any], app: str) -> tuple[PodFacts, ...]:
    """Return the facts of pods whose label ``k8s-app`` is ``app``, sorted by name, without pods that are being deleted."""
    chosen = [p for p in pods if labels_of(p).get("k8s-app") == app and not text(p, "metadata", "deletionTimestamp")]
    return tuple(sorted((_pod(p) for p in chosen), key=lambda p: p.name))


def _pod(pod: Any) -> PodFacts:
    return PodFacts(
        name=text(pod, "metadata", "name"),
        node=text(pod, "spec", "nodeName"),
        ready=any(text(c, "type") == "Ready" and text(c, "status") == "True" for c in items(pod, "status", "conditions")),
        phase=text(pod, "status", "phase"),
        containers=tuple(text(c, "name") for c in items(pod, "spec", "containers")),
        waiting=_waiting(pod),
        started=parse_time(text(pod, "status", "startTime")),
    )


def _waiting(pod: Any) -> str:
    """Return "container: reason" of the first init container or container that waits; "" if none does."""
    for status in [*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")]:
        if "waiting" in mapping(status, "state"):
            return f"{text(status, 'name')}: {text(status, 'state', 'waiting', 'reason') or 'waiting'}"
    return ""
