# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The registry of checks. A check is a small pure function under the code of its catalogue row (findings/catalogue.py).

A check of pairs gets a cluster with all of its peers that answered: what it needs to know of the cluster it works out once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..findings.catalogue import CATALOGUE, Row
from ..findings.finding import Finding, Scope, ordered
from ..findings.wording import printable
from .context import CheckContext
from .flaw import Flaw

Function = Callable[..., Iterable[Finding | Flaw]]

_SCOPES: Final = frozenset({Scope.CLUSTER, Scope.PAIR, Scope.MESH, Scope.COMMON_PEER, Scope.CONNECTED})


@dataclass(frozen=True, kw_only=True)
class Check(Row):
    """A row of the catalogue, and the function that finds what it names."""

    function: Function


_REGISTRY: dict[str, Check] = {}


def check(code: str) -> Callable[[Function], Function]:
    """Register the decorated function as the check of ``code``. One function per code.

    :raises ValueError: the catalogue has no such code, its scope is none of a check, or another function has it.
    """
    row = CATALOGUE.get(code)
    if row is None or row.scope not in _SCOPES:
        raise ValueError(f"the catalogue has no check {code}")

    def register(function: Function) -> Function:
        if code in _REGISTRY and _REGISTRY[code].function.__qualname__ != function.__qualname__:
            raise ValueError(f"two checks have the code {code}")
        _REGISTRY[code] = Check(**vars(row), function=function)
        return function

    return register


def registered() -> Mapping[str, Check]:
    """Every registered check by code."""
    return dict(_REGISTRY)


def _call(entry: Check, context: CheckContext) -> Iterator[Finding]:
    """Yield what the check finds in all parts of the mesh that it is called with."""
    for host, found in _found(entry, context):
        yield from (flaw.under(entry.code, host) if isinstance(flaw, Flaw) else flaw for flaw in found)


def _found(entry: Check, context: CheckContext) -> Iterator[tuple[str, Iterable[Finding | Flaw]]]:
    if entry.scope in (Scope.MESH, Scope.COMMON_PEER, Scope.CONNECTED):
        parts = {Scope.COMMON_PEER: context.mesh.common_peer_groups, Scope.CONNECTED: context.mesh.connected_components}.get(
            entry.scope, (context.mesh,)
        )
        for part in parts:
            yield "", entry.function(context if part is context.mesh else replace(context, part=part))
        return
    facts, trust = context.facts, context.decisions.trust
    for host, local in facts.items():
        if entry.scope is Scope.CLUSTER:
            yield local.host, entry.function(context, local)
        elif peers := [facts[peer] for peer in trust.get(host, ())]:  # those that answered
            yield local.host, entry.function(context, local, peers)


def run(context: CheckContext, checks: Iterable[Check] | None = None) -> tuple[Finding, ...]:
    """All findings, ordered. Pure."""
    found: list[Finding] = []
    for entry in registered().values() if checks is None else checks:
        for finding in dict.fromkeys(_call(entry, context)):  # parts of a mesh overlap, and may tell the same twice
            accepted = entry.acceptable and finding.code in context.accept
            why = context.acceptance(finding.code) if accepted else ""
            found.append(replace(finding, accepted=accepted, evidence="; ".join(filter(None, [finding.evidence, printable(why)]))))
    return ordered(found)
