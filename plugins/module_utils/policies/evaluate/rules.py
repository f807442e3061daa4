# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Translation of CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy into rules of one form.

Sources, of 1.16 to 1.20: pkg/k8s/apis/cilium.io/utils/utils.go; pkg/policy/api/rule.go, rule_validation.go; pkg/policy/utils/parserules.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ...findings.wording import show
from ...mesh.facts.traffic import ObjectFacts
from ...mesh.versions.minors import holds
from .peers import ANYONE, Peers, parse_peers
from .ports import PortMatch, parse_ports, refuse_layer_7
from .selectors import (
    NotUnderstood,
    RefusedByCilium,
    Requirement,
    Selector,
    given_mapping,
    given_mappings,
    local_cluster_requirement,
    peer_of_cnp,
    refuse_bad_labels,
    subject_of_cnp,
)
from .settings import PolicySettings


class Direction(StrEnum):
    """Direction of traffic, relative to the pod that a policy selects."""

    INGRESS = "ingress"
    EGRESS = "egress"

    @property
    def side(self) -> str:
        """Prefix of the keys that name peers: "from" or "to"."""
        return "from" if self is Direction.INGRESS else "to"


@dataclass(frozen=True)
class Entry:
    """One entry of a direction: peers, ports (None: all protocols), and whether it allows or denies."""

    peers: Peers
    ports: tuple[PortMatch, ...] | None
    deny: bool = False
    authenticated: bool = False  # the peer has to prove its identity too


