# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Label selectors of policies, matched against identities (pkg/policy/api/selector.go; requirements as in Kubernetes)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ...findings.wording import show
from ...mesh.versions.minors import Minor, holds
from .endpoints import CLUSTER, NAMESPACE, NAMESPACE_LABELS, Identity
from .ternary import Ternary, all_of

_VALUE: Final = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_PREFIX: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_SOURCE: Final = re.compile(r"[A-Za-z0-9]+")
"""The forms of a label (k8s.io/apimachinery, util/validation), and of its source in Cilium."""

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class NotUnderstood(ValueError):
    """Error for a part of a policy that the evaluator does not know; the text says which."""


class RefusedByCilium(NotUnderstood):
    """Error for a part of a policy for which Cilium refuses the whole object; the text says which."""


@dataclass(frozen=True)
class Requirement:
    """One requirement of a selector.

    ``sure`` is False if it may be absent (a default of Cilium that is unknown), so that not meeting it proves nothing.
    """

    key: str  # source:key
    operator: str
    values: frozenset[str] = frozenset()
    sure: bool = True
    from_label: bool = False  # from matchLabels, where a later selector of the same peer replaces it

    def met(self, identity: Identity) -> Ternary:
        """Return whether the identity meets the requirement."""
        present, value = identity.value(self.key)
        if present is None:
            if self.operator not in ("In", "NotIn") or value is None or value in self.values:
                return None
            present = self.operator == "NotIn"  # present or not, the value is none of these
        held = {
            "In": present and value in self.values,
            "NotIn": not present or value not in self.values,
            "Exists": present,
            "DoesNotExist": not present,
        }[self.operator]
        return held if held or self.sure else None


@dataclass(frozen=True)
class Selector:
    """Conjunction of requirements. Without any it matches every identity.

    ``loose`` means that Cilium may take it to match pods that do not meet them (``as_matched``).
    """

    requirements: tuple[Requirement, ...] = ()
    loose: bool = False

    def matches(self, identity: Identity) -> Ternary:
        """Return whether the identity meets every requirement."""
        met = all_of(requirement.met(identity) for requirement in self.requirements)
        return None if self.loose and met is False and identity.is_pod else met

    def has(self, key: str) -> bool:
        """Return whether a requirement is about the key."""
        return any(requirement.key == key for requirement in self.requirements)

    def has_prefix(self, prefix: str) -> bool:
        """Return whether a requirement is about a key with the prefix."""
        return any(requirement.key.startswith(prefix) for requirement in self.requirements)

    def plus(self, *requirements: Requirement) -> Selector:
        """Return the selector with further requirements."""
        return replace(self, requirements=(*self.requirements, *requirements))


