# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reads of the identities of a few pods from their CiliumEndpoints: one GET per pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..base.errors import ClusterError
from ..base.json_fields import mapping, number, text, texts
from ..kube.client import Cluster
from ..mesh.traffic_facts import PodMeta
from .inputs import PODS_LOOKED_AT, EndpointIdentity


def read_identities(
    clusters: Mapping[str, Cluster], pods: Mapping[str, Iterable[PodMeta]]
) -> tuple[dict[tuple[str, str, str], EndpointIdentity | None], dict[str, str]]:
    """Return identities of the first pods of each cluster, and why they could not be read, by cluster.

    The identities are by (cluster, namespace, pod).
    """
    found: dict[tuple[str, str, str], EndpointIdentity | None] = {}
    problems: dict[str, str] = {}
    for host, wanted in pods.items():
        for pod in list(wanted)[:PODS_LOOKED_AT]:
            path = f"/apis/cilium.io/v2/namespaces/{pod.namespace}/ciliumendpoints/{pod.name}"
            try:
                found[host, pod.namespace, pod.name] = identity_of(clusters[host].get(path))
            except ClusterError as error:
                problems[host] = error.message
                break
    return found, problems


def identity_of(value: Any) -> EndpointIdentity | None:
    """Return the identity in a CiliumEndpoint; None without the object."""
    if value is None:
        return None
    identity = mapping(value, "status", "identity")
    return EndpointIdentity(id=number(identity, "id"), state=text(value, "status", "state"), labels=texts(identity, "labels"))
