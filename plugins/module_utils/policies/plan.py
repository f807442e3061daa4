# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan of ConnectivityIntents: items into steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..findings.finding import Finding
from ..findings.wording import item_finding, listed
from ..items.desired import Desired
from ..items.keeping import former_objects_finding
from ..items.models import ConnectivityIntent
from ..items.owned import DesiredObject, object_changes, owned_object, owning_item, prune_steps
from ..items.planned import ItemPlan, ItemVerdict
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.binding.model import Binding
from ..mesh.facts.traffic import ObjectFacts, TrafficFacts
from ..plan.steps import Step
from .compile import API_VERSION, Body, CannotExpress, destinations, policy_for
from .evaluate.rules import condition_of_refusal
from .impact_findings import IntentImpact, impact_findings, intent_impact, planned_intents
from .refused_policies import refused_policy_findings
from .scene_findings import absent_namespaces, namespace_findings, scene_findings, selection_text
from .settings_findings import identity_findings, settings_findings, version_findings
from .workload_index import Planned

COLLECTIONS: Final = {
    "CiliumNetworkPolicy": "ciliumnetworkpolicies",
    "CiliumClusterwideNetworkPolicy": "ciliumclusterwidenetworkpolicies",
}

Observed = Mapping[str, tuple[ObjectFacts, ...]]
"""Observed objects by inventory name."""


@dataclass(frozen=True, kw_only=True)
class IntentDetail:
    """Part of a plan that the status of an intent needs (``ItemPlan.detail``)."""

    wanted: tuple[DesiredObject, ...] = ()
    unwritten: Mapping[str, str] = field(default_factory=dict)  # destination cluster -> why nothing is written there
    impact: IntentImpact | None = None  # of what is written; None when nothing is


def plan_intents(desired: Desired, scene: Scene) -> list[ItemPlan]:
    """Return the plan of each intent. See ``KindRow`` (reconcile/kinds.py)."""
    place = _ObservedPolicies.of(scene)
    drafts = [_draft(intent, scene, place) for intent in desired.each(ConnectivityIntent)]
    written = [draft for draft in drafts if draft.written]
    together = planned_intents({draft.intent.name: draft.compiled for draft in drafts if draft.compiled}, scene) if written else None
    return [_plan(draft, scene, together) for draft in drafts]


