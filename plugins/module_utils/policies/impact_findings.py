# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings before an intent is written: pods that it isolates, workloads that lose access, sources that are still denied. Pure.

They follow from the present policies and pods (policies/impact.py), and from traffic that Hubble recorded where some is given. What is
alike in several clusters is one finding. Sources that no list contains (addresses outside, nodes, pods of clusters that do not answer) are
described in general, and workloads in system namespaces are counted. Where something could not be read, no finding is called certain.
docs/decisions/0041 has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final

from ..base.errors import clause
from ..base.tables import count
from ..findings.finding import Finding, Severity
from ..findings.wording import config_evidence, item_finding, listed
from ..items.models import ConnectivityIntent
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.flows import SeenFlows
from .cut_flows import NODES, WORLD, Cut, Cuts, Source, cut_flows
from .impact import PAIRS, Impact, impact_of
from .workload_index import Body, Group, Planned, WorkloadIndex, index_workloads

NAMED: Final = 5
"""Workloads and pods that are named; the others are counted."""

_CLUSTERS: Final = 4  # clusters that a summary names
_MINUTE: Final = 60
_ALLOW_OTHERS: Final = "Allow the sources that need access with further intents (action Allow), in the same run."


def planned_intents(compiled: Mapping[str, Mapping[str, Sequence[Body]]], scene: Scene) -> Planned:
    """Return all intents of a run, by name, so that ``intent_impact`` evaluates them together.

    Otherwise each intent would be evaluated as the only change: a source that another intent of the same run lets in would be reported
    as losing access.
    """
    return index_workloads(scene).planned({ItemRef(ItemKind.INTENT, name): bodies for name, bodies in compiled.items()})


@dataclass(frozen=True)
class IntentImpact:
    """Impact of one intent in each destination cluster where it is enforced."""

    intent: ConnectivityIntent
    index: WorkloadIndex
    planned: Planned
    effects: tuple[Impact, ...]

    @property
    def cutting(self) -> tuple[str, ...]:
        """Clusters in which sources lose access, or may lose it, or pods become isolated."""
        return tuple(effect.host for effect in self.effects if effect.watched)


def intent_impact(
    intent: ConnectivityIntent, compiled: Mapping[str, Sequence[Body]], scene: Scene, planned: Planned | None = None
) -> IntentImpact:
    """Return the impact of one intent.

    :param compiled: by inventory name of the destination cluster, the policies that are to be written.
    :param planned: all intents of the run, this one among them (``planned_intents``).
    """
    index = index_workloads(scene)
    together = planned or planned_intents({intent.name: compiled}, scene)
    effects = tuple(
        impact_of(index, together, host, index.rules(host, bodies), allows=intent.action == "Allow")
        for host, bodies in compiled.items()
        if host in index.world.clusters and index.view(host).settings.enforced
    )
    return IntentImpact(intent, index, together, effects)


def impact_findings(impact: IntentImpact, seen: Mapping[str, SeenFlows] | None = None) -> list[Finding]:
    """Return the findings about one intent; none if no workload loses access and every source that it allows gets in.

    :param seen: recorded traffic to the pods of the intent, by inventory name of their cluster. Without it, who speaks is not known.
    """
    intent, index, effects = impact.intent, impact.index, impact.effects
    traffic = _Traffic.of(impact, seen or {})
    found: list[Finding] = []
    for alike in _alike(effects, lambda effect: (_names(effect.isolated), frozenset(effect.allowing), effect.world, effect.nodes)):
        found += _newly_isolated_findings(intent, index, alike, traffic)
    for alike in _alike(effects, _loss):
        found += _lost_access_findings(intent, index, alike, traffic)
    for effect in effects:
        found += _refused_source_findings(intent, index, effect)
    return [*found, *_uncertainty_findings(intent, index, effects, traffic)]


def _alike(effects: Iterable[Impact], key: Callable[[Impact], Hashable]) -> list[list[Impact]]:
    """Return the effects in groups of those that are equal by ``key``, in order."""
    groups: dict[Hashable, list[Impact]] = {}
    for effect in effects:
        groups.setdefault(key(effect), []).append(effect)
    return list(groups.values())


def _names(groups: Iterable[Group]) -> frozenset[str]:
    return frozenset(f"{group.namespace}/{name}" for group in groups for name in group.workloads)


def _loss(effect: Impact) -> Hashable:
    certain = bool(effect.isolated or effect.closed)
    sources = (frozenset(effect.lost), frozenset(effect.unsure), frozenset(effect.limited))
    return _names(effect.targets.values()), certain, sources, effect.limit_reached


