# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the spec of a ConnectivityIntent into ``items.models.ConnectivityIntent``.

A side with a namespace and nothing else is every pod of that namespace; every namespace is selected explicitly. An empty list or mapping
is the same as an absent one (base/structure.py; decision 0052).

Tenants write labels and expressions, so these must not reach beyond the labels of pods. Cilium keeps namespace, cluster, service account
and the labels of namespaces as labels of the same identity, and reads a source before a colon of the key (pkg/labels, parseSource). A
key of that kind would extend an intent to another namespace or cluster than it names. The sources ``k8s:`` and ``any:`` name the labels of
pods themselves, and are taken off before a key is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..base.input_problems import Problems, child_path, is_list, json_type_name, quoted, suggest
from ..base.structure import SchemaReader
from ..items.labels import valid_key
from ..items.models import ConnectivityIntent, LabelRequirement, PodSelection, PortRule, Probe
from ..mesh.binding.schemas import SPECS

WITH_VALUES: Final = ("In", "NotIn")

OF_CILIUM: Final = ("io.cilium.", "io.kubernetes.")
"""Prefixes of the keys that Cilium gives identities itself (pkg/k8s/apis/cilium.io/const.go)."""

SOURCES: Final = ("k8s:", "any:")
"""Sources that a key may have: pods of Kubernetes have labels of source k8s, and any: matches these among others (pkg/labels/labels.go)."""

ICMP: Final = ("ICMP", "ICMPv6")
_DIGITS: Final = 5  # of the largest number that a field of an intent takes


