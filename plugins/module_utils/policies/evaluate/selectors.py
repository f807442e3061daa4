# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Label selectors of policies, and whether they match an identity (pkg/policy/api/selector.go; requirements as in Kubernetes)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .endpoints import CLUSTER, NAMESPACE, NAMESPACE_LABELS, Identity
from .ternary import Ternary, all_of

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class NotUnderstood(ValueError):
    """A part of a policy that Cilium refuses or that we do not know; the text says which."""


@dataclass(frozen=True)
class Requirement:
    """``sure`` False: it may not be there at all (a default of Cilium that cannot be told), so not meeting it proves nothing."""

    key: str  # source:key
    operator: str
    values: frozenset[str] = frozenset()
    sure: bool = True

    def met(self, identity: Identity) -> Ternary:
        present, value = identity.value(self.key)
        if present is None:
            return None
        held = {
            "In": present and value in self.values,
            "NotIn": not present or value not in self.values,
            "Exists": present,
            "DoesNotExist": not present,
        }[self.operator]
        return held if held or self.sure else None


@dataclass(frozen=True)
class Selector:
    """All of the requirements. None of them: everything that has an identity."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, identity: Identity) -> Ternary:
        return all_of(requirement.met(identity) for requirement in self.requirements)

    def has(self, key: str) -> bool:
        return any(requirement.key == key for requirement in self.requirements)

    def has_prefix(self, prefix: str) -> bool:
        return any(requirement.key.startswith(prefix) for requirement in self.requirements)

    def plus(self, *requirements: Requirement) -> Selector:
        return Selector((*self.requirements, *requirements))


def equals(key: str, value: str) -> Requirement:
    return Requirement(key, "In", frozenset({value}))


def parse_selector(value: Any, source: str) -> Selector:
    """A LabelSelector. Keys without a source get ``source``; with one ("k8s:app", "reserved:host") they keep it.

    :raises NotUnderstood: not a label selector.
    """
    if not isinstance(value, Mapping):
        raise NotUnderstood("a selector is no mapping")
    labels, expressions = value.get("matchLabels") or {}, value.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise NotUnderstood("a selector has the wrong form")
    found = {_key(str(key), source): str(text) for key, text in labels.items()}
    return Selector((*(equals(key, text) for key, text in found.items()), *(_expression(entry, source) for entry in expressions)))


def subject_of_cnp(value: Any, namespace: str) -> Selector:
    """``endpointSelector``. A CiliumNetworkPolicy is held to its own namespace, whatever it says of ``k8s:`` namespaces; one that is
    clusterwide ("") selects as it says (utils.go, ParseToCiliumRule)."""
    found = parse_selector(value, "any")
    if not namespace:
        return found
    key = f"k8s:{NAMESPACE}"
    labels = {name: text for name, text in (value.get("matchLabels") or {}).items() if _key(str(name), "any") != key}
    return parse_selector({**value, "matchLabels": labels}, "any").plus(equals(key, namespace))


def peer_of_cnp(value: Any, namespace: str, local: Iterable[Requirement], *, requires: bool = False) -> Selector:
    """An element of ``fromEndpoints`` or ``toEndpoints`` with what Cilium adds (utils.go, getEndpointSelector):

    - nothing to one that has a key of the source ``reserved`` (``fromRequires`` is different there);
    - the own namespace where neither a namespace nor labels of namespaces are named; for a clusterwide policy: some namespace, which
      only pods that Cilium manages have;
    - ``local``, the own cluster, where no cluster is named and the configuration says so.
    """
    found = parse_selector(value, "any")
    if not requires and found.has_prefix("reserved:"):
        return found
    key = f"k8s:{NAMESPACE}"
    if not found.has(key) and not found.has(f"any:{NAMESPACE}"):
        if not namespace:
            found = found.plus(Requirement(key, "Exists"))
        elif not any(found.has_prefix(f"{source}:{NAMESPACE_LABELS}") for source in ("k8s", "any")):
            found = found.plus(equals(key, namespace))
    if not found.has(f"k8s:{CLUSTER}") and not found.has(f"any:{CLUSTER}"):
        found = found.plus(*local)
    return found


def local_cluster(name: str, by_default: Ternary) -> tuple[Requirement, ...]:
    """The requirement that ``policy-default-local-cluster`` adds; with None it may be added or not."""
    if by_default is False:
        return ()
    return (Requirement(f"k8s:{CLUSTER}", "In", frozenset({name}), sure=by_default is True),)


def _key(key: str, source: str) -> str:
    """As GetExtendedKeyFrom and NewSourceEncodedLabelKey (pkg/labels/labels.go)."""
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
