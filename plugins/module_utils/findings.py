# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A finding is one fact about the fitness of a cluster, a pair or the mesh; a check is data plus a small pure function that finds it.

The registry holds every check once, under a stable code such as ``CM-CIDR-01``. The code is the name of the page in ``docs/runbooks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from .choices import Choices
from .claims import PeerClaims
from .facts import ClusterFacts, ObserveFailure, ProbeResult
from .model import Mesh


class Severity(StrEnum):
    """What a finding means for the run."""

    BLOCKING = "blocking"  # nothing is written anywhere while it stands
    REMEDIABLE = "remediable"  # works, but will hurt; the fix is known
    ADVISORY = "advisory"  # worth knowing


class Scope(StrEnum):
    """What a check looks at, and so what it is called with."""

    CLUSTER = "cluster"  # function(context, ClusterFacts)
    PAIR = "pair"  # function(context, local ClusterFacts, peer ClusterFacts), once per ordered pair of the mesh's links
    MESH = "mesh"  # function(context)
    SEEN = "seen"  # function(context), with the mesh narrowed to clusters that one of them sees at once: what has to differ
    TIED = "tied"  # function(context), with the mesh narrowed to clusters that links tie together: what has to be equal


class Cure(StrEnum):
    """What it takes to make a finding go away, and so whether the cluster could be meshed at all (eligibility.py)."""

    LIVE = "live"  # objects and settings that take effect by themselves
    RESTART = "restart"  # a value of the installation, and workloads of Cilium that start anew
    REINSTALL = "reinstall"  # a cluster, its nodes or its pods have to be made or numbered anew


_TOLD: Final = ("code", "severity", "cluster", "peer", "summary", "evidence", "fix", "accepted")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One row of the report. Shape of ``to_dict``: the contract ``{code, severity, cluster, peer, summary, evidence, fix, anchor}``,
    and ``item`` where it is about one."""

    code: str
    severity: Severity
    cluster: str = ""
    peer: str = ""
    summary: str  # one sentence, names the thing
    evidence: str = ""  # what was read, and where; never a value out of a Secret
    fix: str = ""  # a command or a Helm value
    accepted: bool = False  # the user listed the code in ``accept``; it no longer blocks
    item: str = ""  # the item that it is about (items/kinds.py), e.g. "globalServices/nginx"; it then concerns that item alone
    others: tuple[str, ...] = ()  # further clusters that it is about, where there are more than ``cluster`` and ``peer``

    @property
    def anchor(self) -> str:
        """Path of the runbook page."""
        return f"docs/runbooks/{self.code}.md"

    @property
    def blocks(self) -> bool:
        return self.severity is Severity.BLOCKING and not self.accepted

    def to_dict(self) -> dict[str, Any]:
        values = {key: getattr(self, key) for key in _TOLD}  # not asdict(): it copies deeply, and there may be thousands
        about = {"item": self.item} if self.item else {}
        return {**values, **about, "severity": self.severity.value, "anchor": self.anchor}


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """Everything that a check may know: values only."""

    mesh: Mesh
    facts: Mapping[str, ClusterFacts]  # by inventory name; only clusters that answered
    failures: Mapping[str, ObserveFailure]  # by inventory name; clusters that did not
    now: datetime  # aware, UTC
    accept: frozenset[str] = field(default_factory=frozenset)  # codes that the user accepts
    trust: str = "auto"  # as PlanOptions.trust: the trust mode that will be planned
    node_addresses: str = "InternalIP"  # as PlanOptions.node_addresses
    resolved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # DNS name -> addresses, where the caller looked them up
    tolerated: frozenset[str] = field(default_factory=frozenset)  # members without an answer that do not stop the run (absence.py)
    max_failures: int | None = None  # what the user allows; None: silence of members that the mesh holds
    left: Mapping[str, ClusterFacts] = field(default_factory=dict)  # by inventory name; no members any more, observed to be rid of links
    left_failures: Mapping[str, ObserveFailure] = field(default_factory=dict)  # of those, the ones that did not answer
    repair: bool = False  # as PlanOptions.repair
    claims: Mapping[str, PeerClaims] = field(default_factory=dict)  # by inventory name: what clusters tell their peers (claims.py)
    take_back: frozenset[str] = field(default_factory=frozenset)  # returning clusters that the user vouches for (tombstones.py)
    probes: tuple[ProbeResult, ...] = ()  # TLS handshakes that the caller made from the controller (probe_tls.py)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Members that were not asked at all: --limit, or the hosts pattern of the play, leaves them out."""
        return tuple(host for host in self.mesh.clusters if host not in self.facts and host not in self.failures)

    @cached_property
    def choices(self) -> Choices:
        """How each link will be made; the planner takes it over."""
        return Choices(self.mesh, self.facts, now=self.now, trust=self.trust, node_addresses=self.node_addresses, resolved=self.resolved)


@dataclass(frozen=True, kw_only=True)
class Check:
    """A registered check. ``function`` yields findings built with ``check.finding(...)``."""

    code: str
    title: str
    severity: Severity
    scope: Scope
    acceptable: bool  # may the user accept it (turn blocking off) by listing its code?
    cure: Cure
    function: Callable[..., Iterable[Finding]]


_REGISTRY: dict[str, Check] = {}


def check(
    code: str, title: str, *, severity: Severity, scope: Scope, acceptable: bool = False, cure: Cure = Cure.LIVE
) -> Callable[[Callable[..., Iterable[Finding]]], Callable[..., Iterable[Finding]]]:
    """Register the decorated function. One function per code."""

    def register(function: Callable[..., Iterable[Finding]]) -> Callable[..., Iterable[Finding]]:
        if code in _REGISTRY and _REGISTRY[code].function.__qualname__ != function.__qualname__:
            raise ValueError(f"two checks have the code {code}")
        _REGISTRY[code] = Check(code=code, title=title, severity=severity, scope=scope, acceptable=acceptable, cure=cure, function=function)
        return function

    return register


def registered() -> Mapping[str, Check]:
    """Every registered check by code; import ``checks`` first."""
    return dict(_REGISTRY)


def _call(entry: Check, context: CheckContext) -> Iterator[Finding]:
    if entry.scope in (Scope.MESH, Scope.SEEN, Scope.TIED):
        parts = {Scope.SEEN: context.mesh.seen_together, Scope.TIED: context.mesh.tied_together}.get(entry.scope, (context.mesh,))
        for part in parts:
            yield from entry.function(context if part is context.mesh else replace(context, mesh=part))
        return
    for local in context.facts.values():
        if entry.scope is Scope.CLUSTER:
            yield from entry.function(context, local)
            continue
        for peer in context.mesh.peers(local.host):
            if peer in context.facts:
                yield from entry.function(context, local, context.facts[peer])


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The blocking ones first, then by severity, code, cluster and peer."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda f: (not f.blocks, order.index(f.severity), f.code, f.item, f.cluster, f.peer)))


def run(context: CheckContext, checks: Iterable[Check] | None = None) -> tuple[Finding, ...]:
    """All findings, ordered. Pure."""
    found: list[Finding] = []
    for entry in registered().values() if checks is None else checks:
        for finding in dict.fromkeys(_call(entry, context)):  # parts of a mesh overlap, and may tell the same twice
            accepted = entry.acceptable and finding.code in context.accept
            found.append(replace(finding, accepted=accepted))
    return ordered(found)
