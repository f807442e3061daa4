# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Validation of labels and matching of selectors as the API server does it (apimachinery, pkg/util/validation and pkg/labels). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .models import LabelRequirement, PodSelection

NAME_LIMIT: Final = 63
PREFIX_LIMIT: Final = 253

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def valid_key(text: str) -> bool:
    """Return whether ``text`` is a qualified name, ``app`` or ``example.com/app``. Annotations have keys of the same form."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > PREFIX_LIMIT or not _PREFIX.fullmatch(prefix)):
        return False
    return len(name) <= NAME_LIMIT and _NAME.fullmatch(name) is not None


def valid_value(text: str) -> bool:
    """Return whether ``text`` is a label value.

    It is empty, or has at most 63 letters, digits, ``-``, ``_``, ``.`` and begins and ends with a letter or digit.
    """
    return text == "" or (len(text) <= NAME_LIMIT and _NAME.fullmatch(text) is not None)


def matches(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether ``labels`` include all of ``wanted``.

    An empty ``wanted`` matches everything, as in Kubernetes: callers refuse that beforehand.
    """
    return all(labels.get(key) == value for key, value in wanted.items())


def selects(selection: PodSelection, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether the selection selects a pod with these labels in this namespace. Clusters are the caller's business."""
    if not selection.all_namespaces and namespace != selection.namespace:
        return False
    return matches(selection.labels, labels) and all(_meets(entry, labels) for entry in selection.expressions)


def _meets(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a requirement. NotIn also holds if the key is absent (apimachinery, labels.Requirement.Matches)."""
    present = requirement.key in labels
    if requirement.operator == "Exists":
        return present
    if requirement.operator == "DoesNotExist":
        return not present
    inside = present and labels[requirement.key] in requirement.values
    return inside if requirement.operator == "In" else not inside
