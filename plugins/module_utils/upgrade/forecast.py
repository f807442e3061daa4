# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Forecast of an upgrade: each hop with its effects, what connect writes after it, and what policies mean after each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from ..base.errors import InvalidInput, MeshError, clause
from ..findings.finding import Finding, Severity
from ..items.scene import Scene
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import enabled
from ..mesh.versions.minors import SUPPORTED, Minor, cilium_version
from ..plan.steps import Plan, Step
from ..policies.workload_index import WorkloadIndex
from ..reach.difference import ChangeKind, changes_between
from ..reach.flows import ChangeRow, change_rows
from ..reach.reach import Reach
from ..reach.report import flow_text
from ..reach.scope import ReachScope
from ..reach.workload_set import workload_sets
from .effect import Effect, Need
from .forecast_facts import Values, facts_after, prepared_facts
from .hop import UpgradeHop, hops_of, skewed
from .rules import HopContext, effects_of

PLANNED: Final = 60
"""Hops after which connect is planned one by one. With more, it is planned after each round."""

LOCAL: Final = "policy-default-local-cluster"
LOCAL_VALUE: Final = "clustermesh.policyDefaultLocalCluster=false"
ROWS: Final = 5
"""Flows that an effect names; the result has more."""

TEXT: Final = 8
"""Characters of a minor."""

PlanOf = Callable[[Mapping[str, ClusterFacts]], tuple[tuple[Finding, ...], "Plan | None"]]
"""Checks and plan of connect for these facts: what the run of connect would find and write. The plan is None where a finding blocks."""


class NothingKnown(MeshError):
    """Lack of any member to forecast something for. Decision: repair what keeps the members from being read, and run again."""


@dataclass(frozen=True, kw_only=True)
class HopForecast:
    """One hop, once everything was prepared that its effects ask for.

    ``writes`` are the steps of connect that it makes necessary, ``findings`` those that its cluster has only then.
    """

    hop: UpgradeHop
    facts: ClusterFacts  # after the hop
    effects: tuple[Effect, ...]
    writes: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    planned: bool = True  # False: connect was planned for the round as a whole

    def of(self, need: Need) -> tuple[Effect, ...]:
        """Return the effects that ask for this."""
        return tuple(effect for effect in self.effects if effect.need is need)


@dataclass(frozen=True)
class Forecast:
    """Forecast for all members that answered."""

    mesh: Mesh
    target: Minor
    minors: Mapping[str, Minor]
    hops: tuple[HopForecast, ...]
    changes: Mapping[int, tuple[ChangeRow, ...]] = field(default_factory=dict)  # by round: what policies mean then
    unknown: Mapping[str, str] = field(default_factory=dict)  # members of which nothing can be said -> why
    values: Values = field(default_factory=dict)  # Helm values that the user sets

    @cached_property
    def skewed(self) -> tuple[tuple[str, str], ...]:
        """Pairs of linked members that are too far apart now."""
        return skewed(self.mesh, self.minors)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Effects of all hops."""
        return tuple(effect for hop in self.hops for effect in hop.effects)

    @property
    def rows(self) -> tuple[ChangeRow, ...]:
        """Changes of all rounds."""
        return tuple(row for rows in self.changes.values() for row in rows)


def target_of(text: str, minors: Mapping[str, Minor]) -> Minor:
    """Return the minor to which all members are brought; "" is one minor further than the oldest member, or the newest member's.

    :raises InvalidInput: it is no minor, is not supported, or is older than a member.
    """
    if not text:
        oldest, newest = min(minors.values()), max(minors.values())
        further = Minor(oldest.major, oldest.minor + 1)
        return min(max(newest, further), SUPPORTED.last)
    major, _dot, minor = text.removeprefix("v").partition(".")
    if not (major.isdecimal() and minor.isdecimal() and text.isascii() and len(text) <= TEXT):
        raise InvalidInput(f"target: {text[:TEXT]!r} is no minor of Cilium.", remedy="Name it as 1.19, without the patch.")
    found = Minor(int(major), int(minor))
    if found not in SUPPORTED:
        raise InvalidInput(
            f"target: the rules of Cilium {found} are not known.", remedy=f"Name one of {SUPPORTED}, in quotes: YAML reads 1.20 as 1.2."
        )
    newer = [host for host, minor in minors.items() if minor > found]
    if newer:
        raise InvalidInput(f"target: {', '.join(newer)} runs a newer Cilium than {found}.", remedy="Name a minor that no member is beyond.")
    return found


def minors_of(scene: Scene) -> tuple[dict[str, Minor], dict[str, str]]:
    """Return the minor of each member, and why nothing can be said of the others."""
    minors: dict[str, Minor] = {}
    unknown: dict[str, str] = {}
    for host in scene.mesh.clusters:
        facts = scene.facts.get(host)
        version = cilium_version(facts) if facts else None
        if facts is None:
            unknown[host] = scene.failures[host].message if host in scene.failures else "it was not observed."
        elif version is None:
            unknown[host] = "The version of Cilium cannot be read from its images."
        elif version.release > SUPPORTED.last:
            unknown[host] = f"It runs Cilium {version}, and the rules of {SUPPORTED} are known."
        else:
            minors[host] = version.release
    return minors, unknown


def values_of(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Return Helm values as texts.

    :raises InvalidInput: a value is no text, number or boolean: nested values are named by their whole key, with dots.
    """
    found: dict[str, str] = {}
    for key, value in (given or {}).items():
        if not isinstance(value, (str, int, float)):
            raise InvalidInput(
                f"values: {str(key)[:80]!r} is no single value.",
                remedy="Write the whole key with dots, such as clustermesh.config.enabled.",
            )
        found[str(key)] = str(value).lower() if isinstance(value, bool) or str(value).lower() in ("true", "false") else str(value)
    return found


