# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Random scenes with policies of every kind of peer and port, for comparing what is evaluated together with what is evaluated alone."""

from __future__ import annotations

from random import Random
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, PodMeta
from tests.testing.facts_builders import cluster_facts
from tests.testing.policy_worlds import policy_facts
from tests.testing.traffic_builders import namespace_facts, pod, scene, traffic

HOSTS = ("c1", "c2", "c3")
NAMESPACES = ("shop", "db", "tools")
APPS = ("web", "api", "store")
CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"enable-policy": "always"},
    {"enable-policy": "never"},
    {"policy-default-local-cluster": "false"},
    {"enable-host-firewall": "true"},
    {"policy-audit-mode": "true"},
)
NETWORKS = ("192.0.2.0/24", "192.0.2.128/25", "198.51.100.7/32", "0.0.0.0/0")


LISTED = 0.8
"""Share of the namespaces that are listed. Of a pod in another one the labels of the namespace are not known."""


def random_scene(random: Random) -> Scene:
    """Three clusters with a few pods, and up to five policies each."""
    version = random.choice(("1.16.19", "1.18.11", "1.20.2"))
    places = {host: _pods(random) for host in HOSTS}
    return scene(
        *(
            traffic(
                host,
                namespaces=[namespace_facts(name) for name in NAMESPACES if random.random() < LISTED],
                pods=places[host],
                policies=tuple(_policy(random, number) for number in range(random.randint(0, 5))),
            )
            for host in HOSTS
        ),
        facts={host: cluster_facts(host, version=version, config=random.choice(CONFIGS)) for host in HOSTS},
    )


def _pods(random: Random) -> tuple[PodMeta, ...]:
    found = []
    for number in range(random.randint(1, 6)):
        labels = {"app": random.choice(APPS)} | ({"tier": random.choice("ab")} if random.random() < 0.4 else {})
        found.append(pod(f"pod{number}-0", namespace=random.choice(NAMESPACES), **labels))
    return tuple(found)


def _policy(random: Random, number: int) -> ObjectFacts:
    kind = random.choice(("CiliumNetworkPolicy", "CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy", "NetworkPolicy"))
    metadata = {"name": f"p{number}", "namespace": random.choice(NAMESPACES)}
    spec = _network_policy(random) if kind == "NetworkPolicy" else _cilium_policy(random)
    return policy_facts({"kind": kind, "metadata": metadata, "spec": spec})


def _cilium_policy(random: Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"endpointSelector": _selector(random)}
    if random.random() < 0.2:
        spec["enableDefaultDeny"] = {"ingress": random.random() < 0.5, "egress": random.random() < 0.5}
    for key in random.sample(("ingress", "egress", "ingressDeny", "egressDeny"), random.randint(1, 2)):
        side = "from" if key.startswith("ingress") else "to"
        spec[key] = [_rule(random, side) for _ in range(random.randint(1, 2))]
    return spec


def _rule(random: Random, side: str) -> dict[str, Any]:
    peers: list[dict[str, Any]] = [
        {},
        {side + "Endpoints": [_selector(random)]},
        {side + "Endpoints": [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": random.choice(NAMESPACES)}}]},
        {side + "Endpoints": [{"matchLabels": {"k8s:io.cilium.k8s.policy.cluster": random.choice(HOSTS)}}]},
        {side + "Endpoints": [{"matchLabels": {"io.cilium.k8s.policy.serviceaccount": "x"}}]},
        {side + "Entities": [random.choice(("all", "world", "cluster", "remote-node", "host"))]},
        {side + "CIDR": [random.choice(NETWORKS)]},
        {side + "CIDRSet": [{"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}]},
    ]
    ports: list[dict[str, Any]] = [
        {},
        {"toPorts": [{"ports": [{"port": str(random.choice((80, 443, 8080))), "protocol": random.choice(("TCP", "UDP", "ANY"))}]}]},
        {"toPorts": [{"ports": [{"port": "8000", "endPort": 8999, "protocol": "TCP"}]}]},
        {"toPorts": [{"ports": [{"port": "http", "protocol": "TCP"}]}]},
        {"icmps": [{"fields": [{"family": random.choice(("IPv4", "IPv6")), "type": 8}]}]},
        {"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}], "rules": {"http": [{"method": "GET"}]}}]},
    ]
    return {**random.choice(peers), **random.choice(ports)}


def _selector(random: Random) -> dict[str, Any]:
    return random.choice(
        (
            {},
            {"matchLabels": {"app": random.choice(APPS)}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [random.choice(APPS)]}]},
            {"matchExpressions": [{"key": "tier", "operator": random.choice(("Exists", "DoesNotExist"))}]},
        )
    )


def _network_policy(random: Random) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "podSelector": _selector(random),
        "policyTypes": random.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"])),
    }
    peers = [
        {"podSelector": _selector(random)},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": random.choice(NAMESPACES)}}},
        {"ipBlock": {"cidr": random.choice(NETWORKS)}},
    ]
    for kind, side in (("Ingress", "from"), ("Egress", "to")):
        if kind in spec["policyTypes"]:
            spec[kind.lower()] = [{side: [random.choice(peers)], "ports": [{"protocol": "TCP", "port": 80}]}][: random.randint(0, 1)]
    return spec
