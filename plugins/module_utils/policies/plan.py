# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""ConnectivityIntent -> steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..checks.wording import listed, show
from ..findings import Finding, Severity
from ..items.desired import Desired
from ..items.facts import ObjectFacts, TrafficFacts
from ..items.kinds import ItemKind, ItemRef
from ..items.models import ConnectivityIntent
from ..items.owned import Wanted, changes, item_of, leftovers, owned_object
from ..items.planned import PRUNE_WAVES, WAVES, ItemPlan, Verdict
from ..items.scene import Scene
from ..model import Binding
from ..steps import Step
from . import codes
from .compile import API_VERSION, Body, CannotExpress, destinations, policy_for
from .isolation import isolation_findings, planned_intents
from .landscape import Planned
from .scene_findings import absent_namespaces, described, namespace_findings, scene_findings
from .settings_findings import about, identity_findings, settings_findings, version_findings

COLLECTIONS: Final = {
    "CiliumNetworkPolicy": "ciliumnetworkpolicies",
    "CiliumClusterwideNetworkPolicy": "ciliumclusterwidenetworkpolicies",
}

Observed = Mapping[str, tuple[ObjectFacts, ...]]
"""By inventory name."""


@dataclass(frozen=True, kw_only=True)
class IntentDetail:
    """What the status needs of a plan (``ItemPlan.detail``)."""

    wanted: tuple[Wanted, ...] = ()
    unwritten: Mapping[str, str] = field(default_factory=dict)  # destination cluster -> why nothing is written there


def plan_intents(desired: Desired, scene: Scene) -> list[ItemPlan]:
    """See ``items.table.KindRow``."""
    place = _Place.of(scene)
    drafts = [_draft(intent, scene, place) for intent in desired.intents]
    written = [draft for draft in drafts if draft.written]
    together = planned_intents({draft.intent.name: draft.compiled for draft in drafts if draft.compiled}, scene) if written else None
    return [_plan(draft, scene, together) for draft in drafts]


