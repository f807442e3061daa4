# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Generated policies as users write them: of both kinds of Cilium, and NetworkPolicies. All of them are such as agents of 1.19 accept.

They are for pods of the namespaces blue and green with the labels app and tier, in the clusters c1 and c2, whose pods have addresses of
10.1.0.0/16 and 10.2.0.0/16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import hypothesis.strategies as st

from tests.testing.generated_intents import EXPRESSIONS, LABELS

Object = dict[str, Any]

NAMESPACES: Final = ("blue", "green")
KINDS: Final = ("CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", "NetworkPolicy")
_NAMESPACE: Final = "k8s:io.kubernetes.pod.namespace"
_OF_NAMESPACES: Final = "k8s:io.cilium.k8s.namespace.labels.kubernetes.io/metadata.name"
_CLUSTER: Final = "k8s:io.cilium.k8s.policy.cluster"
_ENTITIES: Final = ("all", "cluster", "world", "host", "remote-node", "health", "none")
_PORTS: Final = (8000, 8039, 8080)
_NETWORKS: Final = ("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16", "192.0.2.0/24")
_SIDES: Final = {"ingress": "from", "egress": "to"}


def _some(draw: st.DrawFn, one_of: int = 2) -> bool:
    """Return True once in so many times."""
    return draw(st.integers(1, one_of)) == 1


@st.composite
def selectors(draw: st.DrawFn, prefixes: Sequence[str] = ("", "k8s:", "any:")) -> Object:
    """A LabelSelector over pods' own labels."""
    labels = {f"{draw(st.sampled_from(prefixes))}{key}": value for key, value in draw(LABELS).items()}
    expressions = [
        {"key": f"{draw(st.sampled_from(prefixes))}{found.key}", "operator": found.operator}
        | ({"values": list(found.values)} if found.values else {})
        for found in draw(st.lists(EXPRESSIONS, max_size=1))
    ]
    return ({"matchLabels": labels} if labels else {}) | ({"matchExpressions": expressions} if expressions else {})


@st.composite
def _peers_of_cilium(draw: st.DrawFn, side: str) -> Object:
    """One kind of peers, since Cilium takes no two of them in a rule; or none, which means everyone."""
    kind = draw(st.sampled_from(("Endpoints", "Endpoints", "Endpoints", "Entities", "CIDRSet", "")))
    if kind == "Endpoints":
        found = [draw(selectors()) for _ in range(draw(st.integers(0, 2)))]
        for selector in found:
            more: dict[str, str] = {}
            if _some(draw):
                more[draw(st.sampled_from((_NAMESPACE, _OF_NAMESPACES)))] = draw(st.sampled_from(NAMESPACES))
            if _some(draw, 3):
                more[_CLUSTER] = draw(st.sampled_from(("c1", "c2")))
            if more:
                selector["matchLabels"] = {**selector.get("matchLabels", {}), **more}
        return {f"{side}Endpoints": found}
    if kind == "Entities":
        return {f"{side}Entities": sorted(draw(st.sets(st.sampled_from(_ENTITIES), min_size=1, max_size=2)))}
    if kind == "CIDRSet":
        network = draw(st.sampled_from(_NETWORKS))
        return {f"{side}CIDRSet": [{"cidr": network} | ({"except": ["10.1.0.0/17"]} if network == "10.1.0.0/16" else {})]}
    return {}


@st.composite
def _ports(draw: st.DrawFn, protocols: Sequence[str] = ("TCP", "UDP", "ANY"), number: type = str) -> list[Object]:
    found = []
    for _ in range(draw(st.integers(1, 2))):
        port = draw(st.sampled_from(_PORTS))
        end = {"endPort": draw(st.sampled_from([last for last in _PORTS if last >= port]))} if _some(draw, 3) else {}
        found.append({"port": number(port), "protocol": draw(st.sampled_from(protocols)), **end})
    return found


