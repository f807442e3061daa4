# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Before an intent is written: whom its policies newly isolate, who loses access, and who is still kept out in spite of it. Pure.

It is told from the policies and pods that are there now (effects.py). Sources that no list shows (addresses outside, nodes, pods of
clusters that do not answer) are spoken of in general, and where something could not be read nothing is said to be certain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Final

from ..checks.wording import listed
from ..columns import count
from ..findings import Finding, Severity
from ..items.kinds import ItemKind, ItemRef
from ..items.models import ConnectivityIntent
from ..items.scene import Scene
from .effects import PAIRS, Effect, effect_of
from .isolation_codes import CANNOT_TELL, LOSE_ACCESS, NEWLY_ISOLATED, STILL_DENIED
from .landscape import Body, Group, Landscape, Planned, landscape_of
from .settings_findings import about

NAMED: Final = 5
"""Workloads and pods that are named; the others are counted."""


def planned_intents(compiled: Mapping[str, Mapping[str, Sequence[Body]]], scene: Scene) -> Planned:
    """All intents of a run, by name, as ``isolation_findings`` needs them to see what they are together.

    Without it each intent is judged as if it were the only one that changes: who is let in by another one of the same run would be said to
    lose access.
    """
    return landscape_of(scene).planned({ItemRef(ItemKind.INTENT, name): bodies for name, bodies in compiled.items()})


def isolation_findings(
    intent: ConnectivityIntent, compiled: Mapping[str, Sequence[Body]], scene: Scene, planned: Planned | None = None
) -> list[Finding]:
    """Findings about one intent; none when nobody is worse off and everybody it lets in gets in.

    :param compiled: by inventory name of the destination cluster, the policies that are to be written.
    :param planned: of all intents of the run, this one among them (``planned_intents``).
    """
    landscape = landscape_of(scene)
    together = planned or planned_intents({intent.name: compiled}, scene)
    found: list[Finding] = []
    effects = []
    for host, bodies in compiled.items():
        if host in landscape.world.clusters and landscape.view(host).settings.enforced:
            own = landscape.rules(host, bodies)
            effects.append(effect_of(landscape, together, host, own, allows=intent.action == "Allow"))
    for effect in effects:
        found += _isolated(intent, effect)
        found += _lose_access(intent, landscape, effect)
        found += _still_denied(intent, landscape, effect)
    return [*found, *_cannot_tell(intent, landscape, effects)]


def _isolated(intent: ConnectivityIntent, effect: Effect) -> list[Finding]:
    if not effect.isolated:
        return []
    pods = sum(len(group.pods) for group in effect.isolated)
    others = f"Besides this intent, {_policies(effect.allowing)} let somebody in" if effect.allowing else "No other policy lets anybody in"
    return [
        about(
            intent,
            NEWLY_ISOLATED,
            Severity.ADVISORY if intent.action == "Isolate" else Severity.REMEDIABLE,
            (effect.host,),
            summary=f"{effect.host}: {count(pods, 'pod')} that no policy isolates so far will only be reached by whom a policy lets in: "
            + _workloads(effect.isolated),
            evidence=f"{others}. {_outside(effect)}",
            fix=""
            if intent.action == "Isolate"
            else "Let in who else has to reach them by further intents with action Allow, in the same run.",
        )
    ]


def _outside(effect: Effect) -> str:
    """Of whom no list tells."""
    words = {True: "still reach them where a policy says so", False: "will not reach them any more", None: "reach them perhaps"}
    return (
        f"Addresses outside of the clusters {words[effect.world]}; other nodes {words[effect.nodes]}, "
        "which is also where traffic through a NodePort or load balancer may come from; the node of a pod always reaches it."
    )