@dataclass(frozen=True)
class _Traffic:
    """Recorded traffic to the pods of one intent, and what of it is cut, by cluster of the destination."""

    seen: Mapping[str, SeenFlows] = field(default_factory=dict)
    cuts: Mapping[str, Cuts] = field(default_factory=dict)

    @classmethod
    def of(cls, impact: IntentImpact, seen: Mapping[str, SeenFlows]) -> _Traffic:
        index, planned, known = impact.index, impact.planned, (effect for effect in impact.effects if effect.host in seen)
        return cls(seen, {e.host: cut_flows(index, planned, e.host, e.watched, seen[e.host].flows) for e in known})

    def cut(self, hosts: Iterable[str]) -> dict[Source, Cut]:
        """Return what is cut for certain in several clusters together."""
        found: dict[Source, list[Cut]] = {}
        for source, cut in (row for host in hosts if host in self.cuts for row in self.cuts[host].sure.items()):
            found.setdefault(source, []).append(cut)
        return {source: Cut.sum(cuts) for source, cuts in found.items()}

    def perhaps_cut(self, host: str) -> list[Cut]:
        """Return what is perhaps cut in one cluster."""
        return list(self.cuts[host].perhaps.values()) if host in self.cuts else []

    def text(self, cut: Cut) -> str:
        """Return text such as ``on TCP 80 (17 flows in the last 5 minutes, last 12 s ago)``."""
        some = next(iter(self.seen.values()))
        age = max(0, round((some.now - cut.last).total_seconds()))
        last = f"last {age} s ago" if age < 2 * _MINUTE else f"last {age // _MINUTE} minutes ago"
        return f"on {listed(sorted(cut.ports), 3)} ({count(cut.packets, 'flow')} in the last {_window(some)}, {last})"

    def knowledge(self, hosts: Sequence[str]) -> list[str]:
        """Return sentences about what is not known of who speaks in these clusters."""
        recorded = [self.seen[host] for host in hosts if host in self.seen]
        unknown = list(dict.fromkeys(entry.unknown for entry in recorded if entry.unknown))
        notes = list(dict.fromkeys(note for entry in recorded for note in entry.notes if not entry.unknown))
        if len(recorded) < len(hosts) and not unknown:
            return ["Whether they use these connections is not known."]
        found = [f"Whether they use these connections is not known: {listed(unknown, 3)}."] if unknown else []
        return [*found, *([f"Not all of the traffic is known: {listed(notes, 3)}."] if notes else [])]

    def flows_of_answering(self, hosts: Iterable[str]) -> SeenFlows | None:
        """Return the recorded traffic of a cluster whose agents answered; None if none did."""
        return next((self.seen[host] for host in hosts if host in self.seen and not self.seen[host].unknown), None)


def _window(seen: SeenFlows) -> str:
    return count(round(seen.window / _MINUTE), "minute")


def _newly_isolated_findings(
    intent: ConnectivityIntent, index: WorkloadIndex, alike: Sequence[Impact], traffic: _Traffic
) -> Iterator[Finding]:
    effect, hosts = alike[0], [effect.host for effect in alike]
    isolated = [group for effect in alike for group in effect.isolated]
    if not isolated:
        return
    pods = sum(len(group.pods) for group in isolated)
    system = sum(len(group.pods) for group in isolated if group.number in index.system)
    cut = traffic.cut(hosts)
    others = (
        f"Besides this intent, {_policies_text(effect.allowing)} allow sources" if effect.allowing else "No other policy allows any source"
    )
    evidence = [
        *(f"{source.capitalize()} speak to them now {traffic.text(cut[source])}." for source in (WORLD, NODES) if source in cut),
        f"{count(system, 'pod')} of them run in system namespaces, so the cluster itself depends on them." if system else "",
        f"{others}. {_unlisted_sources_text(effect)}",
    ]
    usual = Severity.ADVISORY if intent.action == "Isolate" else Severity.REMEDIABLE
    yield item_finding(
        intent.ref,
        "CM-INT-30",
        hosts,
        severity=Severity.OUTAGE if system or WORLD in cut or NODES in cut else usual,
        summary=f"{listed(hosts, _CLUSTERS)}: {count(pods, 'pod')} that no policy isolates so far will accept only the sources that a "
        "policy allows: " + _workloads_text(isolated, name_pods=len(hosts) == 1),
        evidence=evidence,
        fix="" if intent.action == "Isolate" else _ALLOW_OTHERS,
    )


def _unlisted_sources_text(effect: Impact) -> str:
    """Return a sentence about the sources that no list contains."""
    words = {True: "still reach them where a policy allows it", False: "will not reach them any more", None: "may still reach them"}
    return (
        f"{WORLD.capitalize()} {words[effect.world]}; {NODES} {words[effect.nodes]}, "
        "which is also where traffic through a NodePort or load balancer may come from; the node of a pod always reaches it."
    )