@st.composite
def _rules_of_cilium(draw: st.DrawFn, side: str) -> list[Object]:
    rules = []
    for _ in range(draw(st.integers(1, 2))):
        rule = draw(_peers_of_cilium(side))
        what = draw(st.sampled_from(("ports", "ports", "icmps", "")))
        if what == "ports":
            rule["toPorts"] = [{"ports": draw(_ports())}]
        elif what == "icmps":
            rule["icmps"] = [{"fields": [{"family": "IPv4", "type": 8}]}]
        rules.append(rule)
    return rules


@st.composite
def specs_of_cilium(draw: st.DrawFn, *, clusterwide: bool) -> Object:
    """The spec of a CiliumNetworkPolicy, or of a clusterwide one, which may select pods by namespace."""
    subject = draw(selectors())
    if clusterwide and _some(draw):
        subject["matchLabels"] = {**subject.get("matchLabels", {}), _NAMESPACE: draw(st.sampled_from(NAMESPACES))}
    sections = draw(st.sets(st.sampled_from(("ingress", "egress", "ingressDeny", "egressDeny")), min_size=1, max_size=2))
    spec: Object = {"endpointSelector": subject}
    for section in sorted(sections):
        spec[section] = draw(_rules_of_cilium(_SIDES[section.removesuffix("Deny")]))
    if _some(draw, 3):
        spec["enableDefaultDeny"] = {draw(st.sampled_from(("ingress", "egress"))): draw(st.booleans())}
    return spec


@st.composite
def specs_of_kubernetes(draw: st.DrawFn) -> Object:
    """The spec of a NetworkPolicy, of one or both directions, with rules or without."""
    types = sorted(draw(st.sets(st.sampled_from(("Ingress", "Egress")), min_size=1)))
    spec: Object = {"podSelector": draw(selectors(("",))), "policyTypes": types}
    for direction, side in _SIDES.items():
        if direction.title() not in types or _some(draw, 4):
            continue
        rules: list[Object] = []
        for _ in range(draw(st.integers(0, 2))):
            rule: Object = {side: [draw(_peers_of_kubernetes()) for _ in range(draw(st.integers(1, 2)))]} if not _some(draw, 4) else {}
            if _some(draw):
                rule["ports"] = draw(_ports(("TCP", "UDP"), int))
            rules.append(rule)
        spec[direction] = rules
    return spec


@st.composite
def _peers_of_kubernetes(draw: st.DrawFn) -> Object:
    if _some(draw, 5):
        return {"ipBlock": {"cidr": draw(st.sampled_from(_NETWORKS))}}
    spaces = draw(st.sampled_from(({}, {}, *({"matchLabels": {"kubernetes.io/metadata.name": name}} for name in NAMESPACES))))
    kinds = draw(st.sampled_from(("pods", "namespaces", "both")))
    return ({"podSelector": draw(selectors(("",)))} if kinds != "namespaces" else {}) | (
        {"namespaceSelector": spaces} if kinds != "pods" else {}
    )


@st.composite
def policies(draw: st.DrawFn, name: str) -> Object:
    """A policy of any of `KINDS`."""
    kind = draw(st.sampled_from(KINDS))
    metadata: Object = {"name": name} | ({} if "Clusterwide" in kind else {"namespace": draw(st.sampled_from(NAMESPACES))})
    if kind == "NetworkPolicy":
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": draw(specs_of_kubernetes())}
    body: Object = {"apiVersion": "cilium.io/v2", "kind": kind, "metadata": metadata}
    clusterwide = "Clusterwide" in kind
    if _some(draw, 4):
        return {**body, "specs": [draw(specs_of_cilium(clusterwide=clusterwide)) for _ in range(2)]}
    return {**body, "spec": draw(specs_of_cilium(clusterwide=clusterwide))}


@st.composite
def placed(draw: st.DrawFn, members: Sequence[str]) -> Mapping[str, list[Object]]:
    """One to three policies, each in one cluster or in all."""
    found: dict[str, list[Object]] = {host: [] for host in members}
    for number in range(draw(st.integers(1, 3))):
        body = draw(policies(f"policy-{number}"))
        for host in members if _some(draw) else (draw(st.sampled_from(members)),):
            found[host].append(body)
    return found
