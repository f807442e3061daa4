# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""RBAC objects that give an account the rights of some functions in one cluster, as data and as YAML with the reason of each rule. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..base.optional_imports import optional
from ..leases.registry import registry_name
from ..mesh.binding.model import Binding
from ..mesh.ownership.objects import labels_of_new_object
from .rule import Function, Known, RoleRule, RuleScope
from .rules import RULES

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")

GROUP: Final = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT: Final = "ServiceAccount"
_OF_ITEMS: Final = "-items"
_WHOLE_CLUSTER: Final = "ciliumclusterwidenetworkpolicies"  # a RoleBinding gives no right on it

Object = dict[str, Any]

Entry = tuple[RoleRule, tuple[RoleRule, ...]]
"""A rule, and those that it covers, which have reasons of their own."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """Account that gets the rights. ``namespace`` is that of a ServiceAccount, "" of a User or a Group."""

    kind: str
    name: str
    namespace: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the subject as RBAC wants it."""
        place = {"namespace": self.namespace} if self.kind == SERVICE_ACCOUNT else {"apiGroup": GROUP}
        return {"kind": self.kind, "name": self.name, **place}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Rights in one cluster.

    ``namespace`` is Cilium's. ``names`` are those of ``circumstances.names_in``. ``item_namespaces``: where items are written; () is
    everywhere. ``name`` is that of all objects but the ServiceAccount.
    """

    binding: Binding
    name: str
    subject: Account
    functions: frozenset[Function]
    namespace: str
    known: Known
    names: Mapping[str, str]
    item_namespaces: tuple[str, ...] = ()


def default_name(binding: Binding) -> str:
    """Return the name of the objects of a mesh, which is also that of its leases."""
    return registry_name(binding)


def granted(grant: Grant) -> list[Entry]:
    """Return the rules. None is covered by another one."""
    wanted = [_filled(rule, grant) for rule in RULES if rule.functions & grant.functions and rule.needed(grant.known) is not False]
    kept = [
        rule
        for n, rule in enumerate(wanted)
        if not any(other.covers(rule) and (not rule.covers(other) or m < n) for m, other in enumerate(wanted))
    ]
    return [(rule, tuple(other for other in wanted if other != rule and rule.covers(other))) for rule in kept]


def objects_of(grant: Grant) -> list[Object]:
    """Return the objects in the order in which they have to be made."""
    return [body for body, _rules in _parts(grant)]


def manifest_of(grant: Grant) -> str:
    """Return the objects as one YAML text, with the reason of each rule."""
    return "".join(f"---\n{_text(body, rules, grant.known)}" for body, rules in _parts(grant))


def is_own(found: Mapping[str, Any], grant: Grant) -> bool:
    """Return whether an object that is there was made for the same mesh."""
    labels = (found.get("metadata") or {}).get("labels") or {}
    return labels_of_new_object(grant.binding).items() <= labels.items()


def _filled(rule: RoleRule, grant: Grant) -> RoleRule:
    values = {"owner": grant.binding.owner, "namespace": grant.namespace, **grant.names}
    resources = tuple(name for name in rule.resources if not (_limited(grant, rule) and name == _WHOLE_CLUSTER))
    scope = RuleScope.CLUSTER if rule.scope is RuleScope.ITEMS and not grant.item_namespaces else rule.scope
    return replace(rule, resources=resources, scope=scope, names=tuple(name.format_map(values) for name in rule.names))


def _limited(grant: Grant, rule: RoleRule) -> bool:
    return rule.scope is RuleScope.ITEMS and bool(grant.item_namespaces)


def _parts(grant: Grant) -> Iterator[tuple[Object, list[Entry]]]:
    """Yield each object, and its rules. Roles come before the bindings that name them: a binding never gives more than was decided."""
    rules = granted(grant)
    if grant.subject.kind == SERVICE_ACCOUNT:
        yield _object(grant, "v1", SERVICE_ACCOUNT, grant.subject.name, grant.subject.namespace), []
    for scope, kind, name, namespaces in (
        (RuleScope.CLUSTER, "ClusterRole", grant.name, ("",)),
        (RuleScope.CILIUM, "Role", grant.name, (grant.namespace,)),
        (RuleScope.ITEMS, "ClusterRole", grant.name + _OF_ITEMS, grant.item_namespaces),
    ):
        found = [entry for entry in rules if entry[0].scope is scope]
        if not found:
            continue
        role = _object(grant, f"{GROUP}/v1", kind, name, namespaces[0] if kind == "Role" else "")
        yield {**role, "rules": [_rule(rule) for rule, _covered in found]}, found
        for namespace in namespaces:
            bound = _object(grant, f"{GROUP}/v1", "RoleBinding" if namespace else "ClusterRoleBinding", name, namespace)
            yield {**bound, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}, "subjects": [grant.subject.to_dict()]}, []


def _object(grant: Grant, version: str, kind: str, name: str, namespace: str) -> Object:
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels_of_new_object(grant.binding)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _rule(rule: RoleRule) -> Object:
    named = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": [rule.group], "resources": list(rule.resources), **named, "verbs": list(rule.verbs)}


def _text(body: Object, rules: Collection[Entry], known: Known) -> str:
    if not rules:
        return _yaml(body)
    lines = [_yaml({key: value for key, value in body.items() if key != "rules"}), "rules:\n"]
    for rule, covered in rules:
        lines += [f"  # {sentence}\n" for sentence in dict.fromkeys(s for one in (rule, *covered) for s in _reasons(one, known))]
        first, *others = _yaml([_rule(rule)]).splitlines(keepends=True)
        lines += [f"  {line}" for line in (first, *others)]
    return "".join(lines)


def _reasons(rule: RoleRule, known: Known) -> Iterator[str]:
    yield rule.why
    unknown = sorted(rule.only - known.keys())
    if unknown:
        yield f"Only where {' and '.join(unknown)}, which is not known here."
    if rule.lost:
        yield f"Optional: without it {rule.lost}."


def _yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=1000, default_flow_style=None if isinstance(value, list) else False))