def _lost_access_findings(
    intent: ConnectivityIntent, index: WorkloadIndex, alike: Sequence[Impact], traffic: _Traffic
) -> Iterator[Finding]:
    effect, hosts = alike[0], [effect.host for effect in alike]
    speaking = {source: cut for source, cut in traffic.cut(hosts).items() if isinstance(source, int)}
    lost = effect.lost | speaking.keys()
    if not lost:
        return
    named, system = lost - index.system, lost & index.system
    certain = bool(effect.isolated or effect.closed) or bool(speaking)
    places = index.workloads_in
    first = _Sources(index, named, {source: cut for source, cut in speaking.items() if source not in index.system})
    unheard = places(named - speaking.keys())
    flows = traffic.flows_of_answering(hosts)
    kept, unsure = effect.limited - lost, effect.unsure - lost
    read = [f"{count(places(index.all_numbers), 'workload')} of {listed(index.world.clusters)} were evaluated"]
    read += [f"no workload of {listed(index.unread)} is known"] if index.unread else []
    read += [f"{listed(index.mixed)} cannot tell pods of the host's network apart, which are counted as pods"] if index.mixed else []
    read += [f"{count(places(kept), 'workload')} keep the ports that policies name, and no others"] if kept else []
    read += [f"for {count(places(unsure), 'workload')} the effect is not known"] if unsure else []
    read += [f"only {PAIRS} pairs were evaluated one by one; for the others the worst case is assumed"] if effect.limit_reached else []
    evidence = [
        *(f"{name} speaks to it now {traffic.text(cut)}." for name, cut in first.speaking()),
        f"{count(unheard, 'workload')} {'was' if unheard == 1 else 'were'} not seen to speak to it in the last {_window(flows)}."
        if flows and unheard
        else "",
        _system_text(places(system), [cut for source, cut in speaking.items() if source in system], traffic),
        *traffic.knowledge(hosts),
        f"{'; '.join(read)}.",
    ]
    usual = Severity.ADVISORY if intent.action != "Allow" else Severity.OUTAGE if certain and named else Severity.REMEDIABLE
    workloads = count(places(named), "workload") if named else "system workloads alone"
    live = places(first.cuts.keys())
    yield item_finding(
        intent.ref,
        "CM-INT-31",
        hosts,
        severity=Severity.OUTAGE if speaking else usual,
        summary=f"{listed(hosts, _CLUSTERS)}: {workloads} {'' if certain else 'perhaps '}"
        f"lose{'s' if named and places(named) == 1 else ''} access to {_workloads_text(_targets(alike), name_pods=False)}"
        + (f", {live} of which {'speaks' if live == 1 else 'speak'} to it now" if live else "")
        + (f": {first.text()}" if named else ""),
        evidence=evidence,
        fix=_ALLOW_OTHERS if intent.action == "Allow" else "",
    )


def _targets(alike: Iterable[Impact]) -> list[Group]:
    """Return the groups that sources lose access to: those that perhaps become isolated only where others certainly do."""
    return [group for effect in alike for group in effect.targets.values()]


def _system_text(workloads: int, speaking: Collection[Cut], traffic: _Traffic) -> str:
    """Return a sentence that counts the system workloads that lose access; "" when there is none."""
    if not workloads:
        return ""
    more = f"{count(workloads, 'system workload')} {'loses' if workloads == 1 else 'lose'} access too"
    if not speaking:
        return f"{more}."
    return f"{more}, and {len(speaking)} of them speak{'s' if len(speaking) == 1 else ''} to it now {traffic.text(Cut.sum(speaking))}."


