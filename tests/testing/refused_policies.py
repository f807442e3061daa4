# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies that the schema of Cilium 1.20's CRDs accepts and Cilium refuses, as bodies.

The engine of 1.20.2 refused them (``CiliumNetworkPolicy.Parse``); tests/integration/test_policies.py shows that an API server takes them.
"""

from __future__ import annotations

from typing import Any

FROM_B = {"fromEndpoints": [{"matchLabels": {"app": "b"}}]}
GOOD: dict[str, Any] = {"endpointSelector": {}, "ingress": [FROM_B]}


def layer_7_rule(port: str = "80", protocol: str = "TCP", **more: Any) -> dict[str, Any]:
    """A rule of ingress for HTTP."""
    return {"toPorts": [{"ports": [{"port": port, "protocol": protocol}], "rules": {"http": [{"method": "GET"}]}, **more}]}


def by_expression(**more: Any) -> dict[str, Any]:
    """A rule of ingress with one expression."""
    return {"fromEndpoints": [{"matchExpressions": [{"key": "app", "operator": "In", "values": ["b"], **more}]}]}


def by_key(key: str) -> dict[str, Any]:
    """A rule of ingress with a key of a label."""
    return {"fromEndpoints": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}


DNS = {"dns": [{"matchName": "example.com"}]}
REFUSED_RULES: dict[str, dict[str, Any]] = {
    "an exception outside of its network": {"fromCIDRSet": [{"cidr": "10.1.0.0/16", "except": ["10.0.0.0/8"]}]},
    "an exception of the other family": {"fromCIDRSet": [{"cidr": "10.1.0.0/16", "except": ["2001:db8::/64"]}]},
    "nodes by labels, which is off": {"fromNodes": [{}]},
    "a value with a space": by_expression(values=["b", "no good!"]),
    "a value of 64 letters": by_expression(values=["b" * 64]),
    "a key with a space": by_key("a b"),
    "a key with two slashes": by_key("a/b/c"),
    "a key with two sources": by_key("k8s:a:b"),
    "a key with an empty source": by_key(":app"),
    "a source without a key": by_key("k8s:"),
    "a key with a dollar": by_key("$host"),
    "VRRP with a port": {"toPorts": [{"ports": [{"port": "80", "protocol": "VRRP"}]}]},
    "http on UDP": layer_7_rule(protocol="UDP"),
    "http on every protocol": layer_7_rule(protocol="ANY"),
    "http on port 0": layer_7_rule(port="0"),
    "dns under ingress": {"toPorts": [{"ports": [{"port": "53", "protocol": "UDP"}], "rules": DNS}]},
    "a listener under ingress": {
        "toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}], "listener": {"envoyConfig": {"name": "x"}, "name": "y"}}]
    },
    "names of servers beside http": layer_7_rule(serverNames=["a.example"]),
    "two kinds of peers": {**FROM_B, "fromEntities": ["all"]},
    "ports and ICMP": {"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}]}], "icmps": [{"fields": [{"type": 8}]}]},
}
REFUSED_BY_SCHEMA_TOO: dict[str, dict[str, Any]] = {
    "http and kafka": layer_7_rule(rules={"http": [{}], "kafka": [{}]}),
    "an empty name of a server": {"toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}], "serverNames": [""]}]},
}
"""What an API server with the CRDs of 1.20 refuses as well, and one with older CRDs takes."""

BAD_BESIDE_GOOD: dict[str, dict[str, Any]] = {
    "a rule without directions": {"endpointSelector": {}, "ingress": []},
    "a refused rule about nodes": {"nodeSelector": {"matchLabels": {"a b": ""}}, "ingress": [{}]},
    "a rule about nodes without directions": {"nodeSelector": {}, "egress": []},
}