@dataclass(frozen=True)
class Section:
    """All of a rule that concerns one direction. Its presence alone may isolate (``default_deny``)."""

    entries: tuple[Entry, ...]
    default_deny: bool = True
    requires: tuple[Selector, ...] = ()  # of peers that allowing rules select by labels
    requires_deny: tuple[Selector, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One rule of a policy.

    ``problem`` says why it is not understood; then its effect on the pods that it selects is unknown. ``refusal`` says why Cilium
    refuses the policy, if it does. The policy then protects nothing, but that is not certain: agents keep what they accepted before under
    the same name until they restart (pkg/policy/k8s, onUpsert), and cilium-operator, whose condition this may be, refuses more than
    agents do (validator.go).
    """

    policy: str  # as shown: "CiliumNetworkPolicy production/web"
    namespace: str  # "" for one that is clusterwide
    subject: Selector = field(default_factory=Selector)
    sections: Mapping[Direction, Section] = field(default_factory=dict)
    problem: str = ""
    refusal: str = ""


def condition_of_refusal(policy: ObjectFacts) -> str | None:
    """Return the message of a condition Valid that is False, with which cilium-operator reports that a policy is refused; None without."""
    conditions: Any = policy.status.get("conditions")
    for entry in conditions if isinstance(conditions, (list, tuple)) else ():
        if isinstance(entry, Mapping) and entry.get("type") == "Valid" and entry.get("status") == "False":
            return show(str(entry.get("message") or "no message"))
    return None


def rules_of_cnp(policy: ObjectFacts, cluster: str, settings: PolicySettings) -> list[Rule]:
    """Return the rules of ``spec`` and ``specs``.

    One of them that Cilium refuses invalidates the whole object (cnp_types.go, Parse).
    """
    specs = [spec for spec in (policy.spec, *policy.specs) if spec]
    try:
        message = condition_of_refusal(policy)
        if message is not None:
            raise RefusedByCilium(f"condition Valid is False: {message}")
        found = [_rule(policy, spec, cluster, settings) for spec in specs]
    except NotUnderstood as error:
        return [_doubtful(policy, spec, error, settings) for spec in specs if not _is_about_nodes(policy, spec)]
    return [rule for rule in found if rule is not None]


def _is_about_nodes(policy: ObjectFacts, spec: Mapping[str, Any]) -> bool:
    return spec.get("nodeSelector") is not None and not policy.namespace


def _doubtful(policy: ObjectFacts, spec: Mapping[str, Any], problem: NotUnderstood, settings: PolicySettings) -> Rule:
    """Return a rule that is not understood. It concerns the pods that it selects and the directions that it mentions."""
    try:
        subject = subject_of_cnp(spec.get("endpointSelector"), policy.namespace, settings.version)
    except NotUnderstood:
        subject = Selector()
    return rule_not_understood(policy, subject, (d for d in Direction if spec.get(d.value) or spec.get(f"{d.value}Deny")), problem)


def rule_not_understood(policy: ObjectFacts, subject: Selector, directions: Iterable[Direction], problem: NotUnderstood) -> Rule:
    """Return a rule that is not understood, with ``problem`` as the reason."""
    refusal = str(problem) if isinstance(problem, RefusedByCilium) else ""
    return Rule(
        policy=policy.shown,
        namespace=policy.namespace,
        subject=subject,
        sections={direction: Section(entries=()) for direction in directions},
        problem=f"Cilium refuses it: {refusal}" if refusal else str(problem),
        refusal=refusal,
    )


def _rule(policy: ObjectFacts, spec: Mapping[str, Any], cluster: str, settings: PolicySettings) -> Rule | None:
    """Return the rule of one spec; None for a rule about nodes, which does not concern pods."""
    local = local_cluster_requirement(cluster, settings.local_by_default)
    empty = not any(spec.get(key) for direction in Direction for key in (direction.value, f"{direction.value}Deny"))
    if empty and holds("empty_rule_refused", settings.version):
        raise RefusedByCilium("one of its rules has neither ingress, ingressDeny, egress nor egressDeny")
    if _is_about_nodes(policy, spec):
        _refuse_rule_about_nodes(spec, cluster, local, settings)
        return None
    if not isinstance(spec.get("endpointSelector"), Mapping):
        raise RefusedByCilium("one of its rules has no endpointSelector")
    sections = {d: found for d in Direction if (found := _section(policy.namespace, spec, d, cluster, local, settings))}
    return Rule(
        policy=policy.shown,
        namespace=policy.namespace,
        subject=subject_of_cnp(spec["endpointSelector"], policy.namespace, settings.version),
        sections=sections,
    )


def _refuse_rule_about_nodes(spec: Mapping[str, Any], cluster: str, local: tuple[Requirement, ...], settings: PolicySettings) -> None:
    """Raise RefusedByCilium for a rule about nodes that Cilium refuses, since that invalidates the rules about pods beside it."""
    try:
        refuse_bad_labels(spec["nodeSelector"], settings.version)
        for direction in Direction:
            _section("", spec, direction, cluster, local, settings)
    except RefusedByCilium:
        raise
    except NotUnderstood:
        return  # what the evaluator does not know about nodes says nothing about pods


def _section(
    namespace: str, spec: Mapping[str, Any], direction: Direction, cluster: str, local: tuple[Requirement, ...], settings: PolicySettings
) -> Section | None:
    """Return the section of one direction; None if the rule does not mention it.

    Empty lists count as absent (rule_validation.go, len() > 0).
    """
    allow, deny = _list(spec.get(direction.value)), _list(spec.get(f"{direction.value}Deny"))
    if not allow and not deny:
        return None
    entries = [
        entry
        for rules, denies in ((allow, False), (deny, True))
        for rule in rules
        if (entry := _entry(namespace, rule, direction, cluster, local, settings, denies)) is not None
    ]
    return Section(
        entries=tuple(entries),
        default_deny=_default_deny(spec, direction, settings),
        requires=_requires(allow, direction, namespace, local, settings),
        requires_deny=_requires(deny, direction, namespace, local, settings),
    )


def _entry(
    namespace: str,
    rule: Mapping[str, Any],
    direction: Direction,
    cluster: str,
    local: tuple[Requirement, ...],
    settings: PolicySettings,
    deny: bool,
) -> Entry | None:
    """Return one entry; None for a rule that matches nothing. ``{}`` is one, and only isolates."""
    peers = parse_peers(rule, direction.side, namespace=namespace, cluster=cluster, local=local, settings=settings)
    refuse_layer_7(rule, ingress=direction is Direction.INGRESS, l7_proxy=settings.l7_proxy)
    ports = parse_ports(rule, icmp_rules=settings.icmp_rules)
    if peers is None and ports is None:
        return None
    mode = given_mapping(rule.get("authentication"), "authentication").get("mode") or "disabled"
    return Entry(peers=ANYONE if peers is None else peers, ports=ports, deny=deny, authenticated=not deny and mode != "disabled")


def _default_deny(spec: Mapping[str, Any], direction: Direction, settings: PolicySettings) -> bool:
    given = given_mapping(spec.get("enableDefaultDeny"), "enableDefaultDeny").get(direction.value)
    return True if given is None or not settings.non_default_deny else bool(given)


def _requires(
    rules: Iterable[Mapping[str, Any]], direction: Direction, namespace: str, local: tuple[Requirement, ...], settings: PolicySettings
) -> tuple[Selector, ...]:
    """Return the additional label requirements, which 1.19 removed (layer3.rst, "Additional Label Requirements")."""
    values = [value for rule in rules for value in _list(rule.get(f"{direction.side}Requires"))]
    if values and not holds("required_labels", settings.version):
        raise NotUnderstood(f"{direction.side}Requires is no longer read")
    return tuple(peer_of_cnp(value, namespace, local, settings.version, requires=True) for value in values)


def _list(values: Any) -> list[Mapping[str, Any]]:
    return given_mappings(values, "rules")
