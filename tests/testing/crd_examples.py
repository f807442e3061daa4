# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Specs of custom resources, right and wrong ones, and who has to take them: the engine's parser, and the API server by the schema.

The two agree wherever the spec alone shows what is wrong. What only the engine can know is in ``ENGINE``: the members of the mesh, and sums
over lists. In ``SCHEMA`` is what only the schema refuses: limits that keep tenants apart, and fields that have several forms in a file and
one here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

MEMBERS: Final = ("c1", "c2", "c3")
BINDING: Final = "edge-mesh-eu"
REFS: Final = [{"name": host} for host in MEMBERS]


class _Gone:
    def __repr__(self) -> str:
        return "GONE"  # part of the name of a test: the same in every process


GONE: Final = _Gone()
"""As a value: the field is left out."""


class Example(NamedTuple):
    """One spec. ``engine``, ``schema``: is it taken?"""

    kind: str
    about: str
    spec: Any
    engine: bool
    schema: bool


_MESH: Final = {"meshRef": {"name": BINDING}}
_SIDES: Final = ("source", "destination")
_SIDE: Final = {"namespace": "production", "name": "web"}
_WAIVED: Final = {"reason": "Until the pools are split (ticket #4711), für Köln", "until": "2027-01-31T00:00:00Z"}
BASES: Final[Mapping[str, dict[str, Any]]] = {
    "ClusterMeshBinding": {"clusterRefs": REFS},
    "GlobalService": {**_MESH, "selector": {"namespace": "production", "name": "nginx"}},
    "ConnectivityIntent": {**_MESH, "action": "Allow", "source": _SIDE, "destination": {**_SIDE, "name": "nginx"}},
    "ExposedService": {**_MESH, "service": {"namespace": "production", "name": "nginx"}, "port": {"number": 80}, "class": "LoadBalancer"},
    "Fabric": {"meshRefs": [{"name": BINDING}]},
}
"""The least of each kind."""


def each(field: str, *values: Any) -> list[dict[str, Any]]:
    """A change for each value of a field."""
    return [{field: value} for value in values]


def labelled(*selectors: dict[str, str]) -> list[dict[str, Any]]:
    return each("source", *({"namespace": "a", "selector": selector} for selector in selectors))


def expressed(*expressions: dict[str, Any]) -> list[dict[str, Any]]:
    return each("source", *({"namespace": "a", "expressions": [expression]} for expression in expressions))


