# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Comparison of two plans: what changed in which cluster since the first, and which steps are new, gone or different. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..base.tables import cell, count, text

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
"""Description of each section of links/fingerprint.py."""


def plan_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return one line per difference between two plans, the causes first; [] only if there is no difference.

    Both plans are data (``Plan.to_dict``). The lines contain no values of Secrets.
    """
    causes = [*_options(before["options"], after["options"]), *_relied_on(before["reliedOn"], after["reliedOn"]), *_links(before, after)]
    steps = _steps(before["steps"], after["steps"])
    if steps and not causes:
        causes = [
            "no fact that was read has changed; time has passed (a certificate may have come due), or another release of "
            "this collection made the plan"
        ]
    return [*causes, *steps]


def _options(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    keys = [*before, *(key for key in after if key not in before)]
    return [
        f"option {cell(key)}: was {_value_text(before.get(key))}, is {_value_text(after.get(key))}"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _relied_on(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> list[str]:
    found = [f"{cell(host)}: was not part of the approved plan" for host in after if host not in before]
    found += [f"{cell(host)}: is not part of the new plan" for host in before if host not in after]
    for host in before:
        if host in after:
            was, now = before[host], after[host]
            sections = [*SECTIONS, *sorted((was.keys() | now.keys()) - SECTIONS.keys())]
            changed = [SECTIONS.get(name, cell(name)) for name in sections if was.get(name) != now.get(name)]
            found += [f"{cell(host)}: {', '.join(changed)} changed"] if changed else []
    return _truncate(found, "cluster")


def _links(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return changed endpoints; as a peer has one endpoint for all clusters, each change is one line."""
    was, now = _endpoints(before), _endpoints(after)
    changed = [peer for peer in was if peer in now and was[peer] != now[peer]]
    return _truncate([f"endpoint of {cell(peer)}: was {cell(was[peer])}, is {cell(now[peer])}" for peer in changed], "endpoint")


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
    return [line for name, steps in groups.items() for line in _truncate([f"{name}: {_step(step)}" for step in steps], "step")]


def _numbered(steps: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, int], Mapping[str, Any]]:
    """Return steps by cluster, object and number among the writes to that object."""
    found: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for step in steps:
        host, name = str(step.get("cluster", "")), str(step.get("object", ""))
        number = sum(1 for key in found if key[:2] == (host, name))
        found[(host, name, number)] = step
    return found


def _step(step: Mapping[str, Any]) -> str:
    return f"{cell(step.get('cluster', ''))}, {cell(step.get('verb', ''))} {cell(step.get('object', ''))}: {text(step.get('why', ''))}"


def _truncate(lines: list[str], noun: str) -> list[str]:
    more = len(lines) - NAMED
    return lines[:NAMED] + ([f"and {count(more, f'more {noun}')} like these"] if more > 0 else [])


def _value_text(value: Any) -> str:
    return cell(", ".join(map(str, value)) or "none") if isinstance(value, list) else cell(str(value))
