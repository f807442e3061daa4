# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which pods a side of an intent selects, and the same as a label selector of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..items.facts import PodMeta, TrafficFacts
from ..items.models import LabelRequirement, PodSelection


def selects(selection: PodSelection, namespace: str, labels: Mapping[str, str]) -> bool:
    """Does the selection select a pod with these labels in this namespace? Clusters are the caller's business."""
    if not selection.all_namespaces and namespace != selection.namespace:
        return False
    return all(labels.get(k) == v for k, v in selection.labels.items()) and all(_meets(r, labels) for r in selection.expressions)


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


def _meets(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Kubernetes' semantics: NotIn holds as well where the key is absent (apimachinery, labels.Requirement.Matches)."""
    there = requirement.key in labels
    if requirement.operator == "Exists":
        return there
    if requirement.operator == "DoesNotExist":
        return not there
    inside = there and labels[requirement.key] in requirement.values
    return inside if requirement.operator == "In" else not inside


def _requirement(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(requirement.values)
    words = {"Exists": key, "DoesNotExist": f"!{key}", "In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
    return words[requirement.operator]