def prune_intents(desired: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    """See ``items.table.KindRow``."""
    if ItemKind.INTENT not in desired.kinds:
        return [], []
    policies = {host: cilium_policies(scene.traffic[host]) for host in scene.hosts}
    kept = desired.kept(ItemKind.INTENT)
    return leftovers(scene.binding, ItemKind.INTENT, kept, policies, wave=PRUNE_WAVES[ItemKind.INTENT]), []


def cilium_policies(traffic: TrafficFacts) -> tuple[ObjectFacts, ...]:
    """Those that an intent may have made."""
    return tuple(entry for entry in traffic.policies if entry.kind in COLLECTIONS)


@dataclass(frozen=True)
class _Place:
    """What stands in the clusters, looked up once for all intents."""

    by_path: Mapping[str, Mapping[str, ObjectFacts]]
    by_item: Mapping[str, Mapping[ItemRef, tuple[ObjectFacts, ...]]]

    @classmethod
    def of(cls, scene: Scene) -> _Place:
        paths: dict[str, dict[str, ObjectFacts]] = {}
        owned: dict[str, dict[ItemRef, tuple[ObjectFacts, ...]]] = {}
        for host in scene.hosts:
            paths[host], owned[host] = {}, {}
            for entry in cilium_policies(scene.traffic[host]):
                paths[host][entry.path] = entry
                ref = item_of(scene.binding, entry)
                if ref is not None:
                    owned[host][ref] = (*owned[host].get(ref, ()), entry)
        return cls(paths, owned)

    def observed(self, ref: ItemRef, wanted: Iterable[Wanted]) -> Observed:
        """What is the item's, and what stands where it wants to write. Nothing else concerns it."""
        found = {host: {entry.path: entry for entry in owned.get(ref, ())} for host, owned in self.by_item.items()}
        for entry in wanted:
            there = self.by_path[entry.cluster].get(entry.path)
            if there is not None:
                found[entry.cluster][there.path] = there
        return {host: tuple(entries.values()) for host, entries in found.items()}


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """One intent, before it is looked at together with the others. ``unsaid``: findings for which nothing can be written at all."""

    intent: ConnectivityIntent
    hosts: tuple[str, ...] = ()  # destinations of which something is known
    unsaid: tuple[Finding, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    observed: Observed = field(default_factory=dict)
    compiled: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    foreign: tuple[Finding, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """Where a policy is new, or another than it was."""
        return tuple(step.cluster for step in self.steps if step.verb != "delete")


def _draft(intent: ConnectivityIntent, scene: Scene, place: _Place) -> _Draft:
    ref = ItemRef(ItemKind.INTENT, intent.name)
    hosts = tuple(host for host in destinations(intent, scene.mesh.clusters) if host in scene.hosts)
    unsaid = list(version_findings(intent, scene, hosts))
    bodies: dict[str, Body] = {}
    try:
        bodies = {host: _body(intent, host, scene) for host in hosts}
    except CannotExpress as error:
        unsaid.append(_nameless(intent, error))
    if unsaid:
        return _Draft(intent=intent, unsaid=tuple(unsaid))
    absent = absent_namespaces(intent, scene)
    every = [_wanted(scene.binding, intent, host, body) for host, body in bodies.items()]
    wanted = tuple(entry for entry in every if entry.cluster not in absent)
    # A policy that stands where no namespace is said to be is proof to the contrary, and the item still asks for it.
    spared = {(entry.cluster, entry.path) for entry in every if entry.cluster in absent}
    seen = place.observed(ref, wanted)
    observed = {host: tuple(o for o in entries if (host, o.path) not in spared) for host, entries in seen.items()}
    # What replaces another policy of the intent (another mode, say) is written before that one goes, so that no moment is without it.
    steps, foreign = changes(scene.binding, ref, wanted, observed, wave=WAVES[ItemKind.INTENT], prune_wave=WAVES[ItemKind.INTENT])
    return _Draft(
        intent=intent,
        hosts=hosts,
        wanted=wanted,
        absent=absent,
        observed=observed,
        compiled={entry.cluster: (bodies[entry.cluster],) for entry in wanted},
        steps=tuple(steps),
        foreign=tuple(foreign),
    )


def _plan(draft: _Draft, scene: Scene, together: Planned | None) -> ItemPlan:
    intent = draft.intent
    ref = ItemRef(ItemKind.INTENT, intent.name)
    if draft.unsaid:
        return _refused(ref, draft.unsaid)
    findings = [*draft.foreign, *settings_findings(intent, scene, draft.hosts, draft.written), *identity_findings(intent, scene)]
    findings += [*scene_findings(intent, scene), *namespace_findings(intent, scene), *_invalid(draft)]
    if draft.written:
        findings += isolation_findings(intent, {host: draft.compiled[host] for host in draft.written}, scene, together)
    detail = IntentDetail(wanted=draft.wanted, unwritten=draft.absent)
    return ItemPlan(ref=ref, steps=draft.steps, findings=tuple(findings), detail=detail)


def _body(intent: ConnectivityIntent, host: str, scene: Scene) -> Body:
    return policy_for(intent, host, names=scene.names, members=scene.mesh.clusters, binding=scene.binding)


def _wanted(binding: Binding, intent: ConnectivityIntent, host: str, body: Body) -> Wanted:
    namespace = body["metadata"].get("namespace", "")
    resource = COLLECTIONS[body["kind"]]
    collection = f"/apis/{API_VERSION}/namespaces/{namespace}/{resource}" if namespace else f"/apis/{API_VERSION}/{resource}"
    return owned_object(binding, ItemRef(ItemKind.INTENT, intent.name), host, collection, body, why=_why(intent))


def _why(intent: ConnectivityIntent) -> str:
    """``Allow pods of production with app=frontend in c1 and c2 to reach pods of production with app=backend``."""
    if intent.source is None:
        return f"Isolate {described(intent.destination)}"
    return (
        f"{intent.action} {described(intent.source)} in {listed(intent.source.clusters) or 'every member'} "
        f"to reach {described(intent.destination)}"
    )


def _refused(ref: ItemRef, findings: Sequence[Finding]) -> ItemPlan:
    reason = "UnsupportedVersion" if any(finding.code == codes.VERSION for finding in findings) else "CannotExpress"
    message = "; ".join(finding.summary for finding in findings)
    return ItemPlan(ref=ref, verdict=Verdict.REFUSED, reason=reason, message=message, findings=tuple(findings))


def _nameless(intent: ConnectivityIntent, error: CannotExpress) -> Finding:
    return about(
        intent,
        codes.NAMELESS,
        Severity.BLOCKING,
        (),
        summary=" ".join(error.problems),
        evidence="A policy names clusters by cluster-name of their cilium-config, and neither it nor any member's registry told it.",
        fix="Connect the cluster first (playbook connect), or leave it out of source.clusters and destination.clusters.",
    )


def _invalid(draft: _Draft) -> Iterator[Finding]:
    """What Cilium's operator says of a policy that stays as it is (condition Valid, from 1.16)."""
    bad: dict[str, str] = {}
    for entry in draft.wanted:
        there = {found.path: found for found in draft.observed.get(entry.cluster, ())}.get(entry.path)
        message = refused_by_cilium(there) if there is not None and entry.cluster not in draft.written else None
        if message is not None:
            bad[entry.cluster] = message
    if bad:
        yield about(
            draft.intent,
            codes.INVALID,
            Severity.REMEDIABLE,
            tuple(bad),
            summary=f"{listed(bad)}: Cilium refuses the policy, so it has no effect",
            evidence="; ".join(f"{host}: condition Valid is False: {message}" for host, message in bad.items()),
            fix="Compare the message with the release notes of that version of Cilium, and change the intent.",
        )


def refused_by_cilium(there: ObjectFacts) -> str | None:
    """The message of a condition Valid that is False; None where there is none."""
    conditions: Any = there.status.get("conditions")
    entries = conditions if isinstance(conditions, (list, tuple)) else ()
    for entry in entries:
        if isinstance(entry, Mapping) and entry.get("type") == "Valid" and entry.get("status") == "False":
            return show(str(entry.get("message") or "no message"))
    return None