def forecast(scene: Scene, target: str, plan_of: PlanOf, values: Values | None = None) -> Forecast:
    """Return the forecast of bringing all members to ``target``.

    :param values: Helm values that the user sets in every member.

    :raises InvalidInput: the target is not valid.
    :raises NothingKnown: no member has a version that is known.
    """
    minors, unknown = minors_of(scene)
    if not minors:
        reasons = "; ".join(f"{host}: {clause(why)}" for host, why in unknown.items())
        raise NothingKnown(f"No member has a version of Cilium that is known: {reasons}.")
    found = target_of(target, minors)
    hops = hops_of(minors, found)
    state = dict(scene.facts)
    made: list[HopForecast] = []
    changes: dict[int, tuple[ChangeRow, ...]] = {}
    known = _Known.of(plan_of(state))
    for round_number in sorted({hop.round for hop in hops}):
        those = [hop for hop in hops if hop.round == round_number]
        start = dict(state)
        drafts: list[HopForecast] = []
        for hop in those:
            context = HopContext(
                cluster=state[hop.host],
                after=hop.after,
                facts=state,
                traffic=scene.traffic.get(hop.host),
                now=scene.now,
                first=hop.before == minors[hop.host],
                values=values or {},
            )
            effects = effects_of(context)
            state = {**state, hop.host: facts_after(prepared_facts(state[hop.host], hop.after), hop.after, values)}
            draft = HopForecast(hop=hop, facts=state[hop.host], effects=effects, planned=len(hops) <= PLANNED or hop is those[-1])
            if draft.planned:
                after = _Known.of(plan_of(state), known)
                draft = replace(draft, writes=after.steps_beyond(known), findings=after.findings_beyond(known, hop.host))
                known = after
            drafts.append(draft)
        rows, more = _policy_changes(scene, start, state, those)
        changes[round_number] = rows
        made += [replace(draft, effects=(*draft.effects, *more.get(draft.hop.host, ()))) for draft in drafts]
    return Forecast(scene.mesh, found, minors, tuple(made), changes, unknown, dict(values or {}))


@dataclass(frozen=True)
class _Known:
    """What connect finds and writes in one state."""

    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, planned: tuple[tuple[Finding, ...], Plan | None], earlier: _Known | None = None) -> _Known:
        """Return what is known of a state; where a finding blocks, the steps of the state before stand for its own."""
        findings, plan = planned
        return cls(findings, plan.steps if plan else earlier.steps if earlier else ())

    def steps_beyond(self, earlier: _Known) -> tuple[Step, ...]:
        """Return the steps that were not necessary before."""
        former = {step.digest for step in earlier.steps}
        return tuple(step for step in self.steps if step.digest not in former)

    def findings_beyond(self, earlier: _Known, host: str) -> tuple[Finding, ...]:
        """Return the findings about a cluster that are more than advice, and were not there before.

        Versions that differ are the business of the order of hops, and are left out.
        """
        former = {(entry.code, entry.cluster, entry.peer) for entry in earlier.findings}
        return tuple(
            entry
            for entry in self.findings
            if host in (entry.cluster, entry.peer, *entry.others)
            and entry.severity is not Severity.ADVISORY
            and (entry.code, entry.cluster, entry.peer) not in former
            and not entry.code.startswith("CM-VER-")
        )