def prune_intents(desired: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    """Return the steps that prune policies, and findings about policies of others. See ``KindRow`` (reconcile/kinds.py)."""
    if ItemKind.INTENT not in desired.kinds:
        return [], []
    policies = {host: cilium_policies(scene.traffic[host]) for host in scene.hosts}
    kept = desired.kept(ItemKind.INTENT)
    # Only a run that carries out intents evaluates the policies of others.
    findings = list(refused_policy_findings(scene)) if desired.of(ItemKind.INTENT) else []
    return prune_steps(scene.binding, ItemKind.INTENT, kept, policies), findings


def cilium_policies(traffic: TrafficFacts) -> tuple[ObjectFacts, ...]:
    """Return the policies of the kinds that an intent can make."""
    return tuple(entry for entry in traffic.policies if entry.kind in COLLECTIONS)


@dataclass(frozen=True)
class _ObservedPolicies:
    """Policies in the clusters, indexed once for all intents."""

    by_path: Mapping[str, Mapping[str, ObjectFacts]]
    by_item: Mapping[str, Mapping[ItemRef, tuple[ObjectFacts, ...]]]

    @classmethod
    def of(cls, scene: Scene) -> _ObservedPolicies:
        """Index the policies of the scene."""
        paths: dict[str, dict[str, ObjectFacts]] = {}
        owned: dict[str, dict[ItemRef, tuple[ObjectFacts, ...]]] = {}
        for host in scene.hosts:
            paths[host], owned[host] = {}, {}
            for entry in cilium_policies(scene.traffic[host]):
                paths[host][entry.path] = entry
                ref = owning_item(scene.binding, entry)
                if ref is not None:
                    owned[host][ref] = (*owned[host].get(ref, ()), entry)
        return cls(paths, owned)

    def observed(self, ref: ItemRef, wanted: Iterable[DesiredObject]) -> Observed:
        """Return the policies of the item, and those at the paths that it wants to write."""
        found = {host: {entry.path: entry for entry in owned.get(ref, ())} for host, owned in self.by_item.items()}
        for entry in wanted:
            observed = self.by_path[entry.cluster].get(entry.path)
            if observed is not None:
                found[entry.cluster][observed.path] = observed
        return {host: tuple(entries.values()) for host, entries in found.items()}


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """One intent before it is evaluated together with the others.

    ``refusals`` holds findings for which nothing can be written at all, ``kept`` those about former policies that are kept.
    """

    intent: ConnectivityIntent
    hosts: tuple[str, ...] = ()  # destinations of which something is known
    refusals: tuple[Finding, ...] = ()
    wanted: tuple[DesiredObject, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    observed: Observed = field(default_factory=dict)
    compiled: Mapping[str, tuple[Body, ...]] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    foreign: tuple[Finding, ...] = ()
    kept: tuple[Finding, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """Clusters where a policy is new or changed."""
        return tuple(dict.fromkeys(step.cluster for step in self.steps if step.verb != "delete"))


def _draft(intent: ConnectivityIntent, scene: Scene, place: _ObservedPolicies) -> _Draft:
    ref = intent.ref
    hosts = tuple(host for host in destinations(intent, scene.mesh.clusters) if host in scene.hosts)
    refusals = list(version_findings(intent, scene, hosts))
    bodies: dict[str, Body] = {}
    try:
        bodies = {host: _body(intent, host, scene) for host in hosts}
    except CannotExpress as error:
        refusals.append(_unknown_name_finding(intent, error))
    if refusals:
        return _Draft(intent=intent, refusals=tuple(refusals))
    absent = absent_namespaces(intent, scene)
    every = [_desired_policy(scene.binding, intent, host, body) for host, body in bodies.items()]
    wanted = tuple(entry for entry in every if entry.cluster not in absent)
    # A policy in a namespace that was reported as absent proves the contrary, and the item still asks for it.
    spared = {(entry.cluster, entry.path) for entry in every if entry.cluster in absent}
    seen = place.observed(ref, wanted)
    ours = {host: tuple(o for o in entries if (host, o.path) not in spared) for host, entries in seen.items()}
    observed, kept = _without_irreplaceable(intent, scene, wanted, absent, ours)
    steps, foreign = object_changes(scene.binding, ref, wanted, observed)
    return _Draft(
        intent=intent,
        hosts=hosts,
        wanted=wanted,
        absent=absent,
        observed=observed,
        compiled={entry.cluster: (bodies[entry.cluster],) for entry in wanted},
        steps=tuple(steps),
        foreign=tuple(foreign),
        kept=kept,
    )


def _without_irreplaceable(
    intent: ConnectivityIntent, scene: Scene, wanted: Iterable[DesiredObject], absent: Mapping[str, str], observed: Observed
) -> tuple[Observed, tuple[Finding, ...]]:
    """Return ``observed`` without former policies of the intent whose replacement cannot be written now, and the finding about those.

    A former policy is replaced by one in the same cluster; or, in a cluster that is no destination any more, by those in all destinations.
    """
    ref = ItemRef(ItemKind.INTENT, intent.name)
    paths: dict[str, set[str]] = {}
    for entry in wanted:
        paths.setdefault(entry.cluster, set()).add(entry.path)
    silent = {host: "the cluster does not answer" for host in destinations(intent, scene.mesh.clusters) if host not in scene.hosts}
    missing = {**silent, **absent}
    kept: dict[str, list[str]] = {}
    rest = dict(observed)
    for host, entries in observed.items():
        former = [o for o in entries if owning_item(scene.binding, o) == ref and o.path not in paths.get(host, ())]
        if former and missing and host not in paths:
            kept[host] = [entry.shown for entry in former]
            rest[host] = tuple(entry for entry in entries if entry not in former)
    return rest, ((former_objects_finding(ref, kept, missing),) if kept else ())


def _plan(draft: _Draft, scene: Scene, together: Planned | None) -> ItemPlan:
    intent = draft.intent
    ref = intent.ref
    if draft.refusals:
        return _refused(ref, draft.refusals)
    findings = [
        *draft.foreign,
        *draft.kept,
        *settings_findings(intent, scene, draft.hosts, draft.written),
        *identity_findings(intent, scene),
    ]
    findings += [*scene_findings(intent, scene), *namespace_findings(intent, scene), *_invalid_policy_findings(draft)]
    impact = intent_impact(intent, {host: draft.compiled[host] for host in draft.written}, scene, together) if draft.written else None
    findings += impact_findings(impact) if impact else []
    detail = IntentDetail(wanted=draft.wanted, unwritten=draft.absent, impact=impact)
    return ItemPlan(ref=ref, steps=draft.steps, findings=tuple(findings), unplaced=bool(draft.absent) and not draft.wanted, detail=detail)


def _body(intent: ConnectivityIntent, host: str, scene: Scene) -> Body:
    return policy_for(intent, host, names=scene.names, members=scene.mesh.clusters, binding=scene.binding)


def _desired_policy(binding: Binding, intent: ConnectivityIntent, host: str, body: Body) -> DesiredObject:
    namespace = body["metadata"].get("namespace", "")
    resource = COLLECTIONS[body["kind"]]
    collection = f"/apis/{API_VERSION}/namespaces/{namespace}/{resource}" if namespace else f"/apis/{API_VERSION}/{resource}"
    return owned_object(binding, intent.ref, host, collection, body, why=_purpose(intent))


def _purpose(intent: ConnectivityIntent) -> str:
    """Return text such as ``Allow pods of production with app=frontend in c1 and c2 to reach pods of production with app=backend``."""
    if intent.source is None:
        return f"Isolate {selection_text(intent.destination)}"
    return (
        f"{intent.action} {selection_text(intent.source)} in {listed(intent.source.clusters) or 'every member'} "
        f"to reach {selection_text(intent.destination)}"
    )


def _refused(ref: ItemRef, findings: Sequence[Finding]) -> ItemPlan:
    reason = "UnsupportedVersion" if any(finding.code == "CM-INT-01" for finding in findings) else "CannotExpress"
    message = "; ".join(finding.summary for finding in findings)
    return ItemPlan(ref=ref, verdict=ItemVerdict.REFUSED, reason=reason, message=message, findings=tuple(findings))


def _unknown_name_finding(intent: ConnectivityIntent, error: CannotExpress) -> Finding:
    return item_finding(
        intent.ref,
        "CM-INT-03",
        (),
        summary=" ".join(error.problems),
        evidence="A policy names clusters by cluster-name of their cilium-config, and neither the cluster nor the lease registry of "
        "any member gave it.",
        fix="Connect the cluster first (playbook connect), or leave it out of source.clusters and destination.clusters.",
    )


def _invalid_policy_findings(draft: _Draft) -> Iterator[Finding]:
    """Yield a finding if Cilium's operator rejects an unchanged policy (condition Valid, from 1.16)."""
    bad: dict[str, str] = {}
    for entry in draft.wanted:
        observed = {found.path: found for found in draft.observed.get(entry.cluster, ())}.get(entry.path)
        message = condition_of_refusal(observed) if observed is not None and entry.cluster not in draft.written else None
        if message is not None:
            bad[entry.cluster] = message
    if bad:
        yield item_finding(
            draft.intent.ref,
            "CM-INT-15",
            tuple(bad),
            summary=f"{listed(bad)}: Cilium refuses the policy, so it has no effect",
            evidence="; ".join(f"{host}: condition Valid is False: {message}" for host, message in bad.items()),
            fix="Compare the message with the release notes of that version of Cilium, and change the intent.",
        )
