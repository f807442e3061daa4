# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of input: what users write, right and wrong, in the variable, in custom resources and in filters, and what they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ansible.errors import AnsibleFilterError

from tests.testing.crd_examples import examples, hostile
from tests.testing.traffic_builders import NAMESPACE

from .adapter import Json, filters, parsed_items, parsed_mesh, plain, still

HOSTS: Final = ("c1", "c2", "c3")
LISTS: Final = {"GlobalService": "globalServices", "ConnectivityIntent": "connectivityIntents", "ExposedService": "exposedServices"}
VALUES: Final[tuple[Any, ...]] = (None, "", "x", "X y", 0, -1, 7, 1.5, True, [], ["c1"], ["c9"], [1], {}, {"name": "c1"}, {"x": 1})
BINDING_KEYS: Final = ("name", "clusterRefs", "topology", "meshConfig", "workspace", "namespace", "generation", "nmae")
TOPOLOGIES: Final[tuple[Any, ...]] = (
    {"mode": "FullMesh"},
    {"mode": "fullmesh"},
    {"mode": 1},
    {"hub": ["c1"]},
    {"hubs": ["c1"]},
    {"mode": "HubAndSpoke"},
    {"mode": "HubAndSpoke", "hubs": "c1"},
    {"mode": "HubAndSpoke", "hubs": ["c1", "c1"]},
    {"mode": "HubAndSpoke", "hubs": ["c9", None]},
    {"mode": "Pairs", "pairs": []},
    {"mode": "Pairs", "pairs": "c1"},
    {"mode": "Pairs", "pairs": [["c1"], ["c1", "c1"], ["c1", "C2"], "c1,c2", ["c1", "c2"], ["c2", "c1"]]},
)
BASES: Final[dict[str, Json]] = {
    "globalServices": {"selector": {"namespace": NAMESPACE, "name": "nginx"}},
    "connectivityIntents": {
        "action": "Allow",
        "source": {"namespace": NAMESPACE, "name": "web"},
        "destination": {"namespace": NAMESPACE, "name": "nginx"},
    },
    "exposedServices": {"service": {"namespace": NAMESPACE, "name": "nginx"}, "port": {"number": 80}, "class": "LoadBalancer"},
}
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "globalServices": (
        *("name", "selector", "targetClusters", "globalAnnotations", "shared", "affinity", "backend", "createMissingServices"),
        *("failover", "failover.detectWithin", "failover.minLocalReady", "failover.hysteresis", "selector.labelSelector", "target"),
        *("meshRef", "generation"),
    ),
    "connectivityIntents": (
        *(
            *("name", "action", "source", "destination", "ports", "policyMode", "probe", "probe.enabled", "probe.method"),
            "probe.intervalSeconds",
        ),
        *("source.clusters", "source.selector", "source.expressions", "source.allPods", "destination.cidr", "icmp", "acton"),
    ),
    "exposedServices": (
        *("name", "service", "service.name", "port", "port.number", "port.name", "port.protocol", "class", "clusters", "clusters.names"),
        *("clusters.primary", "clusters.standby", "hostname", "tlsRef", "gatewayClassName", "allocateLoadBalancerNodePorts"),
        *("sourceRanges", "createdAt", "annotations"),
    ),
}
WORDS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("globalServices", "selector", {"namespace": "Production", "name": "a" * 64}),
    ("globalServices", "selector", {"namespace": "production", "name": "nginx", "labelSelector": {"a": "b"}}),
    ("globalServices", "globalAnnotations", {"service.cilium.io/global": "false", "example.com/x": "y", "service.cilium.io/shared": "yes"}),
    ("globalServices", "failover", {"detectWithin": "soon", "minLocalReady": 0, "hysteresis": -1, "speed": 1}),
    ("globalServices", "backend", "MCS"),
    ("globalServices", "affinity", "local"),
    (
        "connectivityIntents",
        "ports",
        [{"protocol": "TCP", "port": 0}, {"protocol": "tcp", "port": 80}, {"port": "http"}, {"port": 80, "endPort": 9}],
    ),
    ("connectivityIntents", "action", "allow"),
    ("connectivityIntents", "policyMode", "clusterwide"),
    ("connectivityIntents", "probe", {"enabled": True, "method": "ping", "intervalSeconds": 1, "image": "a b"}),
    ("exposedServices", "hostname", "192.0.2.1"),
    ("exposedServices", "hostname", "*.example.com"),
    ("exposedServices", "hostname", "a..example.com"),
    ("exposedServices", "class", "Loadbalancer"),
    ("exposedServices", "port", {"number": 65536, "endPort": 90}),
    ("exposedServices", "sourceRanges", ["10.0.0.1/8", "192.0.2.7", "10.0.0.0/33", "fe80::%eth0/64", "all", 10, None]),
    ("exposedServices", "sourceRanges", ["0.0.0.0/1", "128.0.0.0/1"]),
    ("exposedServices", "clusters", ["c1", "c1", "c9"]),
    ("exposedServices", "clusters", {"primary": "c1", "standby": ["c1"]}),
    ("exposedServices", "createdAt", "2026-04-21T10:00:00"),
)