_TAKEN: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [
        {"topology": {}},
        {"topology": {"hubs": [], "pairs": []}, "meshConfig": {}},
        {"meshConfig": {"hubble": {}}},
        *each("topology", {"mode": "HubAndSpoke", "hubs": ["c1"]}, {"mode": "Pairs", "pairs": [["c1", "c2"], ["c2", "c3"]]}),
        {"meshConfig": {"serviceType": "NodePort", "enableKvStoreMesh": False, "hubble": {"enabled": True, "ui": False}}},
        {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]},
        {"trust": "Minted", "nodeAddresses": "ExternalIP", "accept": [], "takeBack": []},
        {"accept": [{"code": "CM-CIDR-02", **_WAIVED}, {"code": "CM-VER-01", **_WAIVED, "until": "2027-01-31T12:00:00.5+01:00"}]},
        {"takeBack": [{"cluster": "c1", **_WAIVED}], "repair": _WAIVED, "adopt": _WAIVED},
        {"repair": {}, "adopt": {}},
    ],
    "GlobalService": [
        {"selector": {"namespace": "production", "labelSelector": {"app": "nginx", "example.com/tier": "", "a.b/c_D": "x.y_z"}}},
        {"targetClusters": ["c3", "c1"], "shared": True, "affinity": "Local", "createMissingServices": True},
        {"targetClusters": [], "globalAnnotations": {}},
        {"selector": {"namespace": "production", "name": "nginx", "labelSelector": {}}},
        {"selector": {"namespace": "production", "name": "nginx", "labelSelector": {"app": "nginx"}}},
        {"globalAnnotations": {"service.cilium.io/global": "true", "io.cilium/global-service": "True"}},
        {"globalAnnotations": {"example.com/team": "shop", "example.com/page": "https://example.com/a"}},
        {"globalAnnotations": {"service.cilium.io/shared": "TRUE", "io.cilium/service-affinity": "remote"}},
        {"backend": "MCS", "affinity": "None"},
        *each("failover", {"detectWithin": "1m30s", "minLocalReady": 2, "hysteresis": 1}, {"detectWithin": 86400}, {}),
    ],
    "ConnectivityIntent": [
        {"action": "Deny", "policyMode": "Clusterwide", "destination": {"allNamespaces": True, "allPods": True}},
        {
            side: {"namespace": "a", "selector": {"app": "x"}, "clusters": ["c1"], "allPods": False, "allNamespaces": False}
            for side in _SIDES
        },
        {
            side: {
                "namespace": "a",
                "expressions": [{"key": "app", "operator": "In", "values": ["x", ""]}, {"key": "e.x/b", "operator": "Exists"}],
            }
            for side in _SIDES
        },
        {side: {"namespace": "a"} for side in _SIDES},
        {side: {"namespace": "a", "selector": {}, "expressions": [], "clusters": []} for side in _SIDES},
        {side: {**_SIDE, "selector": {}, "expressions": [], "clusters": []} for side in _SIDES},
        {side: {"namespace": "a", "selector": {"k8s:app": "x", "any:e.x/b": "", "app": "x"}} for side in _SIDES},
        {side: {"namespace": "a", "expressions": [{"key": "k8s:app", "operator": "Exists", "values": []}]} for side in _SIDES},
        {"action": "Isolate", "source": GONE},
        {"action": "Isolate", "source": {}, "ports": []},
        {"action": "Isolate", "source": {"selector": {}, "expressions": [], "clusters": []}},
        *each("ports", [], [{"port": 80}, {"port": 80, "protocol": "TCP"}]),
        {"probe": {"command": []}},
        {"ports": [{"port": 80}, {"protocol": "UDP"}, {"protocol": "ANY", "port": 1, "endPort": 65535}, {"protocol": "ICMP", "type": 8}]},
        {"ports": [{"port": 80, "endPort": 80}]},
        {
            "probe": {
                "enabled": True,
                "intervalSeconds": 10,
                "method": "job",
                "image": "[2001:db8::1]:5000/team/nc:1.0@sha256:0123",
                "command": ["/bin/sh", "-c", "nc -z {{ host }}\n\u202e"],
            }
        },
        {"action": "Isolate", "source": GONE, "probe": {"enabled": True, "method": "hubble"}},
    ],
    "ExposedService": [
        {"port": {"number": 80, "name": "http", "protocol": "TCP"}, "sourceRanges": ["192.0.2.0/24", "198.51.100.7/32", "2001:db8::/32"]},
        {"sourceRanges": ["0.0.0.0/0", "::/0"], "clusters": {"names": ["c1"]}, "allocateLoadBalancerNodePorts": False},
        {"clusters": {"primary": "c2", "standby": ["c3", "c1"]}, "hostname": "Shop.Example.com."},
        {"class": "Gateway", "hostname": "*.example.com", "tlsRef": {"name": "shop-tls"}, "gatewayClassName": "edge"},
        {"class": "NodePort", "sourceRanges": []},
        {"clusters": {}, "tlsRef": {}},
        *each("clusters", {"names": [], "standby": []}, {"names": ["c1"], "standby": []}),
        {"clusters": {"primary": "c1", "standby": ["c2"], "names": []}},
    ],
    "Fabric": [{"meshRefs": [{"name": "a"}, {"name": "b.c"}]}],
}