def given_mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return a mapping of a policy; {} where there is none.

    :raises NotUnderstood: when ``value`` is anything else. ``what`` names it.
    """
    if value is not None and not isinstance(value, Mapping):
        raise NotUnderstood(f"{what} has the wrong form")
    return value or {}


def given_mappings(values: Any, what: str) -> list[Mapping[str, Any]]:
    """Return a list of mappings of a policy; [] where there is none.

    :raises NotUnderstood: when ``values`` is anything else. ``what`` names it.
    """
    if values is None:
        return []
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, Mapping) for value in values):
        raise NotUnderstood(f"a list of {what} has the wrong form")
    return list(values)


def given_list(values: Any, what: str) -> list[Any]:
    """Return a list of a policy; [] where there is none.

    :raises NotUnderstood: when ``values`` is anything else. ``what`` names it.
    """
    if values is not None and not isinstance(values, (list, tuple)):
        raise NotUnderstood(f"a list of {what} has the wrong form")
    return list(values or ())


def equals(key: str, value: str) -> Requirement:
    """Return the requirement that the label has the value."""
    return Requirement(key, "In", frozenset({value}))


def parse_selector(value: Any, source: str) -> Selector:
    """Parse a LabelSelector. Keys without a source get ``source``; others ("k8s:app", "reserved:host") keep theirs.

    :raises NotUnderstood: it is not a label selector.
    """
    if not isinstance(value, Mapping):
        raise NotUnderstood("a selector is no mapping")
    labels, expressions = value.get("matchLabels") or {}, value.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise NotUnderstood("a selector has the wrong form")
    found = {_key(str(key), source): str(text) for key, text in labels.items()}
    given = (Requirement(key, "In", frozenset({text}), from_label=True) for key, text in found.items())
    return Selector((*given, *(_expression(entry, source) for entry in expressions)))


def subject_of_cnp(value: Any, namespace: str, version: Minor | None = None) -> Selector:
    """Return the selector of the pods that a policy is about (``endpointSelector``).

    A CiliumNetworkPolicy is restricted to its own namespace, whatever it says of ``k8s:`` namespaces; a clusterwide policy (namespace
    "") selects as written (utils.go, ParseToCiliumRule).
    """
    found = parse_selector(value, "any")
    refuse_bad_labels(value, version)
    if not namespace:
        return found
    key = f"k8s:{NAMESPACE}"
    labels = {name: text for name, text in (value.get("matchLabels") or {}).items() if _key(str(name), "any") != key}
    return parse_selector({**value, "matchLabels": labels}, "any").plus(equals(key, namespace))


def peer_of_cnp(
    value: Any, namespace: str, local: Iterable[Requirement], version: Minor | None = None, *, requires: bool = False
) -> Selector:
    """Return an element of ``fromEndpoints`` or ``toEndpoints`` with the requirements that Cilium adds.

    Source: utils.go, getEndpointSelector.

    - It adds nothing to a selector with a key of the source ``reserved`` (``fromRequires`` differs).
    - It adds the own namespace where neither a namespace nor labels of namespaces are named; for a clusterwide policy, any namespace,
      which only pods that Cilium manages have.
    - It adds ``local``, the own cluster, where no cluster is named and the configuration says so.
    """
    found = parse_selector(value, "any")
    refuse_bad_labels(value, version)
    if not requires and found.has_prefix("reserved:"):
        return as_matched(found, version)
    key = f"k8s:{NAMESPACE}"
    if not found.has(key) and not found.has(f"any:{NAMESPACE}"):
        if not namespace:
            found = found.plus(Requirement(key, "Exists"))
        elif not any(found.has_prefix(f"{source}:{NAMESPACE_LABELS}") for source in ("k8s", "any")):
            found = found.plus(equals(key, namespace))
    if not found.has(f"k8s:{CLUSTER}") and not found.has(f"any:{CLUSTER}"):
        found = found.plus(*local)
    return as_matched(found, version)


def as_matched(selector: Selector, version: Minor | None) -> Selector:
    """Return a selector of peers as this version of Cilium matches it.

    One that asks for no label ("not this one" alone) also matches identities that are no endpoints, and one of those covers every pod
    (row ``negative_selectors_match_pods``, a bug of Cilium). Whether its meaning or the bug counts is then not certain.
    """
    asked = [entry for entry in selector.requirements if entry.sure and entry.operator in ("In", "Exists")]
    loose = bool(selector.requirements) and not asked and holds("negative_selectors_match_pods", version)
    return replace(selector, loose=True) if loose else selector


def refuse_bad_labels(value: Any, version: Minor | None) -> None:
    """Raise RefusedByCilium for a selector with keys or values that no label can have (pkg/labels of 1.20, ValidateLabelSelector).

    The schema of the CRD checks the values of ``matchLabels`` alone.
    """
    labels = given_mapping(given_mapping(value, "a selector").get("matchLabels"), "a selector")
    expressions = given_mappings(value.get("matchExpressions"), "expressions")
    for key in (*labels, *(str(entry.get("key")) for entry in expressions)):
        if not _is_key(str(key), version):
            raise RefusedByCilium(f"{show(str(key))} is no key of a label")
    for text in (*labels.values(), *(text for entry in expressions for text in given_list(entry.get("values"), "values"))):
        if not _VALUE.fullmatch(str(text)):
            raise RefusedByCilium(f"{show(str(text))} is no value of a label")


def _is_key(key: str, version: Minor | None) -> bool:
    """Return whether Cilium takes a key of a selector: that of a label, after a source and ":" or without."""
    if not holds("one_source_per_label_key", version):
        key = key[1:] if key[:1] in ("$", ":") else key
    source, sep, rest = key.partition(":")
    prefix, slash, name = (rest if sep else key).rpartition("/")
    return (
        (not sep or _SOURCE.fullmatch(source) is not None)
        and (not slash or _PREFIX.fullmatch(prefix) is not None)
        and bool(name)
        and _VALUE.fullmatch(name) is not None
    )


def local_cluster_requirement(name: str, by_default: Ternary) -> tuple[Requirement, ...]:
    """Return the requirement that ``policy-default-local-cluster`` adds; with None it may be added or not."""
    if by_default is False:
        return ()
    return (Requirement(f"k8s:{CLUSTER}", "In", frozenset({name}), sure=by_default is True),)


def _key(key: str, source: str) -> str:
    """Return the key with its source, as GetExtendedKeyFrom and NewSourceEncodedLabelKey form it (pkg/labels/labels.go)."""
    if key.startswith("$"):
        return f"reserved:{key[1:]}"
    given, sep, rest = key.partition(":")
    return f"{given}:{rest}" if sep and given else f"{source}:{rest if sep else key}"


def _expression(entry: Any, source: str) -> Requirement:
    if not isinstance(entry, Mapping) or entry.get("operator") not in OPERATORS or not isinstance(entry.get("key"), str):
        raise NotUnderstood("an expression of a selector has the wrong form")
    operator, values = entry["operator"], entry.get("values") or []
    if not isinstance(values, list) or bool(values) != (operator in ("In", "NotIn")):
        raise NotUnderstood(f"a selector's operator {operator} has the wrong values")
    return Requirement(_key(entry["key"], source), operator, frozenset(str(text) for text in values))
