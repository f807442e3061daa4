# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Why two plans differ: what has changed in which cluster since the first, and which steps are new, gone or different. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .columns import cell, count, text

NAMED: Final = 10

SECTIONS: Final[Mapping[str, str]] = {
    "identity": "name, id or namespace",
    "cilium": "version or mode of Cilium",
    "endpoint": "endpoint override",
    "service": "Service clustermesh-apiserver",
    "certificates": "certificates",
    "ca": "Secret cilium-ca",
    "peers": "Secrets of peers",
    "users": "users of the mesh etcd",
    "aliases": "host aliases",
    "registry": "registry of leases",
    "families": "IP families",
    "load balancer": "reserved load balancer",
}
"""Sections of relied_on.py, in words."""


def plan_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line per difference, the causes first; [] only for plans that say the same. Both are ``Plan.to_dict``; no value is shown."""
    causes = [*_options(before["options"], after["options"]), *_relied_on(before["reliedOn"], after["reliedOn"]), *_links(before, after)]
    steps = _steps(before["steps"], after["steps"])
    if steps and not causes:
        causes = [
            "nothing that was read has changed: time has, for instance a certificate has come due, or this collection is another release"
        ]
    return [*causes, *steps]


def _options(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    keys = [*before, *(key for key in after if key not in before)]
    return [
        f"option {cell(key)}: was {_shown(before.get(key))}, is {_shown(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _relied_on(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> list[str]:
    found = [f"{cell(host)}: was not looked at then" for host in after if host not in before]
    found += [f"{cell(host)}: is not looked at now" for host in before if host not in after]
    for host in before:
        if host in after:
            was, now = before[host], after[host]
            sections = [*SECTIONS, *sorted((was.keys() | now.keys()) - SECTIONS.keys())]
            changed = [SECTIONS.get(name, cell(name)) for name in sections if was.get(name) != now.get(name)]
            found += [f"{cell(host)}: {', '.join(changed)} changed"] if changed else []
    return _cut(found, "cluster")


def _links(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Where a peer is dialled; as a peer has one endpoint for all, each change is told once."""
    was, now = _endpoints(before), _endpoints(after)
    changed = [peer for peer in was if peer in now and was[peer] != now[peer]]
    return _cut([f"endpoint of {cell(peer)}: was {cell(was[peer])}, is {cell(now[peer])}" for peer in changed], "endpoint")


def _endpoints(plan: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(link["peer"]): str(link["endpoint"]) for link in plan.get("links") or () if isinstance(link, Mapping) and "endpoint" in link
    }


def _steps(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> list[str]:
    was, now = _numbered(before), _numbered(after)
    groups = {
        "new step": [now[key] for key in now if key not in was],
        "step gone": [was[key] for key in was if key not in now],
        "step differs": [now[key] for key in now if key in was and was[key].get("digest") != now[key].get("digest")],
    }
    return [line for name, steps in groups.items() for line in _cut([f"{name}: {_step(step)}" for step in steps], "step")]


def _numbered(steps: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, int], Mapping[str, Any]]:
    """By cluster and object, and which of several writes to that object it is."""
    found: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for step in steps:
        host, name = str(step.get("cluster", "")), str(step.get("object", ""))
        number = sum(1 for key in found if key[:2] == (host, name))
        found[(host, name, number)] = step
    return found


def _step(step: Mapping[str, Any]) -> str:
    return f"{cell(step.get('cluster', ''))}, {cell(step.get('verb', ''))} {cell(step.get('object', ''))}: {text(step.get('why', ''))}"


def _cut(lines: list[str], noun: str) -> list[str]:
    more = len(lines) - NAMED
    return lines[:NAMED] + ([f"and {count(more, f'more {noun}')} like these"] if more > 0 else [])


def _shown(value: Any) -> str:
    return cell(", ".join(map(str, value)) or "none") if isinstance(value, list) else cell(str(value))
