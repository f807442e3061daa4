# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of a ConnectivityIntent -> ``items.models.ConnectivityIntent``.

Nothing means everything by itself: a list that came out empty, or a selector that was forgotten, is refused, because it would open or
cut off more than its author saw. Every pod, and every namespace, is asked for in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..items.models import ConnectivityIntent, LabelRequirement, PodSelection, Probe
from ..problems import LABEL, Problems, is_empty, items_of, join, kind_of, shown, suggest
from .parse_ports import number_of, parse_ports
from .parse_selectors import parse_expressions, parse_labels

ACTIONS: Final = ("Allow", "Deny", "Isolate")
MODES: Final = ("Namespaced", "Clusterwide")
PROBE_METHODS: Final = ("auto", "hubble", "job")
PROBE_INTERVAL: Final = (10, 86_400)  # seconds; a probe sends traffic and may make a Job

_SPEC_KEYS: Final = ("action", "policyMode", "source", "destination", "ports", "probe")
_SIDE_KEYS: Final = ("namespace", "name", "selector", "expressions", "clusters", "allPods", "allNamespaces")
_IMAGE_LIMIT: Final = 512
_COMMAND_LIMIT: Final = 64


def parse_intent(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> ConnectivityIntent | None:
    """See ``items.parse.ItemParser``."""
    given = problems.mapping("", spec, _SPEC_KEYS, optional=False)
    action = _choice(problems, "action", given.get("action"), ACTIONS, "")
    mode = _choice(problems, "policyMode", given.get("policyMode"), MODES, "Namespaced")
    isolate = action == "Isolate"
    if isolate:
        for key in ("source", "ports"):
            if given.get(key) is not None:
                problems.add(key, "does not belong to action Isolate, which cuts the destination off from everybody; remove it")
    source = None if isolate else _side(problems, "source", given.get("source"), members)
    destination = _side(problems, "destination", given.get("destination"), members)
    ports = () if isolate else parse_ports(problems, "ports", given.get("ports"))
    probe = _probe(problems, given.get("probe"), isolate)
    if mode == "Namespaced" and destination is not None and destination.all_namespaces:
        problems.add(
            "destination.allNamespaces", "a policy of mode Namespaced selects pods of its own namespace; use policyMode: Clusterwide"
        )
    if problems.found or destination is None:
        return None
    return ConnectivityIntent(name=name, action=action, mode=mode, source=source, destination=destination, ports=ports, probe=probe)


def _choice(problems: Problems, path: str, value: Any, choices: tuple[str, ...], default: str) -> str:
    if value is None and default:
        return default
    if value is None:
        problems.add(path, f"is missing; use one of {', '.join(choices)}")
    elif not isinstance(value, str):
        problems.add(path, f"must be a text, not {kind_of(value)}")
    elif value not in choices:
        problems.add(path, f"{shown(value)} is not known; {suggest(value, choices, 'use one of')}")
    return str(value) if isinstance(value, str) else default


def _side(problems: Problems, path: str, value: Any, members: tuple[str, ...]) -> PodSelection | None:
    """One side; None with a problem told."""
    if value is None:
        problems.add(path, f"is missing; it is a mapping with the keys {', '.join(_SIDE_KEYS)}")
        return None
    before = len(problems.found)
    given = problems.mapping(path, value, _SIDE_KEYS, optional=False)
    everywhere = _flag(problems, path, given, "allNamespaces")
    everything = _flag(problems, path, given, "allPods")
    namespace = _namespace(problems, path, given.get("namespace"), everywhere)
    labels, expressions = _selector(problems, path, given, everything)
    clusters = _clusters(problems, f"{path}.clusters", given.get("clusters"), members)
    if len(problems.found) > before:
        return None
    return PodSelection(
        namespace=namespace,
        labels=labels,
        expressions=expressions,
        clusters=clusters,
        all_pods=everything,
        all_namespaces=everywhere,
    )


def _flag(problems: Problems, path: str, given: Mapping[str, Any], key: str) -> bool:
    return bool(problems.typed(f"{path}.{key}", given.get(key), bool, "true or false"))


def _namespace(problems: Problems, path: str, value: Any, everywhere: bool) -> str:
    where = f"{path}.namespace"
    text = problems.typed(where, value, str, "a text")
    if text is None:
        if value is None and not everywhere:
            problems.add(where, "is missing; name the namespace, or write allNamespaces: true")
        return ""
    if everywhere:
        problems.add(where, "stands beside allNamespaces: true; keep one of the two")
    elif not LABEL.fullmatch(text):
        problems.add(where, f"{shown(text)} is not the name of a namespace (at most 63 lower-case letters, digits and '-')")
    return str(text)


def _selector(
    problems: Problems, path: str, given: Mapping[str, Any], everything: bool
) -> tuple[dict[str, str], tuple[LabelRequirement, ...]]:
    """Labels and expressions of a side: from ``name``, or from ``selector`` and ``expressions``, or none at all when all pods are meant."""
    there = [key for key in ("name", "selector", "expressions") if given.get(key) is not None]
    if everything and there:
        problems.add(join(path, "allPods"), f"stands beside {' and '.join(there)}; keep either")
        return {}, ()
    if "name" in there and len(there) > 1:
        problems.add(join(path, "name"), f"stands beside {' and '.join(there[1:])}; name: x is short for the label app: x, so keep either")
        return {}, ()
    if not there and not everything:
        problems.add(path, "selects every pod, because it has no name, selector or expressions; write allPods: true if that is meant")
        return {}, ()
    if "name" in there:
        return parse_labels(problems, path, {"name": given["name"]}, renamed={"name": "app"}), ()
    labels = parse_labels(problems, join(path, "selector"), given.get("selector")) if "selector" in there else {}
    return labels, parse_expressions(problems, join(path, "expressions"), given.get("expressions"))


def _clusters(problems: Problems, path: str, value: Any, members: tuple[str, ...]) -> tuple[str, ...]:
    """Inventory names; all members when nothing is said."""
    if value is None:
        return members
    if is_empty(value):
        problems.add(path, "is empty; name clusters, or leave it out to mean all members of the mesh")
    found: list[str] = []
    for where, item in items_of(problems, path, value, "names of members"):
        name = problems.typed(where, item, str, "a text") if item is not None else None
        if name is None:
            if item is None:
                problems.add(where, "must be a text, not nothing")
        elif name not in members:
            problems.add(where, f"{shown(name)} is no member of the mesh; {suggest(name, members, 'its members are')}")
        elif name in found:
            problems.add(where, f"{shown(name)} is named twice")
        else:
            found.append(str(name))
    return tuple(host for host in members if host in found)


def _probe(problems: Problems, value: Any, isolate: bool) -> Probe:
    given = problems.mapping("probe", value, ("enabled", "intervalSeconds", "method", "image", "command"), optional=True)
    enabled = _flag(problems, "probe", given, "enabled")
    method = _choice(problems, "probe.method", given.get("method"), PROBE_METHODS, "auto")
    image = problems.typed("probe.image", given.get("image"), str, "a text") or ""
    if len(image) > _IMAGE_LIMIT or any(not c.isprintable() or c.isspace() for c in image):
        problems.add("probe.image", f"{shown(image)} is not the reference of an image")
    if enabled and isolate and method == "job":
        problems.add("probe.method", "an intent of action Isolate has no source that a Job could try; use hubble or auto")
    command = _command(problems, given.get("command"))
    least, most = PROBE_INTERVAL
    interval = given.get("intervalSeconds")
    seconds = Probe.interval_seconds if interval is None else number_of(problems, "probe.intervalSeconds", interval, least, most)
    return Probe(enabled=enabled, interval_seconds=seconds, method=method, image=str(image), command=command)


def _command(problems: Problems, value: Any) -> tuple[str, ...]:
    """Of the probe's Job. It goes into the pod as a list of arguments, as it is."""
    if value is None:
        return ()
    entries = [entry for _path, entry in items_of(problems, "probe.command", value, "texts")]
    if not 0 < len(entries) <= _COMMAND_LIMIT or not all(isinstance(entry, str) and 0 < len(entry) <= _IMAGE_LIMIT for entry in entries):
        problems.add("probe.command", f"must be 1 to {_COMMAND_LIMIT} texts, none of them empty or longer than {_IMAGE_LIMIT} characters")
        return ()
    return tuple(entries)
