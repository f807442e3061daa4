# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of labels and expressions that select pods in a ConnectivityIntent.

Tenants write them, so they must not reach beyond the labels of pods. Cilium keeps namespace, cluster, service account and the labels
of namespaces as labels of the same identity, and reads a source before a colon of the key (pkg/labels, parseSource). A key of that
kind would extend an intent to another namespace or cluster than it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..base.input_problems import Problems, child_path, json_type_name, quoted
from ..items.labels import valid_key
from ..items.models import LabelRequirement

WITH_VALUES: Final = ("In", "NotIn")

OF_CILIUM: Final = ("io.cilium.", "io.kubernetes.")
"""Prefixes of the keys that Cilium gives identities itself (pkg/k8s/apis/cilium.io/const.go)."""


def parse_labels(problems: Problems, path: str, given: Mapping[str, str]) -> dict[str, str]:
    """Parse a mapping of labels; keys that are not valid are added to ``problems``."""
    for key in given:
        _check_key(problems, child_path(path, key), key)
    return dict(given)


def parse_expressions(problems: Problems, path: str, given: Sequence[Mapping[str, Any]]) -> tuple[LabelRequirement, ...]:
    """Parse the requirements of a label selector, all of which have to hold; errors are added to ``problems``."""
    return tuple(_requirement(problems, f"{path}[{place}]", item) for place, item in enumerate(given))


def _requirement(problems: Problems, path: str, given: Mapping[str, Any]) -> LabelRequirement:
    key, operator, values = given["key"], given["operator"], given.get("values", [])
    _check_key(problems, f"{path}.key", key)
    if operator in WITH_VALUES and not values:
        problems.add(f"{path}.values", f"has no value; {operator} needs some")
    elif operator not in WITH_VALUES and values:
        problems.add(f"{path}.values", f"{operator} takes no values; remove them")
    return LabelRequirement(key=key, operator=operator, values=tuple(values))


def _check_key(problems: Problems, path: str, key: Any) -> None:
    if not isinstance(key, str):
        problems.add(path, f"the key of a label must be a text, not {json_type_name(key)}")
    elif ":" in key or key.startswith("$"):
        problems.add(path, f"{quoted(key)} names a source; write the key of the pod's label alone, as the pod has it")
    elif key.startswith(OF_CILIUM):
        problems.add(path, f"{quoted(key)} is a label that Cilium sets itself; use namespace and clusters")
    elif not valid_key(key):
        problems.add(path, f"{quoted(key)} is not the key of a label")
