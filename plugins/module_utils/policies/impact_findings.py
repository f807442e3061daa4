# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings before an intent is written: pods that it isolates, workloads that lose access, sources that are still denied. Pure.

They follow from the present policies and pods (policies/impact.py). Sources that no list contains (addresses outside, nodes, pods of
clusters that do not answer) are described in general. Where something could not be read, no finding is called certain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Final

from ..base.tables import count
from ..findings.finding import Finding, Severity
from ..findings.wording import item_finding, listed
from ..items.models import ConnectivityIntent
from ..items.scene import Scene
from ..mesh.item_kinds import ItemKind, ItemRef
from .impact import PAIRS, Impact, impact_of
from .workload_index import Body, Group, Planned, WorkloadIndex, index_workloads

NAMED: Final = 5
"""Workloads and pods that are named; the others are counted."""


def planned_intents(compiled: Mapping[str, Mapping[str, Sequence[Body]]], scene: Scene) -> Planned:
    """Return all intents of a run, by name, so that ``impact_findings`` evaluates them together.

    Otherwise each intent would be evaluated as the only change: a source that another intent of the same run lets in would be reported
    as losing access.
    """
    return index_workloads(scene).planned({ItemRef(ItemKind.INTENT, name): bodies for name, bodies in compiled.items()})


def impact_findings(
    intent: ConnectivityIntent, compiled: Mapping[str, Sequence[Body]], scene: Scene, planned: Planned | None = None
) -> list[Finding]:
    """Return the findings about one intent; none if no workload loses access and every source that it allows gets in.

    :param compiled: by inventory name of the destination cluster, the policies that are to be written.
    :param planned: all intents of the run, this one among them (``planned_intents``).
    """
    index = index_workloads(scene)
    together = planned or planned_intents({intent.name: compiled}, scene)
    found: list[Finding] = []
    effects = []
    for host, bodies in compiled.items():
        if host in index.world.clusters and index.view(host).settings.enforced:
            own = index.rules(host, bodies)
            effects.append(impact_of(index, together, host, own, allows=intent.action == "Allow"))
    for effect in effects:
        found += _newly_isolated_findings(intent, effect)
        found += _lost_access_findings(intent, index, effect)
        found += _refused_source_findings(intent, index, effect)
    return [*found, *_uncertainty_findings(intent, index, effects)]


def _newly_isolated_findings(intent: ConnectivityIntent, effect: Impact) -> list[Finding]:
    if not effect.isolated:
        return []
    pods = sum(len(group.pods) for group in effect.isolated)
    others = (
        f"Besides this intent, {_policies_text(effect.allowing)} allow sources" if effect.allowing else "No other policy allows any source"
    )
    return [
        item_finding(
            intent.ref,
            "CM-INT-30",
            (effect.host,),
            severity=Severity.ADVISORY if intent.action == "Isolate" else Severity.REMEDIABLE,
            summary=f"{effect.host}: {count(pods, 'pod')} that no policy isolates so far will accept only the sources that a policy "
            "allows: " + _workloads_text(effect.isolated),
            evidence=f"{others}. {_unlisted_sources_text(effect)}",
            fix=""
            if intent.action == "Isolate"
            else "Allow the other sources that need access with further intents (action Allow), in the same run.",
        )
    ]


def _unlisted_sources_text(effect: Impact) -> str:
    """Return a sentence about the sources that no list contains."""
    words = {True: "still reach them where a policy allows it", False: "will not reach them any more", None: "may still reach them"}
    return (
        f"Addresses outside of the clusters {words[effect.world]}; other nodes {words[effect.nodes]}, "
        "which is also where traffic through a NodePort or load balancer may come from; the node of a pod always reaches it."
    )


