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

_TAKEN: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [
        {"topology": {}},
        {"topology": {"hubs": [], "pairs": []}, "meshConfig": {}},
        {"meshConfig": {"hubble": {}}},
        {"topology": {"mode": "HubAndSpoke", "hubs": ["c1"]}},
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c2"], ["c2", "c3"]]}},
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
        {"failover": {"detectWithin": "1m30s", "minLocalReady": 2, "hysteresis": 1}},
        {"failover": {"detectWithin": 86400}},
        {"failover": {}},
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
        {"ports": []},
        {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]},
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
        {"clusters": {"names": [], "standby": []}},
        {"clusters": {"names": ["c1"], "standby": []}},
        {"clusters": {"primary": "c1", "standby": ["c2"], "names": []}},
    ],
    "Fabric": [{"meshRefs": [{"name": "a"}, {"name": "b.c"}]}],
}

_LONG: Final = ".".join(["a" * 60] * 5)
_REFUSED: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [
        {"clusterRefs": [{"name": "c1"}]},
        {"clusterRefs": [{"name": "c1"}, {"name": "c1"}]},
        {"clusterRefs": [{"name": "c1"}, {}]},
        {"clusterRefs": "c1,c2"},
        {"clusterRefs": [{"name": "c1"}, {"name": "C2"}]},
        {"clusterRefs": [{"name": "c1"}, {"name": "a" * 64}]},
        {"topology": {"mode": "Star"}},
        {"topology": {"mode": "HubAndSpoke"}},
        {"topology": {"mode": "HubAndSpoke", "hubs": []}},
        {"topology": {"mode": "HubAndSpoke", "hubs": ["c1", "c1"]}},
        {"topology": {"mode": "HubAndSpoke", "hubs": ["c9"]}},
        {"topology": {"hubs": ["c1"]}},
        {"topology": {"mode": "Pairs", "hubs": ["c1"], "pairs": [["c1", "c2"]]}},
        {"topology": {"mode": "Pairs"}},
        {"topology": {"mode": "Pairs", "pairs": [["c1"]]}},
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c1"]]}},
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c2", "c3"]]}},
        {"meshConfig": {"serviceType": "ClusterIP"}},
        {"meshConfig": {"enableKvStoreMesh": "yes"}},
        {"meshConfig": {"hubble": True}},
        {"trust": "same_ca"},
        {"nodeAddresses": "Hostname"},
        {"accept": [_WAIVED]},
        {"accept": [{"code": "CIDR-02", **_WAIVED}]},
        {"accept": [{"code": "CM-CIDR-02", "until": "2027-01-31T00:00:00Z"}]},
        {"accept": [{"code": "CM-CIDR-02", "reason": "", "until": "2027-01-31T00:00:00Z"}]},
        {"accept": [{"code": "CM-CIDR-02", **_WAIVED}, {"code": "CM-CIDR-02", **_WAIVED}]},
        {"takeBack": [{"cluster": "c9", **_WAIVED}]},
        {"takeBack": [{"cluster": "c1", **_WAIVED}, {"cluster": "c1", **_WAIVED}]},
        {"repair": True},
        {"repair": {"reason": "a"}},
        *({"adopt": {"reason": "a", "until": until}} for until in ("", "2027-01-31", "tomorrow", "2027-01-31T00:00:00")),
    ],
    "GlobalService": [
        {"selector": GONE},
        {"selector": {"name": "nginx"}},
        {"selector": {"namespace": "production"}},
        {"selector": {"namespace": "production", "labelSelector": {}}},
        {"selector": {"namespace": "production", "name": "nginx", "labelSelector": {"k8s:app": "nginx"}}},
        {"selector": {"namespace": "production", "labelSelector": {"a b": "x"}}},
        {"selector": {"namespace": "production", "labelSelector": {"app": "-x"}}},
        {"selector": {"namespace": "production", "labelSelector": {"app": 1}}},
        {"selector": {"namespace": "production", "labelSelector": {"x" * 64: "x"}}},
        {"selector": {"namespace": "production", "labelSelector": {"a/b/c": "x"}}},
        {"selector": {"namespace": "Production", "name": "nginx"}},
        {"selector": {"namespace": "production", "name": "a.b"}},
        {"selector": {"namespace": "production", "name": "a" * 64}},
        {"targetClusters": ["c1", "c1"]},
        {"targetClusters": ["C1"]},
        {"globalAnnotations": {"service.cilium.io/global": "false"}},
        {"globalAnnotations": {"io.cilium/global-service": "yes"}},
        {"globalAnnotations": {"io.cilium/service-affinity": "true"}},
        {"globalAnnotations": {"example.com/a b": "x"}},
        {"globalAnnotations": {"example.com/team": "{{ 7 }}"}},
        {"globalAnnotations": {"example.com/team": "x" * 1025}},
        {"globalAnnotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        {"globalAnnotations": {"service.cilium.io/shared": "local"}},
        {"globalAnnotations": {"service.cilium.io/affinity": "true"}},
        {"globalAnnotations": {"service.cilium.io/shared": True}},
        {"shared": "true"},
        {"affinity": "local"},
        {"backend": "Clustermesh"},
        {"backend": "MCS", "shared": False},
        {"backend": "MCS", "createMissingServices": True},
        {"backend": "MCS", "failover": {}},
        {"shared": False, "failover": {}},
        {"failover": {"detectWithin": 0}},
        {"failover": {"detectWithin": 86401}},
        {"failover": {"detectWithin": ""}},
        {"failover": {"detectWithin": "0s"}},
        {"failover": {"detectWithin": "24h1s"}},
        {"failover": {"detectWithin": "1.5m"}},
        {"failover": {"detectWithin": True}},
        {"failover": {"minLocalReady": 0}},
        {"failover": {"hysteresis": -1}},
        {"failover": {"hysteresis": 1_000_001}},
    ],
    "ConnectivityIntent": [
        {"action": GONE},
        {"action": "allow"},
        {"policyMode": "Everywhere"},
        {"source": GONE},
        {"destination": GONE},
        {"action": "Isolate"},
        {"action": "Isolate", "source": GONE, "ports": [{"port": 80}]},
        {"source": {"name": "web"}},
        {"source": {}},
        {"source": {"selector": {}, "expressions": [], "clusters": []}},
        {"source": {"clusters": ["c1"]}},
        {"destination": {}},
        {"destination": {"selector": {}, "clusters": []}},
        {"source": {"allNamespaces": True}},
        {"source": {"allNamespaces": True, "selector": {}, "expressions": []}},
        {"source": {"allNamespaces": True, "allPods": False}},
        {"source": {"allNamespaces": False}},
        {"source": {"namespace": "a", "selector": {}, "allPods": False}},
        {"action": "Isolate", "source": {"namespace": "a"}},
        {"action": "Isolate", "source": {"clusters": ["c1"]}},
        {"source": {"namespace": "a", "allPods": False}},
        {"source": {"namespace": "a", "allNamespaces": True, "name": "web"}},
        {"source": {"namespace": "a", "allPods": True, "name": "web"}},
        {"source": {"namespace": "a", "name": "web", "selector": {"app": "x"}}},
        {"source": {"namespace": "a", "name": ""}},
        {"source": {"namespace": "a", "name": "x" * 64}},
        {"source": {"namespace": "a", "selector": {"reserved:host": ""}}},
        {"source": {"namespace": "a", "selector": {"any:reserved:host": ""}}},
        {"source": {"namespace": "a", "selector": {"k8s:k8s:app": "x"}}},
        {"source": {"namespace": "a", "selector": {"cidr:10.0.0.0/8": ""}}},
        {"source": {"namespace": "a", "selector": {"container:app": "x"}}},
        {"source": {"namespace": "a", "selector": {"k8s:": "x"}}},
        {"source": {"namespace": "a", "selector": {"k8s:io.cilium.k8s.policy.cluster": "other"}}},
        {"source": {"namespace": "a", "selector": {"any:io.kubernetes.pod.namespace": "kube-system"}}},
        {"source": {"namespace": "a", "selector": {"$x": ""}}},
        {"source": {"namespace": "a", "selector": {"io.cilium.k8s.policy.cluster": "other"}}},
        {"source": {"namespace": "a", "selector": {"io.kubernetes.pod.namespace": "kube-system"}}},
        {"source": {"namespace": "a", "expressions": [{"key": "app", "operator": "In"}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "app", "operator": "NotIn", "values": []}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "io.cilium.k8s.policy.cluster", "operator": "Exists"}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "a:b", "operator": "Exists"}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "k8s:io.cilium.k8s.policy.cluster", "operator": "Exists"}]}},
        {"source": {"namespace": "a", "expressions": [{"key": "any:io.kubernetes.pod.namespace", "operator": "Exists"}]}},
        {"source": {**_SIDE, "clusters": ["c1", "c1"]}},
        {"destination": {"allNamespaces": True, "name": "web"}},
        {"ports": [{"port": 0}]},
        {"ports": [{"port": 65536}]},
        {"ports": [{"port": 80, "endPort": 79}]},
        {"ports": [{"endPort": 79}]},
        {"ports": [{"protocol": "HTTP", "port": 80}]},
        {"ports": [{"protocol": "ICMP"}]},
        {"ports": [{"protocol": "ICMP", "type": 0}]},
        {"ports": [{"protocol": "ICMPv6", "type": 128, "port": 80}]},
        {"ports": [{"protocol": "TCP", "type": 8}]},
        {"probe": {"intervalSeconds": 9}},
        {"probe": {"intervalSeconds": 86_401}},
        {"probe": {"method": "ping"}},
        {"probe": {"image": "a b"}},
        {"probe": {"image": "x" * 513}},
        {"probe": {"command": [""]}},
        {"probe": {"command": ["x"] * 65}},
        {"probe": {"command": ["x" * 513]}},
        {"action": "Isolate", "source": GONE, "probe": {"enabled": True, "method": "job"}},
    ],
    "ExposedService": [
        {"service": GONE},
        {"service": {"name": "nginx"}},
        {"service": {"namespace": "production", "name": "../secrets"}},
        {"port": GONE},
        {"port": {}},
        {"port": {"protocol": "TCP"}},
        {"port": {"number": 65536}},
        {"port": {"number": "80"}},
        {"port": {"name": "not a name"}},
        {"port": {"number": 80, "protocol": "SCTP"}},
        {"port": {"number": 80, "endPort": 90}},
        {"class": GONE},
        {"class": "Loadbalancer"},
        {"sourceRanges": ["192.0.2.7"]},
        {"sourceRanges": ["192.0.2.7/24"]},
        {"sourceRanges": ["10.0.0.0/255.0.0.0"]},
        {"sourceRanges": ["::ffff:192.0.2.0/120"]},
        {"sourceRanges": ["fe80::%eth0/64"]},
        {"sourceRanges": ["192.0.2.0/24"] * 257},
        {"clusters": {"names": ["c1", "c1"]}},
        {"clusters": {"names": ["c1"], "primary": "c2", "standby": ["c3"]}},
        {"clusters": {"primary": "c1"}},
        {"clusters": {"standby": ["c1"]}},
        {"clusters": {"primary": "c1", "standby": []}},
        {"clusters": {"primary": "c1", "standby": ["c2", "c1"]}},
        {"hostname": "shop"},
        {"hostname": "192.0.2.7"},
        {"hostname": "-a.example.com"},
        {"hostname": "*.example.com"},
        {"hostname": f"{_LONG}.example.com"},
        {"class": "Gateway", "hostname": "a.*.example.com"},
        {"tlsRef": {"name": "shop-tls"}},
        {"class": "Gateway", "tlsRef": {"name": "Shop"}},
        {"gatewayClassName": "edge"},
        {"class": "NodePort", "allocateLoadBalancerNodePorts": True},
    ],
    "Fabric": [
        {"meshRefs": GONE},
        {"meshRefs": ["a"]},
        {"meshRefs": [{"name": "a"}, {"name": "a"}]},
        {"meshRefs": [{"name": "A"}]},
        {"meshRefs": [{}]},
    ],
}