def _policy_changes(
    scene: Scene, before: Mapping[str, ClusterFacts], after: Mapping[str, ClusterFacts], hops: list[UpgradeHop]
) -> tuple[tuple[ChangeRow, ...], dict[str, tuple[Effect, ...]]]:
    """Return what the policies of all members mean otherwise after a round, and the effects on the clusters of its hops.

    Where the new default of ``policy-default-local-cluster`` is part of it, the change is evaluated with the old value too: what is left
    then has another reason.
    """
    if not scene.hosts or not any(scene.traffic[host].policies for host in scene.hosts):
        return (), {}
    rows = _changed(scene, before, after)
    effects: dict[str, tuple[Effect, ...]] = {}
    turned = [hop.host for hop in hops if _turns_local(before[hop.host], after[hop.host])]
    kept = {host: _with_config(facts, LOCAL, "false") if host in turned else facts for host, facts in after.items()}
    others = _changed(scene, before, kept) if turned and rows else rows
    left = {_identity(row) for row in others}
    local = [row for row in rows if _identity(row) not in left]
    for hop in hops:
        by_default = [row for row in local if hop.host in turned and _concerns(row, hop.host)]
        rest = [row for row in others if _concerns(row, hop.host)]
        found = [_local_effect(hop, by_default)] if by_default else []
        found += [_meaning_effect(hop, rest)] if rest else []
        effects[hop.host] = tuple(found)
    return rows, effects


def _changed(scene: Scene, before: Mapping[str, ClusterFacts], after: Mapping[str, ClusterFacts]) -> tuple[ChangeRow, ...]:
    now, then = WorkloadIndex(replace(scene, facts=before)), WorkloadIndex(replace(scene, facts=after))
    sets = workload_sets(now, then)
    planned = Reach.of(sets.seen_by(then))
    return tuple(change_rows(planned, changes_between(Reach.of(sets), planned), ReachScope()))


def _turns_local(before: ClusterFacts, after: ClusterFacts) -> bool:
    return not enabled(before, LOCAL) and enabled(after, LOCAL)


def _with_config(facts: ClusterFacts, key: str, value: str) -> ClusterFacts:
    return replace(facts, config={**(facts.config or {}), key: value})


def _identity(row: ChangeRow) -> tuple[object, ...]:
    flow = row.flow
    return row.kind, flow.source.kind, flow.source.cluster, flow.source.namespace, flow.source.shown, flow.destination, flow.ports


def _concerns(row: ChangeRow, host: str) -> bool:
    """Return whether a policy of the cluster decides: that of the destination, or that of the source where another one decides it."""
    return any(policy.endswith(f" in {host}") for policy in row.flow.policies) or row.flow.destination.cluster == host


def _local_effect(hop: UpgradeHop, rows: list[ChangeRow]) -> Effect:
    return Effect(
        rule="policy_local_by_default",
        cluster=hop.host,
        need=Need.WITH,
        summary="a selector that names no cluster means the own cluster alone from then on: "
        f"{_kinds(rows)}; the value keeps the meaning until the policies name their clusters",
        evidence=tuple(f"{row.kind.value}: {flow_text(row.flow)}" for row in rows[:ROWS]),
        values=(LOCAL_VALUE,),
        commands=(
            "cilium clustermesh inspect-policy-default-local-cluster --all-namespaces",
            "Add the label io.cilium.k8s.policy.cluster to the selectors that mean other clusters, then take the value away.",
        ),
        source="upgrade guide, Preparing for a policy-default-local-cluster change; PR 40609",
    )


def _meaning_effect(hop: UpgradeHop, rows: list[ChangeRow]) -> Effect:
    return Effect(
        rule="policies",
        cluster=hop.host,
        need=Need.BEFORE,
        summary=f"policies mean something else in Cilium {hop.after}: {_kinds(rows)}",
        evidence=tuple(f"{row.kind.value}: {flow_text(row.flow)}" for row in rows[:ROWS]),
        commands=("Read docs/policy-evaluation.md for what differs between the minors, and rewrite the policies that are named.",),
        source="the rules of docs/policy-evaluation.md, evaluated for both minors",
    )


def _kinds(rows: list[ChangeRow]) -> str:
    counts = {kind: sum(row.kind is kind for row in rows) for kind in ChangeKind}
    words = {ChangeKind.GAINED: "gained", ChangeKind.LOST: "lost", ChangeKind.UNSURE: "no longer certain"}
    return ", ".join(f"{number} {'row' if number == 1 else 'rows'} of flows {words[kind]}" for kind, number in counts.items() if number)
