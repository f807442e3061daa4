# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labels and expressions that select pods in a ConnectivityIntent: what tenants write, so nothing in it may reach beyond pods' labels.

Cilium keeps namespace, cluster, service account and the labels of namespaces as labels of the same identity, and reads a source before a
colon of the key (pkg/labels, parseSource). A key of that kind would take an intent into another namespace or cluster than it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..items.labels import valid_key, valid_value
from ..items.models import LabelRequirement
from ..problems import Problems, is_empty, items_of, join, kind_of, shown, suggest

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
WITH_VALUES: Final = ("In", "NotIn")

OF_CILIUM: Final = ("io.cilium.", "io.kubernetes.")
"""Prefixes of the keys that Cilium gives identities itself (pkg/k8s/apis/cilium.io/const.go)."""


def parse_labels(problems: Problems, path: str, value: Any, *, renamed: Mapping[str, str] | None = None) -> dict[str, str]:
    """A flat mapping of labels. ``renamed``: keys that stand for another label."""
    if not isinstance(value, Mapping):
        problems.add(path, f"must be a mapping of labels, not {kind_of(value)}")
        return {}
    if not value:
        problems.add(path, "is empty and would select every pod; write allPods: true if that is meant")
    found = {}
    for key, text in value.items():
        where, label = join(path, key), (renamed or {}).get(key, key)
        if _key(problems, where, label) and _value(problems, where, text, empty=not renamed):
            found[str(label)] = str(text)
    return found


def parse_expressions(problems: Problems, path: str, value: Any) -> tuple[LabelRequirement, ...]:
    """Requirements, all of which have to hold."""
    if value is not None and is_empty(value):
        problems.add(path, "is empty and selects nothing by itself; remove it, or name requirements")
    found = [_requirement(problems, where, item) for where, item in items_of(problems, path, value, "{key, operator, values}")]
    return tuple(entry for entry in found if entry is not None)


def _requirement(problems: Problems, path: str, item: Any) -> LabelRequirement | None:
    before = len(problems.found)
    given = problems.mapping(path, item, ("key", "operator", "values"), optional=False)
    key, operator = given.get("key"), given.get("operator")
    _key(problems, f"{path}.key", key)
    if not isinstance(operator, str) or operator not in OPERATORS:
        wrong = shown(operator) if isinstance(operator, str) else kind_of(operator)
        problems.add(
            f"{path}.operator", f"{wrong} is not known; {suggest(operator if isinstance(operator, str) else '', OPERATORS, 'use one of')}"
        )
    elif operator in WITH_VALUES and is_empty(given.get("values")):
        problems.add(f"{path}.values", f"has no value; {operator} needs some")
    elif operator not in WITH_VALUES and not is_empty(given.get("values")):
        problems.add(f"{path}.values", f"{operator} takes no values; remove them")
    values = items_of(problems, f"{path}.values", given.get("values"), "texts")
    texts = [str(text) for where, text in values if _value(problems, where, text, empty=True)]
    return LabelRequirement(key=str(key), operator=str(operator), values=tuple(texts)) if len(problems.found) == before else None


def _key(problems: Problems, path: str, key: Any) -> bool:
    if not isinstance(key, str):
        problems.add(path, f"the key of a label must be a text, not {kind_of(key)}")
    elif ":" in key or key.startswith("$"):
        problems.add(path, f"{shown(key)} names a source; labels of pods are meant, so write the key alone, as the pod has it")
    elif key.startswith(OF_CILIUM):
        problems.add(path, f"{shown(key)} is a label that Cilium sets itself; use namespace and clusters")
    elif not valid_key(key):
        problems.add(path, f"{shown(key)} is not the key of a label")
    else:
        return True
    return False


def _value(problems: Problems, path: str, value: Any, *, empty: bool) -> bool:
    if not isinstance(value, str):
        quote = "; put it in quotes" if isinstance(value, (bool, int, float)) else ""
        problems.add(path, f"must be a text, not {kind_of(value)}{quote}")
    elif not valid_value(value) or not (value or empty):
        problems.add(path, f"{shown(value)} is not the value of a label (at most 63 letters, digits, '-', '_' and '.')")
    else:
        return True
    return False
