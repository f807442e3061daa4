# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Translation of a Kubernetes NetworkPolicy into rules, as agents do it (pkg/k8s/network_policy.go of 1.16 to 1.20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.json_fields import texts
from ...mesh.facts.traffic import ObjectFacts
from ...mesh.versions.minors import holds
from .endpoints import CLUSTER, NAMESPACE, NAMESPACE_LABELS
from .peers import ANYONE, Cidr, Peers, network
from .ports import LAST, PortMatch, parse_ports
from .rules import Direction, Entry, Rule, Section, rule_not_understood
from .selectors import (
    NotUnderstood,
    RefusedByCilium,
    Requirement,
    Selector,
    as_matched,
    equals,
    given_mapping,
    given_mappings,
    local_cluster_requirement,
    parse_selector,
)
from .settings import PolicySettings


def rules_of_network_policy(policy: ObjectFacts, cluster: str, settings: PolicySettings) -> list[Rule]:
    """Return the one rule of a NetworkPolicy.

    It has a direction if it has rules for it, or ``policyTypes`` names it; without ``policyTypes`` it always has ingress.
    """
    try:
        return [_rule(policy, cluster, settings)]
    except NotUnderstood as error:
        return [rule_not_understood(policy, _widest_subject(policy), _directions(policy), error)]


def _rule(policy: ObjectFacts, cluster: str, settings: PolicySettings) -> Rule:
    spec, local = policy.spec, local_cluster_requirement(cluster, settings.local_by_default)
    sections = {}
    if not isinstance(spec.get("policyTypes") or [], list):
        raise NotUnderstood("policyTypes has the wrong form")
    for direction in _directions(policy):
        rules = given_mappings(spec.get(direction.value), "rules")
        entries = [entry for rule in rules for entry in _entries(policy.namespace, rule, direction, local, settings)]
        sections[direction] = Section(entries=tuple(entries))
    return Rule(
        policy=policy.shown,
        namespace=policy.namespace,
        subject=_pods(spec.get("podSelector") or {}, policy.namespace),
        sections=sections,
    )


def _directions(policy: ObjectFacts) -> list[Direction]:
    types = texts(policy.spec, "policyTypes")
    by_default = {Direction.INGRESS} if "Egress" not in types else set()
    return [d for d in Direction if policy.spec.get(d.value) or d.value.capitalize() in types or d in by_default]


def _widest_subject(policy: ObjectFacts) -> Selector:
    """Return the pods that the policy selects; all pods if its selector is not understood."""
    try:
        return _pods(policy.spec.get("podSelector") or {}, policy.namespace)
    except NotUnderstood:
        return Selector()


def _entries(
    namespace: str, rule: Mapping[str, Any], direction: Direction, local: tuple[Requirement, ...], settings: PolicySettings
) -> list[Entry]:
    """Return an entry per peer, each with all ports of the rule. A rule without peers means every peer."""
    peers = given_mappings(rule.get(direction.side), "peers")
    ports = tuple(_port(value) for value in given_mappings(rule.get("ports"), "ports")) or None
    found = [_peer(namespace, peer, direction, local, settings) for peer in peers] or [ANYONE]
    return [Entry(peers=entry, ports=ports) for entry in found]


def _peer(namespace: str, peer: Mapping[str, Any], direction: Direction, local: tuple[Requirement, ...], settings: PolicySettings) -> Peers:
    block = given_mapping(peer.get("ipBlock"), "an ipBlock")
    if block:
        if local and direction is Direction.INGRESS and not holds("ip_block_beside_local_cluster", settings.version):
            raise RefusedByCilium("an ipBlock of ingress stands beside policy-default-local-cluster, which goes together from 1.19 on")
        without = block.get("except") or []
        if not isinstance(without, list):
            raise NotUnderstood("an ipBlock has the wrong form")
        return Peers(cidrs=(Cidr(network(block.get("cidr")), tuple(network(entry) for entry in without)),))
    pods, namespaces = peer.get("podSelector"), peer.get("namespaceSelector")
    if pods is None and namespaces is None:
        raise NotUnderstood("a peer names neither pods nor namespaces nor addresses")
    chosen = parse_selector(pods or {}, "k8s")
    added = () if chosen.has(f"k8s:{CLUSTER}") else local
    if namespaces is None:
        return Peers(selectors=(_pods(pods, namespace).plus(*added),))
    # The labels of both selectors become one map, and those of podSelector win (pkg/policy/api/selector.go, NewESFromK8sLabelSelector).
    ours = {f"k8s:{key}" for key in _match_labels(pods or {})}
    theirs = [entry for entry in _namespaces(namespaces).requirements if not (entry.from_label and entry.key in ours)]
    return Peers(selectors=(as_matched(Selector((*theirs, *chosen.requirements, *added)), settings.version),))


def _pods(value: Any, namespace: str) -> Selector:
    """Return a selector of pods in the policy's own namespace."""
    labels = {key: text for key, text in _match_labels(value).items() if key != NAMESPACE}
    return parse_selector({**value, "matchLabels": labels}, "k8s").plus(equals(f"k8s:{NAMESPACE}", namespace))


def _match_labels(selector: Any) -> Mapping[str, Any]:
    return given_mapping(given_mapping(selector, "a selector").get("matchLabels"), "a selector")


def _namespaces(value: Mapping[str, Any]) -> Selector:
    """Return a selector by the labels of namespaces; an empty one means all namespaces."""
    found = parse_selector(
        {
            "matchLabels": {NAMESPACE_LABELS + key: text for key, text in _match_labels(value).items()},
            "matchExpressions": [
                {**entry, "key": NAMESPACE_LABELS + str(entry.get("key"))}
                for entry in given_mappings(value.get("matchExpressions"), "expressions")
            ],
        },
        "k8s",
    )
    return found if found.requirements else Selector((Requirement(f"k8s:{NAMESPACE}", "Exists"),))


def _port(value: Mapping[str, Any]) -> PortMatch:
    """Return the ports of an entry: TCP where no protocol is named, every port where no port is."""
    port = value.get("port")
    body = {"protocol": value.get("protocol") or "TCP", "port": "0" if port is None else str(port), "endPort": value.get("endPort") or 0}
    found = parse_ports({"toPorts": [{"ports": [body]}]})
    return found[0] if found else PortMatch(str(body["protocol"]), 0, LAST)