_SOURCED: Final = ("k8s:io.cilium.k8s.policy.cluster", "any:io.kubernetes.pod.namespace")
_LONG: Final = ".".join(["a" * 60] * 5)
_REFUSED: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [
        *each("clusterRefs", [{"name": "c1"}], [{"name": "c1"}, {"name": "c1"}], [{"name": "c1"}, {}], "c1,c2"),
        *each("clusterRefs", [{"name": "c1"}, {"name": "C2"}], [{"name": "c1"}, {"name": "a" * 64}]),
        *each("topology", {"mode": "Star"}, {"mode": "HubAndSpoke"}, {"mode": "HubAndSpoke", "hubs": []}),
        *each("topology", {"mode": "HubAndSpoke", "hubs": ["c1", "c1"]}, {"mode": "HubAndSpoke", "hubs": ["c9"]}, {"hubs": ["c1"]}),
        *each("topology", {"mode": "Pairs", "hubs": ["c1"], "pairs": [["c1", "c2"]]}, {"mode": "Pairs"}),
        *each("topology", {"mode": "Pairs", "pairs": [["c1"]]}, {"mode": "Pairs", "pairs": [["c1", "c1"]]}),
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c2", "c3"]]}},
        *each("meshConfig", {"serviceType": "ClusterIP"}, {"enableKvStoreMesh": "yes"}, {"hubble": True}),
        {"trust": "same_ca"},
        {"nodeAddresses": "Hostname"},
        *each("accept", [_WAIVED], [{"code": "CIDR-02", **_WAIVED}], [{"code": "CM-CIDR-02", "until": "2027-01-31T00:00:00Z"}]),
        {"accept": [{"code": "CM-CIDR-02", "reason": "", "until": "2027-01-31T00:00:00Z"}]},
        {"accept": [{"code": "CM-CIDR-02", **_WAIVED}, {"code": "CM-CIDR-02", **_WAIVED}]},
        *each("takeBack", [{"cluster": "c9", **_WAIVED}], [{"cluster": "c1", **_WAIVED}, {"cluster": "c1", **_WAIVED}]),
        *each("repair", True, {"reason": "a"}),
        *({"adopt": {"reason": "a", "until": until}} for until in ("", "2027-01-31", "tomorrow", "2027-01-31T00:00:00")),
    ],
    "GlobalService": [
        *each("selector", GONE, {"name": "nginx"}, {"namespace": "production"}, {"namespace": "production", "labelSelector": {}}),
        {"selector": {"namespace": "production", "name": "nginx", "labelSelector": {"k8s:app": "nginx"}}},
        *(
            {"selector": {"namespace": "production", "labelSelector": labels}}
            for labels in ({"a b": "x"}, {"app": "-x"}, {"app": 1}, {"x" * 64: "x"}, {"a/b/c": "x"})
        ),
        {"selector": {"namespace": "Production", "name": "nginx"}},
        *each("selector", {"namespace": "production", "name": "a.b"}, {"namespace": "production", "name": "a" * 64}),
        *each("targetClusters", ["c1", "c1"], ["C1"]),
        *each("globalAnnotations", {"service.cilium.io/global": "false"}, {"io.cilium/global-service": "yes"}),
        *each("globalAnnotations", {"io.cilium/service-affinity": "true"}, {"example.com/a b": "x"}, {"example.com/team": "{{ 7 }}"}),
        *each("globalAnnotations", {"example.com/team": "x" * 1025}, {"kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        *each("globalAnnotations", {"service.cilium.io/shared": "local"}, {"service.cilium.io/affinity": "true"}),
        {"globalAnnotations": {"service.cilium.io/shared": True}},
        {"shared": "true"},
        {"affinity": "local"},
        {"backend": "Clustermesh"},
        {"backend": "MCS", "shared": False},
        {"backend": "MCS", "createMissingServices": True},
        {"backend": "MCS", "failover": {}},
        {"shared": False, "failover": {}},
        *each("failover", {"detectWithin": 0}, {"detectWithin": 86401}, {"detectWithin": ""}, {"detectWithin": "0s"}),
        *each("failover", {"detectWithin": "24h1s"}, {"detectWithin": "1.5m"}, {"detectWithin": True}, {"minLocalReady": 0}),
        *each("failover", {"hysteresis": -1}, {"hysteresis": 1_000_001}),
    ],
    "ConnectivityIntent": [
        *each("action", GONE, "allow"),
        {"policyMode": "Everywhere"},
        {"source": GONE},
        {"destination": GONE},
        {"action": "Isolate"},
        {"action": "Isolate", "source": GONE, "ports": [{"port": 80}]},
        *each("source", {"name": "web"}, {}, {"selector": {}, "expressions": [], "clusters": []}, {"clusters": ["c1"]}),
        *each("destination", {}, {"selector": {}, "clusters": []}),
        *each("source", {"allNamespaces": True}, {"allNamespaces": True, "selector": {}, "expressions": []}),
        *each("source", {"allNamespaces": True, "allPods": False}, {"allNamespaces": False}),
        {"source": {"namespace": "a", "selector": {}, "allPods": False}},
        {"action": "Isolate", "source": {"namespace": "a"}},
        {"action": "Isolate", "source": {"clusters": ["c1"]}},
        *each("source", {"namespace": "a", "allPods": False}, {"namespace": "a", "allNamespaces": True, "name": "web"}),
        *each("source", {"namespace": "a", "allPods": True, "name": "web"}, {"namespace": "a", "name": "web", "selector": {"app": "x"}}),
        *each("source", {"namespace": "a", "name": ""}, {"namespace": "a", "name": "x" * 64}),
        *labelled({"reserved:host": ""}, {"any:reserved:host": ""}, {"k8s:k8s:app": "x"}, {"cidr:10.0.0.0/8": ""}, {"container:app": "x"}),
        *labelled({"k8s:": "x"}, {"k8s:io.cilium.k8s.policy.cluster": "other"}, {"any:io.kubernetes.pod.namespace": "kube-system"}),
        *labelled({"$x": ""}, {"io.cilium.k8s.policy.cluster": "other"}, {"io.kubernetes.pod.namespace": "kube-system"}),
        *expressed({"key": "app", "operator": "In"}, {"key": "app", "operator": "NotIn", "values": []}),
        *expressed({"key": "app", "operator": "Exists", "values": ["x"]}, {"key": "app", "operator": "Gt", "values": ["1"]}),
        *expressed(*({"key": key, "operator": "Exists"} for key in ("io.cilium.k8s.policy.cluster", "a:b", *_SOURCED))),
        {"source": {**_SIDE, "clusters": ["c1", "c1"]}},
        {"destination": {"allNamespaces": True, "name": "web"}},
        *each("ports", [{"port": 0}], [{"port": 65536}], [{"port": 80, "endPort": 79}], [{"endPort": 79}]),
        *each("ports", [{"protocol": "HTTP", "port": 80}], [{"protocol": "ICMP"}], [{"protocol": "ICMP", "type": 0}]),
        *each("ports", [{"protocol": "ICMPv6", "type": 128, "port": 80}], [{"protocol": "TCP", "type": 8}]),
        *each("probe", {"intervalSeconds": 9}, {"intervalSeconds": 86_401}, {"method": "ping"}, {"image": "a b"}, {"image": "x" * 513}),
        *each("probe", {"command": [""]}, {"command": ["x"] * 65}, {"command": ["x" * 513]}),
        {"action": "Isolate", "source": GONE, "probe": {"enabled": True, "method": "job"}},
    ],
    "ExposedService": [
        *each("service", GONE, {"name": "nginx"}, {"namespace": "production", "name": "../secrets"}),
        *each("port", GONE, {}, {"protocol": "TCP"}, {"number": 65536}, {"number": "80"}, {"name": "not a name"}),
        *each("port", {"number": 80, "protocol": "SCTP"}, {"number": 80, "endPort": 90}),
        *each("class", GONE, "Loadbalancer"),
        *each("sourceRanges", ["192.0.2.7"], ["192.0.2.7/24"], ["10.0.0.0/255.0.0.0"], ["::ffff:192.0.2.0/120"], ["fe80::%eth0/64"]),
        {"sourceRanges": ["192.0.2.0/24"] * 257},
        *each("clusters", {"names": ["c1", "c1"]}, {"names": ["c1"], "primary": "c2", "standby": ["c3"]}, {"primary": "c1"}),
        *each("clusters", {"standby": ["c1"]}, {"primary": "c1", "standby": []}, {"primary": "c1", "standby": ["c2", "c1"]}),
        *each("hostname", "shop", "192.0.2.7", "-a.example.com", "*.example.com", f"{_LONG}.example.com"),
        {"class": "Gateway", "hostname": "a.*.example.com"},
        {"tlsRef": {"name": "shop-tls"}},
        {"class": "Gateway", "tlsRef": {"name": "Shop"}},
        {"gatewayClassName": "edge"},
        {"class": "NodePort", "allocateLoadBalancerNodePorts": True},
    ],
    "Fabric": [
        *each("meshRefs", GONE, ["a"], [{"name": "a"}, {"name": "a"}], [{"name": "A"}], [{}]),
    ],
}

ENGINE: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [
        *each("topology", {"mode": "Pairs", "pairs": [["c1", "c9"]]}, {"mode": "Pairs", "pairs": [["c1", "c2"], ["c2", "c1"]]}),
        *({"adopt": {"reason": "a", "until": until}} for until in ("2027-02-30T00:00:00Z", "2027-01-31T25:00:00Z")),
    ],
    "GlobalService": [
        {"targetClusters": ["c9"]},
        {"shared": False, "globalAnnotations": {"service.cilium.io/shared": "true"}},
        {"globalAnnotations": {"service.cilium.io/shared": "true", "io.cilium/shared-service": "false"}},
        {"failover": {}, "globalAnnotations": {"service.cilium.io/shared": "false"}},
    ],
    "ConnectivityIntent": [
        *each("source", {**_SIDE, "clusters": ["c9"]}, {"namespace": "a", "selector": {"app": "x", "k8s:app": "y"}}),
    ],
    "ExposedService": [{"clusters": {"names": ["c9"]}}, {"sourceRanges": ["0.0.0.0/1", "128.0.0.0/1"]}],
}
"""What only the engine refuses."""

