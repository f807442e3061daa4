# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The step that changes one object of Cilium's namespace by a merge patch: kind and name say both what is shown and the API path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..mesh.facts.cluster import ClusterFacts
from .steps import ApiWrite, Recipe, Step

_COLLECTIONS: Final = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


def patch_step(
    wave: int,
    facts: ClusterFacts,
    title: str,
    *,
    why: str,
    undo: str,
    disruption: str = "",
    body: Mapping[str, Any] | None = None,
    secret_data: Mapping[str, Recipe] | None = None,
    manager: str = "",
) -> Step:
    """Return the step for the object of kind and name ``title``, for instance ``Secret cilium-ca``. The rest is as in Step and ApiWrite."""
    kind, _space, name = title.partition(" ")
    path = f"{_COLLECTIONS[kind].format(facts.namespace)}/{name}"
    action = ApiWrite(method="merge", path=path, body=body or {}, secret_data=secret_data or {}, manager=manager)
    shown = f"{kind} {facts.namespace}/{name}"
    return Step(wave=wave, cluster=facts.host, verb="patch", object=shown, why=why, disruption=disruption, undo=undo, action=action)
