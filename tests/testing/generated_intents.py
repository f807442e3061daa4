# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Generated intents, pods and flows, for laws about what intents mean.

Members have inventory names such as "c1". Labels are few, so that selectors meet pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import hypothesis.strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    LabelRequirement,
    PodSelection,
    PortRule,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import CLUSTER_LABEL, NAMESPACE_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import PolicyEndpoint

MEMBERS = ("c1", "c2", "c3")
NAMES = {host: f"cluster-of-{host}" for host in MEMBERS}
"""Cluster names by member; pods lie about theirs."""


@dataclass(frozen=True)
class Case:
    intents: tuple[ConnectivityIntent, ...]
    pods: tuple[PolicyEndpoint, ...]
    flows: tuple[tuple[str, int], ...]


LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("x", "y")), max_size=2)
EXPRESSIONS = st.one_of(
    st.builds(
        LabelRequirement,
        key=st.sampled_from(("app", "tier")),
        operator=st.sampled_from(("In", "NotIn")),
        values=st.sets(st.sampled_from(("x", "y", "z")), min_size=1).map(lambda found: tuple(sorted(found))),
    ),
    st.builds(LabelRequirement, key=st.sampled_from(("app", "tier")), operator=st.sampled_from(("Exists", "DoesNotExist"))),
)
PORT = st.integers(1, 65535)


def some_clusters(members: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(members)).map(lambda found: tuple(sorted(found)))


@st.composite
def sides(draw: st.DrawFn, *, namespaced: bool, members: Sequence[str] = MEMBERS) -> PodSelection:
    everywhere = not namespaced and draw(st.booleans())
    labels, expressions = draw(LABELS), tuple(draw(st.lists(EXPRESSIONS, max_size=2)))
    return PodSelection(
        namespace="" if everywhere else draw(st.sampled_from(("blue", "green"))),
        labels=labels,
        expressions=expressions,
        clusters=draw(some_clusters(members)),
        all_pods=not labels and not expressions,
        all_namespaces=everywhere,
    )


@st.composite
def port_rules(draw: st.DrawFn) -> PortRule:
    protocol = draw(st.sampled_from(("TCP", "UDP", "SCTP", "ANY", "ICMP", "ICMPv6")))
    if protocol.startswith("ICMP"):
        return PortRule(protocol=protocol, icmp_type=draw(st.integers(1, 255)))
    first = draw(st.one_of(st.just(0), PORT))
    return PortRule(protocol=protocol, port=first, end_port=draw(st.integers(first, 65535)) if first and draw(st.booleans()) else 0)


@st.composite
def intents(draw: st.DrawFn, *, members: Sequence[str] = MEMBERS) -> ConnectivityIntent:
    action, namespaced = draw(st.sampled_from(("Allow", "Deny", "Isolate"))), draw(st.booleans())
    many = [PortRule(protocol="TCP", port=8000 + n) for n in range(draw(st.integers(41, 90)))] if draw(st.integers(0, 5)) == 0 else []
    isolate = action == "Isolate"
    return ConnectivityIntent(
        name=f"intent-{draw(st.integers(0, 999_999))}",
        action=action,
        mode="Namespaced" if namespaced else "Clusterwide",
        source=None if isolate else draw(sides(namespaced=False, members=members)),
        destination=draw(sides(namespaced=namespaced, members=members)),
        ports=() if isolate else (*draw(st.lists(port_rules(), max_size=3)), *many),
    )


@st.composite
def pods(draw: st.DrawFn) -> PolicyEndpoint:
    """Some lie about their cluster and namespace, which Cilium does not believe them; all have a label that is no part of an identity."""
    lie = {CLUSTER_LABEL.partition(":")[2]: NAMES["c1"], NAMESPACE_LABEL.partition(":")[2]: "blue"}
    return PolicyEndpoint(
        cluster=draw(st.sampled_from(MEMBERS)),
        namespace=draw(st.sampled_from(("blue", "green"))),
        labels={**draw(LABELS), "pod-template-hash": "5d9f", **(lie if draw(st.booleans()) else {})},
        namespace_labels={},
    )


@st.composite
def pods_for(draw: st.DrawFn, side: PodSelection | None) -> PolicyEndpoint:
    """Such as the side probably means: what is generated at large seldom meets a selector."""
    some = draw(pods())
    if side is None:
        return some
    cluster = draw(st.sampled_from(side.clusters or MEMBERS))
    return replace(some, cluster=cluster, namespace=side.namespace or some.namespace, labels={**some.labels, **side.labels})


def flows_of(rule: PortRule) -> list[tuple[str, int]]:
    """The first and the last flow that a rule means."""
    if rule.icmp_type is not None:
        return [(rule.protocol, rule.icmp_type)]
    protocol = "TCP" if rule.protocol == "ANY" else rule.protocol
    return [(protocol, rule.port or 1), (protocol, rule.end_port or rule.port or 65535)]


@st.composite
def flows(draw: st.DrawFn, wanted: Sequence[ConnectivityIntent]) -> tuple[tuple[str, int], ...]:
    """Flows at the edges of what the intents list."""
    edges = {
        80,
        8000,
        8039,
        8040,
        8041,
        *(n for i in wanted for p in i.ports[:3] for n in (p.port - 1, p.port, p.end_port, p.end_port + 1)),
    }
    transport = st.tuples(st.sampled_from(("TCP", "UDP", "SCTP")), st.sampled_from(sorted(edge for edge in edges if 1 <= edge <= 65535)))
    types = {8, *(p.icmp_type for i in wanted for p in i.ports if p.icmp_type)}
    icmp = st.tuples(st.sampled_from(("ICMP", "ICMPv6")), st.sampled_from(sorted(types)))
    said = {flow for i in wanted[:2] for p in (*i.ports[:1], *i.ports[-1:]) for flow in flows_of(p)}
    drawn = draw(st.lists(st.one_of(transport, icmp), min_size=1, max_size=2, unique=True))
    return tuple(sorted(said | set(drawn)))


def several(members: Sequence[str] = MEMBERS, most: int = 4) -> st.SearchStrategy[list[ConnectivityIntent]]:
    return st.lists(intents(members=members), min_size=1, max_size=most, unique_by=lambda intent: intent.name)


@st.composite
def cases(draw: st.DrawFn, most: int = 4) -> Case:
    wanted = draw(several(most=most))
    meant_ones = [draw(pods_for(side)) for intent in wanted[:2] for side in (intent.source, intent.destination)]
    return Case(tuple(wanted), (*meant_ones, *draw(st.lists(pods(), min_size=1, max_size=2))), draw(flows(wanted)))