def meshes() -> dict[str, Any]:
    """Return what the variable means, or what its writer reads."""
    found: dict[str, Any] = {}
    with still():
        for value in (*VALUES, {"bindings": {}}, {"globalService": []}, {"binding": {1: 2}}):
            found[f"cilium_mesh {value!r}"] = parsed_mesh(value, HOSTS)
        for key in BINDING_KEYS:
            for value in VALUES:
                found[f"binding.{key} {value!r}"] = parsed_mesh({"binding": {key: value}}, HOSTS)
        for topology in TOPOLOGIES:
            found[f"topology {topology!r}"] = parsed_mesh({"binding": {"topology": topology}}, HOSTS)
        for value in VALUES:
            for key in ("serviceType", "enableKvStoreMesh", "hubble", "servicetype"):
                found[f"meshConfig.{key} {value!r}"] = parsed_mesh({"binding": {"meshConfig": {key: value}}}, HOSTS)
        refs = (
            ["c1", 7],
            ["c1", {}],
            ["c1", "c2", "c1"],
            ["c1", "paris"],
            ["c1", {"name": "C2"}],
            ["c1"],
            ["c1", {"name": "c2", "weight": 1}],
        )
        for value in refs:
            found[f"clusterRefs {value!r}"] = parsed_mesh({"binding": {"clusterRefs": value}}, HOSTS)
        for inventory in ([], ["c1"], ["c1", "C_2"], [f"host-{number:03}" for number in range(255)]):
            found[f"inventory of {len(inventory)}"] = parsed_mesh(
                {"binding": {"clusterRefs": ["paris", "c1"]}} if len(inventory) > 9 else None, inventory
            )
    return found


def item_specs() -> dict[str, Any]:
    """Return what becomes of an item in which one field has another value, and of every example of the custom resources."""
    found: dict[str, Any] = {}
    with still():
        for kind, fields in FIELDS.items():
            for field in fields:
                for value in VALUES:
                    found[f"{kind} {field} {value!r}"] = parsed_items({kind: [_with(BASES[kind], field, value)]}, HOSTS)
        for kind, field, value in WORDS:
            found[f"{kind} {field} {value!r}"] = parsed_items({kind: [_with(BASES[kind], field, value)]}, HOSTS)
        for kind in FIELDS:
            for value in VALUES:
                found[f"{kind} {value!r}"] = parsed_items({kind: value}, HOSTS)
                found[f"{kind} [{value!r}]"] = parsed_items({kind: [value]}, HOSTS)
            found[f"{kind} twice"] = parsed_items({kind: [{"name": "a", **BASES[kind]}] * 2}, HOSTS)
        for place, example in enumerate(examples()):
            if example.kind in LISTS:
                spec = dict(example.spec.items()) if isinstance(example.spec, dict) else example.spec
                raw = [{**spec, "name": "item"}] if isinstance(spec, dict) else [spec]
                found[f"example {place} {example.kind} {example.about}"] = parsed_items({LISTS[example.kind]: raw}, HOSTS)
        for kind, listed in LISTS.items():
            for place, (about, spec) in enumerate(hostile(kind)):
                if place % 7 == 0:
                    found[f"hostile {place} {kind} {about!a}"] = parsed_items({listed: [{**spec, "name": "item"}]}, HOSTS)
    return found


def _with(base: Json, field: str, value: Any) -> Json:
    """Return the item with one field, which may lie deeper, changed."""
    first, _dot, rest = field.partition(".")
    inner = base.get(first)
    changed = _with(inner if isinstance(inner, dict) else {}, rest, value) if rest else value
    return {"name": "item", **base, first: changed} if "name" not in base or first == "name" else {**base, first: changed}


def filter_calls() -> dict[str, Any]:
    """Return the values and the errors of the filters."""
    known = filters()
    found: dict[str, Any] = {}
    with still():
        for version in ("1.14.0", "1.15.3", "1.16.19", "1.17.9", "1.18.11", "1.19.5", "1.20.1", "1.21.0", "1.2", 1.2):
            for trust in ("same_ca", "minted", "copied", "blind"):
                options: Json = {"version": version, "ips": ["192.0.2.12", "2001:db8::1"], "trust": trust, "trust_sha256": "0" * 64}
                found[f"peer_config {version} {trust}"] = _called(known["peer_config"], "ber-2", **options)
            found[f"peer_config {version} by name"] = _called(
                known["peer_config"], "ber-2", version=version, hostname="mesh.example.com", port=32379
            )
            for action in ("Allow", "Deny", "Isolate", "allow"):
                intent = {"name": "a", **BASES["connectivityIntents"], "action": action}
                intent = {k: v for k, v in intent.items() if action != "Isolate" or k != "source"}
                names = {"c1": "ffm-1", "c2": "ber-2"}
                found[f"cilium_policy {version} {action}"] = _called(known["cilium_policy"], intent, clusters=names, version=version)
        for options in ({"ips": "192.0.2.1"}, {"ips": ["x"]}, {"port": "x"}, {"port": 0}, {"hostname": "a b"}):
            found[f"peer_config {options!r}"] = _called(known["peer_config"], "ber-2", version="1.20.1", **options)
        for value in (*VALUES, *(_with(BASES["globalServices"], "affinity", entry) for entry in ("Local", "Remote", "None", "near"))):
            found[f"service_annotations {value!r}"] = _called(known["service_annotations"], value)
            found[f"plan_markdown {value!r}"] = _called(known["plan_markdown"], value)
            found[f"cilium_policy {value!r}"] = _called(known["cilium_policy"], value, clusters={"c1": "a"}, version="1.20.1")
            found[f"peer_config {value!r}"] = _called(known["peer_config"], value, version="1.20.1")
    return found


def _called(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return {"value": plain(function(*args, **options))}
    except AnsibleFilterError as error:
        return {"msg": str(error)}
