# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The pods that a side of an intent selects, and its label selector for the API. Pure."""

from __future__ import annotations

from ..items.facts import PodMeta, TrafficFacts
from ..items.labels import selects
from ..items.models import LabelRequirement, PodSelection


def label_selector(selection: PodSelection) -> str:
    """As the query parameter of a list; "" selects all pods. Keys and values were validated when the spec was parsed."""
    equal = [f"{key}={value}" for key, value in sorted(selection.labels.items())]
    return ",".join([*equal, *(_requirement(r) for r in selection.expressions)])


def pods_of(selection: PodSelection, traffic: TrafficFacts) -> tuple[PodMeta, ...] | None:
    """The pods that are selected in a cluster; None when its pods could not be read."""
    if traffic.could_not_read("pods") is not None:
        return None
    pods = traffic.pods if selection.all_namespaces else traffic.pods_by_namespace.get(selection.namespace, ())
    return tuple(pod for pod in pods if selects(selection, pod.namespace, pod.labels))


def _requirement(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(requirement.values)
    words = {"Exists": key, "DoesNotExist": f"!{key}", "In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
    return words[requirement.operator]