SCHEMA: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [{"clusterRefs": ["c1", "c2"]}, {"clusterRefs": GONE}],
    "GlobalService": [
        {"meshRef": GONE},
        {"selector": {"namespace": "production", "labelSelector": {"matchLabels": {"app": "nginx"}}}},
        {"selector": {"namespace": "production", "labelSelector": {f"a{n}": "x" for n in range(33)}}},
    ],
    "ConnectivityIntent": [
        {"meshRef": GONE},
        *each("ports", [{"port": "80"}], [{"port": n} for n in range(1, 258)]),
        *each("probe", {"image": "{{7*7}}"}, {"image": ""}),
    ],
    "ExposedService": [{"meshRef": GONE}, {"clusters": "all"}, {"clusters": ["c1"]}, {"clusters": []}, {"hostname": ""}],
    "Fabric": [],
}
"""What only the schema refuses."""


def examples() -> Iterator[Example]:
    """Every example of every kind."""
    taken = {kind: ({}, *_TAKEN.get(kind, ())) for kind in BASES}
    for table, engine, schema in ((taken, True, True), (_REFUSED, False, False), (ENGINE, False, True), (SCHEMA, True, False)):
        for kind, changes in table.items():
            for change in changes:
                yield Example(kind, str(change)[:120], changed(kind, change), engine, schema)
    for kind in BASES:
        yield Example(kind, "an unknown field", changed(kind, {"zzz": 1}), False, False)
        yield Example(kind, "a text", "spec", False, False)