def _lose_access(intent: ConnectivityIntent, landscape: Landscape, effect: Effect) -> list[Finding]:
    if not effect.lost:
        return []
    to = [*effect.isolated, *effect.perhaps_isolated] or list({group.number: group for group in effect.closed}.values())
    evidence = [f"Seen are {count(landscape.workloads_in(landscape.everybody), 'workload')} in {listed(landscape.world.clusters)}"]
    evidence += [f"of {listed(landscape.unread)} none is known"] if landscape.unread else []
    kept = effect.limited - effect.lost
    evidence += [f"{count(landscape.workloads_in(kept), 'workload')} keep the ports that policies name, and no others"] if kept else []
    unsure = effect.unsure - effect.lost
    evidence += [f"of {count(landscape.workloads_in(unsure), 'workload')} it cannot be told"] if unsure else []
    evidence += [f"only {PAIRS} pairs were looked at closely, of the others the worst is taken"] if effect.capped else []
    perhaps = "" if effect.isolated or effect.closed else "perhaps "
    workloads = count(landscape.workloads_in(effect.lost), "workload")
    return [
        about(
            intent,
            LOSE_ACCESS,
            Severity.REMEDIABLE if intent.action == "Allow" else Severity.ADVISORY,
            (effect.host,),
            summary=f"{effect.host}: {workloads} that the policies let reach {_workloads(to)} {perhaps}lose that: "
            + _sources(landscape, effect.lost),
            evidence="; ".join(evidence) + ". Who of them does speak to whom is not seen.",
            fix="Let in who has to reach them by further intents with action Allow, in the same run." if intent.action == "Allow" else "",
        )
    ]


def _still_denied(intent: ConnectivityIntent, landscape: Landscape, effect: Effect) -> list[Finding]:
    if not effect.refused:
        return []
    sources = frozenset(number for numbers in effect.refused.values() for number in numbers)
    workloads = count(landscape.workloads_in(sources), "workload")
    return [
        about(
            intent,
            STILL_DENIED,
            Severity.REMEDIABLE,
            (effect.host,),
            summary=f"{effect.host}: {workloads} that the intent lets in are still kept out: {_sources(landscape, sources)}",
            evidence="; ".join(sorted(effect.refused)[:NAMED]),
            fix="Change the policies that are named, or take these sources out of the intent. A deny beats every allow, and a policy about "
            "egress has to let the traffic out where it comes from.",
        )
    ]


def _cannot_tell(intent: ConnectivityIntent, landscape: Landscape, effects: Iterable[Effect]) -> list[Finding]:
    """What could not be read, or is not understood, and so keeps the rest from being certain."""
    scene, reasons = landscape.scene, {}
    for effect in effects:
        host, view = effect.host, landscape.view(effect.host)
        why = [f"{what} could not be read" for what in ("pods", "networkpolicies") if scene.traffic[host].could_not_read(what)]
        why += list(view.settings.doubts)
        if effect.perhaps_isolated and not why:
            strange = {r.policy for group in effect.perhaps_isolated for r, _sure in landscape.selecting(group) if r.problem}
            why.append(f"{_policies(strange) or 'some of its policies'} cannot be judged")
        if why:
            pods = sum(len(group.pods) for group in effect.perhaps_isolated)
            reasons[host] = ", ".join(why) + (f"; {count(pods, 'pod')} may be newly isolated" if pods else "")
    if not reasons:
        return []
    return [
        about(
            intent,
            CANNOT_TELL,
            Severity.ADVISORY,
            tuple(reasons),
            summary=f"{listed(reasons)}: whom the intent isolates, and who loses access, cannot be told for certain",
            evidence="; ".join(f"{host}: {why}" for host, why in reasons.items()),
            fix="Grant the right to list what could not be read, and look at the policies that are named; or look at the clusters yourself "
            "before you apply.",
        )
    ]


def _workloads(groups: Iterable[Group]) -> str:
    """``production/backend (3 pods: backend-1, backend-2 and 1 more)``."""
    pods: dict[str, list[str]] = {}
    for group in groups:
        for name, members in group.workloads.items():
            pods.setdefault(f"{group.namespace}/{name}", []).extend(members)
    shown = [f"{name} ({count(len(names), 'pod')}: {listed(names, 3)})" for name, names in sorted(pods.items())]
    return listed(shown, NAMED)


def _sources(landscape: Landscape, numbers: Collection[int]) -> str:
    """``production/frontend in c1``: the first of them by name."""
    named = (name for name, number in landscape.by_name if number in numbers)
    shown = list(islice((name for name, _same in groupby(named)), NAMED))
    more = landscape.workloads_in(numbers) - len(shown)
    return listed(shown) if more <= 0 else f"{', '.join(shown)} and {more} more"


def _policies(names: Iterable[str]) -> str:
    return listed(sorted(names), NAMED)
