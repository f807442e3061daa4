# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the spec of a ConnectivityIntent into ``items.models.ConnectivityIntent``.

No omission means everything: an empty list, or a forgotten selector, is refused, because it would open or cut off more than its
author intended. Every pod, and every namespace, is selected explicitly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.input_problems import Problems, child_path, is_list, quoted, suggest
from ..base.structure import Reader
from ..items.models import ConnectivityIntent, LabelRequirement, PodSelection, Probe
from ..mesh.schemas import SPECS
from .parse_ports import parse_ports
from .parse_selectors import parse_expressions, parse_labels

_ALL_PODS: Final = "it would select every pod; write allPods: true if that is intended"
_HINTS: Final = {
    **{f"{side}.selector": _ALL_PODS for side in ("source", "destination")},
    **{f"{side}.expressions": "it selects nothing by itself; remove it, or name requirements" for side in ("source", "destination")},
    **{f"{side}.clusters": "name clusters, or leave it out to mean all members of the mesh" for side in ("source", "destination")},
    "ports": "name ports, or leave it out to mean all of them",
    "probe.command": "name a program, or leave it out for the built-in one",
}
_DIGITS: Final = 5  # of the largest number that a field of an intent takes


def parse_intent(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> ConnectivityIntent | None:
    """Parse the spec of a ConnectivityIntent. See ``KindRow`` (reconcile/kinds.py)."""
    before = len(problems.found)
    given = Reader(problems, _HINTS).read(SPECS["ConnectivityIntent"], _with_numbers(spec))
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
    everywhere, everything = given.get("allNamespaces", False), given.get("allPods", False)
    if "namespace" not in given and not everywhere:
        problems.add(f"{path}.namespace", "is missing; name the namespace, or write allNamespaces: true")
    if "namespace" in given and everywhere:
        problems.add(f"{path}.namespace", "stands beside allNamespaces: true; keep one of the two")
    labels, expressions = _selector(problems, path, given, everything)
    return PodSelection(
        namespace=given.get("namespace", ""),
        labels=labels,
        expressions=expressions,
        clusters=_clusters(problems, f"{path}.clusters", given.get("clusters"), members),
        all_pods=everything,
        all_namespaces=everywhere,
    )


def _selector(
    problems: Problems, path: str, given: Mapping[str, Any], everything: bool
) -> tuple[dict[str, str], tuple[LabelRequirement, ...]]:
    """Parse labels and expressions of a side: from ``name``, or ``selector`` and ``expressions``; none when all pods are meant."""
    there = [key for key in ("name", "selector", "expressions") if key in given]
    if everything and there:
        problems.add(child_path(path, "allPods"), f"stands beside {' and '.join(there)}; keep either")
    elif "name" in there and len(there) > 1:
        problems.add(
            child_path(path, "name"), f"stands beside {' and '.join(there[1:])}; name: x is short for the label app: x, so keep either"
        )
    elif not there and not everything:
        problems.add(path, "selects every pod, because it has no name, selector or expressions; write allPods: true if that is intended")
    if "name" in there:
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