@dataclass(frozen=True)
class _Sources:
    """Sources that lose access: those that speak first, by number of packets, then the others by name."""

    index: WorkloadIndex
    numbers: Collection[int]
    cuts: Mapping[int, Cut]

    def text(self) -> str:
        """Return the first sources by name, each once, such as ``production/frontend in c1 and c2``, and the number of the others."""
        rows = [*self._speaking(), *islice(self._silent({name for name, _hosts, _cut in self._speaking()}), NAMED)][:NAMED]
        more = self.index.workloads_in(self.numbers) - sum(len(hosts) for _name, hosts, _cut in rows)
        shown = [f"{name} in {listed(hosts, 3)}" for name, hosts, _cut in rows]
        return "; ".join([*shown, *([f"and {count(more, 'more workload')}"] if more > 0 else [])])

    def speaking(self) -> Iterator[tuple[str, Cut]]:
        """Yield the first workloads that speak, as ``production/frontend in c1``."""
        for name, hosts, cut in self._speaking()[:NAMED]:
            where = [host for host in hosts if any(row == (name, host) and number in self.cuts for row, number in self.index.by_name)]
            yield f"{name} in {listed(where, 3)}", cut

    def _speaking(self) -> list[tuple[str, list[str], Cut]]:
        names = {name for number in self.cuts for name in _names([self.index.groups[number]])}
        found = []
        for name, hosts, numbers in self._rows(lambda name: name in names):
            cuts = [self.cuts[number] for number in numbers if number in self.cuts]
            found.append((name, hosts, Cut.sum(cuts)))
        return sorted(found, key=lambda row: (-row[2].packets, row[0]))

    def _silent(self, named: Collection[str]) -> Iterator[tuple[str, list[str], None]]:
        yield from ((name, hosts, None) for name, hosts, _numbers in self._rows(lambda name: name not in named))

    def _rows(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, list[str], list[int]]]:
        """Yield (workload, its clusters, its groups) in the order of names."""
        chosen = (row for row in self.index.by_name if row[1] in self.numbers and wanted(row[0][0]))
        for name, rows in groupby(chosen, key=lambda row: row[0][0]):
            those = list(rows)
            yield name, list(dict.fromkeys(host for (_name, host), _number in those)), [number for _where, number in those]


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
            summary=f"{effect.host}: {workloads} that the intent lets in are still kept out: {_Sources(index, sources, {}).text()}",
            evidence="; ".join(sorted(effect.refused)[:NAMED]),
            fix="Change the policies that are named, or take these sources out of the intent. A deny beats every allow, and a policy about "
            "egress has to let the traffic out where it comes from.",
        )
    ]


def _uncertainty_findings(intent: ConnectivityIntent, index: WorkloadIndex, effects: Iterable[Impact], traffic: _Traffic) -> list[Finding]:
    """Return a finding about what could not be read, or is not understood; remediable if recorded traffic may be cut."""
    scene, reasons, speaking = index.scene, {}, False
    for effect in effects:
        host, view = effect.host, index.view(effect.host)
        unread = [entry for what in ("pods", "networkpolicies") if (entry := scene.traffic[host].could_not_read(what)) is not None]
        why = [f"{entry.what} could not be read ({clause(entry.message)})" for entry in unread]
        why += list(view.settings.doubts)
        vague = [h for h in index.world.clusters if index.view(h).settings.filters.unread and (h == host or effect.unsure)]
        why += [f"which labels identities have in {h} is not known ({_unread_filters(scene, index, h)})" for h in vague]
        if effect.perhaps_isolated and not why:
            strange = {r.policy for group in effect.perhaps_isolated for r, _sure in index.selecting(group) if r.problem}
            why.append(f"{_policies_text(strange) or 'some of its policies'} cannot be evaluated")
        if why:
            pods = sum(len(group.pods) for group in effect.perhaps_isolated)
            cuts = traffic.perhaps_cut(host)
            speaking = speaking or bool(cuts)
            reasons[host] = ", ".join(why) + (f"; {count(pods, 'pod')} may be newly isolated" if pods else "")
            reasons[host] += f"; traffic that is there now may be cut {traffic.text(Cut.sum(cuts))}" if cuts else ""
    if not reasons:
        return []
    return [
        item_finding(
            intent.ref,
            "CM-INT-32",
            tuple(reasons),
            severity=Severity.REMEDIABLE if speaking else Severity.ADVISORY,
            summary=f"{listed(reasons)}: which pods the intent isolates, and which lose access, is not certain"
            + (", and traffic that is there now may be cut" if speaking else ""),
            evidence="; ".join(f"{host}: {why}" for host, why in reasons.items()),
            fix="Grant the right to list what could not be read, and check the policies that are named; or check the clusters yourself "
            "before you apply.",
        )
    ]


def _unread_filters(scene: Scene, index: WorkloadIndex, host: str) -> str:
    return config_evidence(scene.facts[host], *index.view(host).settings.filters.unread)


def _workloads_text(groups: Iterable[Group], *, name_pods: bool) -> str:
    """Return text such as ``production/backend (3 pods: backend-1, backend-2 and 1 more)``."""
    pods: dict[str, list[str]] = {}
    for group in groups:
        for name, members in group.workloads.items():
            pods.setdefault(f"{group.namespace}/{name}", []).extend(members)
    shown = [f"{name} ({count(len(p), 'pod')}{': ' + listed(p, 3) if name_pods else ''})" for name, p in sorted(pods.items())]
    return listed(shown, NAMED)


def _policies_text(names: Iterable[str]) -> str:
    return listed(sorted(names), NAMED)