ENGINE: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ClusterMeshBinding": [
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c9"]]}},
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c2"], ["c2", "c1"]]}},
        *({"adopt": {"reason": "a", "until": until}} for until in ("2027-02-30T00:00:00Z", "2027-01-31T25:00:00Z")),
    ],
    "GlobalService": [
        {"targetClusters": ["c9"]},
        {"shared": False, "globalAnnotations": {"service.cilium.io/shared": "true"}},
        {"globalAnnotations": {"service.cilium.io/shared": "true", "io.cilium/shared-service": "false"}},
        {"failover": {}, "globalAnnotations": {"service.cilium.io/shared": "false"}},
    ],
    "ConnectivityIntent": [
        {"source": {**_SIDE, "clusters": ["c9"]}},
        {"source": {"namespace": "a", "selector": {"app": "x", "k8s:app": "y"}}},
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
        {"ports": [{"port": "80"}]},
        {"ports": [{"port": n} for n in range(1, 258)]},
        {"probe": {"image": "{{7*7}}"}},
        {"probe": {"image": ""}},
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
    "{{ lookup('pipe', 'id') }}",
    "{% if x %}",
    "a\nb",
    "\u202egnp",
    "a\x1b[31mb",
    "x" * 65_536,
    "../../etc",
    "a b",
    "!!python/x",
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