def parse_intent(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> ConnectivityIntent | None:
    """Parse the spec of a ConnectivityIntent. See ``KindRow`` (reconcile/kinds.py)."""
    before = len(problems.found)
    given = SchemaReader(problems).read(SPECS["ConnectivityIntent"], _with_numbers(spec))
    if len(problems.found) > before:
        return None
    action, mode = given["action"], given["policyMode"]
    isolate = action == "Isolate"
    for key in ("source", "ports"):
        if isolate and key in given:
            problems.add(key, "does not belong to action Isolate, which cuts the destination off from every source; remove it")
    if not isolate and "source" not in given:
        keys = SPECS["ConnectivityIntent"]["properties"]["source"]["properties"]
        problems.add("source", f"is missing; it is a mapping with the keys {', '.join(keys)}")
    source = _side(problems, "source", given["source"], members) if "source" in given and not isolate else None
    destination = _side(problems, "destination", given["destination"], members)
    ports = () if isolate else parse_ports(problems, "ports", given.get("ports", ()))
    probe = _probe(problems, given.get("probe"), isolate)
    if mode == "Namespaced" and destination.all_namespaces:
        problems.add(
            "destination.allNamespaces", "a policy of mode Namespaced selects pods of its own namespace; use policyMode: Clusterwide"
        )
    if len(problems.found) > before:
        return None
    return ConnectivityIntent(name=name, action=action, mode=mode, source=source, destination=destination, ports=ports, probe=probe)


def _with_numbers(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec with numbers where digits stand in a text, as templates make them."""
    if not isinstance(spec, Mapping):
        return spec
    ports, probe = spec.get("ports"), spec.get("probe")
    found = dict(spec)
    if is_list(ports):
        found["ports"] = [_numbers(entry, ("port", "endPort", "type")) for entry in ports or ()]
    if probe is not None:
        found["probe"] = _numbers(probe, ("intervalSeconds",))
    return found


def _numbers(entry: Any, keys: tuple[str, ...]) -> Any:
    def number(value: Any) -> Any:
        digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _DIGITS
        return int(value) if digits else value

    return {key: number(value) if key in keys else value for key, value in entry.items()} if isinstance(entry, Mapping) else entry


def _side(problems: Problems, path: str, given: Mapping[str, Any], members: tuple[str, ...]) -> PodSelection:
    everywhere = given.get("allNamespaces", False)
    if "namespace" not in given and not everywhere:
        problems.add(f"{path}.namespace", "is missing; name the namespace, or write allNamespaces: true")
    if "namespace" in given and everywhere:
        problems.add(f"{path}.namespace", "stands beside allNamespaces: true; keep one of the two")
    labels, expressions = _selector(problems, path, given)
    return PodSelection(
        namespace=given.get("namespace", ""),
        labels=labels,
        expressions=expressions,
        clusters=_clusters(problems, f"{path}.clusters", given.get("clusters"), members),
        all_pods=not (labels or expressions),  # allPods: true, or a namespace alone
        all_namespaces=everywhere,
    )


def _selector(problems: Problems, path: str, given: Mapping[str, Any]) -> tuple[dict[str, str], tuple[LabelRequirement, ...]]:
    """Parse labels and expressions of a side: from ``name``, or ``selector`` and ``expressions``; none when all pods are meant."""
    everything = given.get("allPods")
    ways = [key for key in ("name", "selector", "expressions") if key in given]
    if everything and ways:
        problems.add(child_path(path, "allPods"), f"stands beside {' and '.join(ways)}; keep either")
    elif "name" in ways and len(ways) > 1:
        problems.add(
            child_path(path, "name"), f"stands beside {' and '.join(ways[1:])}; name: x is short for the label app: x, so keep either"
        )
    elif not ways and everything is None and given.get("allNamespaces", False):
        problems.add(
            path, "selects every pod of every namespace; write allPods: true if that is intended, or name, selector or expressions"
        )
    elif not ways and everything is False:
        problems.add(path, "has allPods: false and no name, selector or expressions; add one, or leave allPods out to select every pod")
    if "name" in ways:
        return {"app": given["name"]}, ()
    labels = parse_labels(problems, child_path(path, "selector"), given.get("selector", {}))
    return labels, parse_expressions(problems, child_path(path, "expressions"), given.get("expressions", ()))


def _clusters(problems: Problems, path: str, given: list[str] | None, members: tuple[str, ...]) -> tuple[str, ...]:
    """Parse inventory names; all members if the value is absent."""
    if given is None:
        return members
    for place, name in enumerate(given):
        if name not in members:
            problems.add(f"{path}[{place}]", f"{quoted(name)} is no member of the mesh; {suggest(name, members, 'its members are')}")
        elif name in given[:place]:
            problems.add(f"{path}[{place}]", f"{quoted(name)} is named twice")
    return tuple(host for host in members if host in given)


def _probe(problems: Problems, given: Mapping[str, Any] | None, isolate: bool) -> Probe:
    if given is None:
        return Probe()
    image, method = given.get("image", ""), given["method"]
    if any(not c.isprintable() or c.isspace() for c in image):
        problems.add("probe.image", f"{quoted(image)} is not the reference of an image")
    if given["enabled"] and isolate and method == "job":
        problems.add("probe.method", "an intent of action Isolate has no source that a Job could try; use hubble or auto")
    return Probe(
        enabled=given["enabled"],
        interval_seconds=given["intervalSeconds"],
        method=method,
        image=image,
        command=tuple(given.get("command", ())),
    )


def parse_ports(problems: Problems, path: str, given: Sequence[Mapping[str, Any]]) -> tuple[PortRule, ...]:
    """Return the entries in the order they are written, each once; () if there are none, which means all ports."""
    found: dict[PortRule, None] = {}
    for place, item in enumerate(given):
        where, before = f"{path}[{place}]", len(problems.found)
        entry = (_icmp if item["protocol"] in ICMP else _transport)(problems, where, item)
        if len(problems.found) == before:
            found[entry] = None
    return tuple(found)


def _icmp(problems: Problems, path: str, given: Mapping[str, Any]) -> PortRule:
    protocol = given["protocol"]
    for key in ("port", "endPort"):
        if key in given:
            problems.add(f"{path}.{key}", f"{protocol} has types, not ports; use type")
    if "type" not in given:
        echo = {"ICMP": 8, "ICMPv6": 128}[protocol]
        problems.add(f"{path}.type", f"is missing; a policy names each type of {protocol}, such as {echo} for echo requests")
    # Type 0 is refused by the schema: it would be read as every type (see compile.py), and replies to what was let in need no rule.
    return PortRule(protocol=protocol, icmp_type=given.get("type", 0))


def _transport(problems: Problems, path: str, given: Mapping[str, Any]) -> PortRule:
    protocol, first, last = given["protocol"], given.get("port", 0), given.get("endPort", 0)
    if "type" in given:
        problems.add(f"{path}.type", f"belongs to ICMP and ICMPv6, and the protocol is {protocol}")
    if last and not first:
        problems.add(f"{path}.port", "is missing; endPort is the end of a range that begins there")
    elif last and last < first:
        problems.add(f"{path}.endPort", f"{last} is less than port {first}")
    return PortRule(protocol=protocol, port=first, end_port=last if last != first else 0)


def parse_labels(problems: Problems, path: str, given: Mapping[str, str]) -> dict[str, str]:
    """Parse a mapping of labels into keys without source; keys that are not valid are added to ``problems``."""
    found: dict[str, str] = {}
    for written, value in given.items():
        key = _pod_label(problems, child_path(path, written), written)
        if found.setdefault(key, value) != value:
            problems.add(
                child_path(path, written), f"contradicts the same key with another source: {quoted(found[key])} and {quoted(value)}"
            )
    return found


def parse_expressions(problems: Problems, path: str, given: Sequence[Mapping[str, Any]]) -> tuple[LabelRequirement, ...]:
    """Parse the requirements of a label selector, all of which have to hold; errors are added to ``problems``."""
    return tuple(_requirement(problems, f"{path}[{place}]", item) for place, item in enumerate(given))


def _requirement(problems: Problems, path: str, given: Mapping[str, Any]) -> LabelRequirement:
    operator, values = given["operator"], given.get("values", [])
    key = _pod_label(problems, f"{path}.key", given["key"])
    if operator in WITH_VALUES and not values:
        problems.add(f"{path}.values", f"has no value; {operator} needs some")
    elif operator not in WITH_VALUES and values:
        problems.add(f"{path}.values", f"{operator} takes no values; remove them")
    return LabelRequirement(key=key, operator=operator, values=tuple(values))


def _pod_label(problems: Problems, path: str, written: Any) -> str:
    """Return the key of a label as pods have it; what no pod has, or what Cilium sets itself, is added to ``problems``."""
    if not isinstance(written, str):
        problems.add(path, f"the key of a label must be a text, not {json_type_name(written)}")
        return ""
    key = next((written.removeprefix(source) for source in SOURCES if written.startswith(source)), str(written))
    if ":" in key or key.startswith("$"):
        problems.add(path, f"{quoted(written)} names a source other than k8s; write the key of the pod's label alone, as the pod has it")
    elif key.startswith(OF_CILIUM):
        problems.add(path, f"{quoted(written)} is a label that Cilium sets itself; use namespace and clusters")
    elif not valid_key(key):
        problems.add(path, f"{quoted(written)} is not the key of a label")
    return key