def _lost_access_findings(intent: ConnectivityIntent, index: WorkloadIndex, effect: Impact) -> list[Finding]:
    if not effect.lost:
        return []
    to = [*effect.isolated, *effect.perhaps_isolated] or list({group.number: group for group in effect.closed}.values())
    evidence = [f"{count(index.workloads_in(index.all_numbers), 'workload')} of {listed(index.world.clusters)} were evaluated"]
    evidence += [f"no workload of {listed(index.unread)} is known"] if index.unread else []
    kept = effect.limited - effect.lost
    evidence += [f"{count(index.workloads_in(kept), 'workload')} keep the ports that policies name, and no others"] if kept else []
    unsure = effect.unsure - effect.lost
    evidence += [f"for {count(index.workloads_in(unsure), 'workload')} the effect is not known"] if unsure else []
    evidence += [f"only {PAIRS} pairs were evaluated one by one; for the others the worst case is assumed"] if effect.limit_reached else []
    perhaps = "" if effect.isolated or effect.closed else "perhaps "
    workloads = count(index.workloads_in(effect.lost), "workload")
    return [
        item_finding(
            intent.ref,
            "CM-INT-31",
            (effect.host,),
            severity=Severity.REMEDIABLE if intent.action == "Allow" else Severity.ADVISORY,
            summary=f"{effect.host}: {workloads} that the policies let reach {_workloads_text(to)} {perhaps}lose that: "
            + _sources_text(index, effect.lost),
            evidence="; ".join(evidence) + ". Whether they do use these connections is not known.",
            fix="Allow the sources that need access with further intents (action Allow), in the same run."
            if intent.action == "Allow"
            else "",
        )
    ]


def _refused_source_findings(intent: ConnectivityIntent, index: WorkloadIndex, effect: Impact) -> list[Finding]:
    if not effect.refused:
        return []
    sources = frozenset(number for numbers in effect.refused.values() for number in numbers)
    workloads = count(index.workloads_in(sources), "workload")
    return [
        item_finding(
            intent.ref,
            "CM-INT-33",
            (effect.host,),
            summary=f"{effect.host}: {workloads} that the intent lets in are still kept out: {_sources_text(index, sources)}",
            evidence="; ".join(sorted(effect.refused)[:NAMED]),
            fix="Change the policies that are named, or take these sources out of the intent. A deny beats every allow, and a policy about "
            "egress has to let the traffic out where it comes from.",
        )
    ]


def _uncertainty_findings(intent: ConnectivityIntent, index: WorkloadIndex, effects: Iterable[Impact]) -> list[Finding]:
    """Return a finding about what could not be read, or is not understood."""
    scene, reasons = index.scene, {}
    for effect in effects:
        host, view = effect.host, index.view(effect.host)
        why = [f"{what} could not be read" for what in ("pods", "networkpolicies") if scene.traffic[host].could_not_read(what)]
        why += list(view.settings.doubts)
        if effect.perhaps_isolated and not why:
            strange = {r.policy for group in effect.perhaps_isolated for r, _sure in index.selecting(group) if r.problem}
            why.append(f"{_policies_text(strange) or 'some of its policies'} cannot be evaluated")
        if why:
            pods = sum(len(group.pods) for group in effect.perhaps_isolated)
            reasons[host] = ", ".join(why) + (f"; {count(pods, 'pod')} may be newly isolated" if pods else "")
    if not reasons:
        return []
    return [
        item_finding(
            intent.ref,
            "CM-INT-32",
            tuple(reasons),
            summary=f"{listed(reasons)}: which pods the intent isolates, and which lose access, is not certain",
            evidence="; ".join(f"{host}: {why}" for host, why in reasons.items()),
            fix="Grant the right to list what could not be read, and check the policies that are named; or check the clusters yourself "
            "before you apply.",
        )
    ]


def _workloads_text(groups: Iterable[Group]) -> str:
    """Return text such as ``production/backend (3 pods: backend-1, backend-2 and 1 more)``."""
    pods: dict[str, list[str]] = {}
    for group in groups:
        for name, members in group.workloads.items():
            pods.setdefault(f"{group.namespace}/{name}", []).extend(members)
    shown = [f"{name} ({count(len(names), 'pod')}: {listed(names, 3)})" for name, names in sorted(pods.items())]
    return listed(shown, NAMED)


def _sources_text(index: WorkloadIndex, numbers: Collection[int]) -> str:
    """Return the first sources by name, such as ``production/frontend in c1``."""
    named = (name for name, number in index.by_name if number in numbers)
    shown = list(islice((name for name, _same in groupby(named)), NAMED))
    more = index.workloads_in(numbers) - len(shown)
    return listed(shown) if more <= 0 else f"{', '.join(shown)} and {more} more"


def _policies_text(names: Iterable[str]) -> str:
    return listed(sorted(names), NAMED)