def changed(kind: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """The least spec of the kind with other fields."""
    return copy.deepcopy({key: value for key, value in {**BASES[kind], **change}.items() if value is not GONE})


HOSTILE: Final = (
    *("{{ lookup('pipe', 'id') }}", "{% if x %}", "a\nb", "\u202egnp", "a\x1b[31mb", "x" * 65_536, "../../etc", "a b", "!!python/x"),
)
WRONG_TYPES: Final = (7, True, ["a"], {"a": "b"})


def hostile(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where and what, spec): every text of every right example, replaced by each hostile one, and by what is no text."""
    seen: set[str] = set()
    for change in ({}, *_TAKEN.get(kind, ())):
        spec = changed(kind, change)
        for path in list(_texts(spec)):
            where = ".".join(str(part) for part in path if isinstance(part, str))
            if where in seen or where == "probe.command":  # arguments of a program: any text, and the one place for it
                continue
            seen.add(where)
            for value in (*HOSTILE, *WRONG_TYPES):
                if (where, value) != ("failover.detectWithin", 7) and not (where.endswith("reason") and value == "a b"):
                    yield f"{where} = {str(value)[:30]!r}", _replaced(spec, path, value)


def _texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _texts(inner, (*path, key))


def _replaced(spec: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(spec)
    place: Any = found
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return found
