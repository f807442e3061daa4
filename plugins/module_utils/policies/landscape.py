# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who is there and which policies select them, prepared for questions about many intents. Pure.

Pods with the same identity are one group: Cilium treats them alike. Selectors are looked up by namespace, and every answer is kept, so that
asking for one more intent costs little however many pods there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ..items.facts import ObjectFacts, PodMeta
from ..items.kinds import ItemRef
from ..items.owned import item_of
from ..items.scene import Scene
from .evaluate.endpoints import Party
from .evaluate.peers import Peers
from .evaluate.rules import Direction, Rule
from .evaluate.selectors import Selector
from .evaluate.ternary import Ternary
from .evaluate.verdict import isolating
from .evaluate.world import ClusterView, World, pod_endpoint, rules_of, world_of

HASH_LABEL: Final = "pod-template-hash"
_UNSURE: Final = "\0"
"""In place of a value that cannot be told; no label has it."""

Body = Mapping[str, Any]
Selecting = Sequence[tuple[Rule, Ternary]]


@dataclass(frozen=True)
class Group:
    """Pods of one cluster and namespace that have the same identity."""

    number: int
    host: str
    namespace: str
    party: Party
    pods: tuple[PodMeta, ...]

    @cached_property
    def workloads(self) -> Mapping[str, tuple[str, ...]]:
        """Name -> names of its pods."""
        found: dict[str, list[str]] = {}
        for pod in self.pods:
            found.setdefault(workload_of(pod), []).append(pod.name)
        return {name: tuple(sorted(pods)) for name, pods in found.items()}


@dataclass(frozen=True)
class Matched:
    """Numbers of groups that match for sure, and of those that perhaps do."""

    sure: frozenset[int] = frozenset()
    perhaps: frozenset[int] = frozenset()

    def __or__(self, other: Matched) -> Matched:
        sure = self.sure | other.sure
        return Matched(sure, (self.perhaps | other.perhaps) - sure)


def workload_of(pod: PodMeta) -> str:
    """``Deployment``s are not seen from a pod; the name of a ReplicaSet without its hash is theirs (or that of another such kind)."""
    kind, _sep, name = pod.owner.partition(" ")
    if not name:
        return f"Pod {pod.name}"
    hashed = pod.labels.get(HASH_LABEL, "")
    return name[: -len(hashed) - 1] if hashed and name.endswith(f"-{hashed}") else f"{kind} {name}"


@dataclass
class Landscape:
    """All clusters whose policies and pods are known."""

    scene: Scene
    _matches: dict[Selector, Matched] = field(default_factory=dict)
    _by_value: dict[str, Mapping[str, frozenset[int]]] = field(default_factory=dict)
    _selecting: dict[int, list[tuple[Rule, Ternary]]] = field(default_factory=dict)

    @cached_property
    def world(self) -> World:
        return world_of(self.scene)

    @cached_property
    def unread(self) -> tuple[str, ...]:
        """Members whose pods are not known."""
        scene = self.scene
        return tuple(h for h in scene.mesh.clusters if h not in scene.traffic or scene.traffic[h].could_not_read("pods") is not None)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        found: list[Group] = []
        for host in self.world.clusters:
            traffic = self.scene.traffic[host]
            by_identity: dict[tuple[str, frozenset[tuple[str, str]], tuple[str, ...]], tuple[Party, list[PodMeta]]] = {}
            seen: dict[tuple[str, frozenset[tuple[str, str]]], Any] = {}
            for pod in traffic.pods:
                raw = (pod.namespace, frozenset(pod.labels.items()))
                if raw not in seen:
                    party = self.world.party(pod_endpoint(traffic, pod))
                    if party is None:
                        continue
                    seen[raw] = (pod.namespace, frozenset(party.identity.labels.items()), party.identity.unsure)
                    by_identity.setdefault(seen[raw], (party, []))
                by_identity[seen[raw]][1].append(pod)
            for (namespace, _labels, _unsure), (party, pods) in by_identity.items():
                found.append(Group(len(found), host, namespace, party, tuple(pods)))
        return tuple(found)

    @cached_property
    def everybody(self) -> frozenset[int]:
        return frozenset(group.number for group in self.groups)

    @cached_property
    def _made(self) -> Mapping[str, Mapping[ItemRef, frozenset[str]]]:
        """Inventory name -> item -> policies that it made there, as ``rules.shown`` names them."""
        found: dict[str, dict[ItemRef, frozenset[str]]] = {}
        for host in self.world.clusters:
            items = found.setdefault(host, {})
            for policy in self.scene.traffic[host].policies:
                ref = item_of(self.scene.binding, policy)
                if ref is not None:
                    items[ref] = items.get(ref, frozenset()) | {policy.shown}
        return found

    def made_by(self, ref: ItemRef, host: str) -> frozenset[str]:
        return self._made.get(host, {}).get(ref, frozenset())

    def planned(self, compiled: Mapping[ItemRef, Mapping[str, Iterable[Body]]]) -> Planned:
        """What items are about to write, by item and inventory name."""
        rules: dict[str, list[Rule]] = {host: [] for host in self.world.clusters}
        gone: dict[str, frozenset[str]] = {}
        for ref, bodies in compiled.items():
            for host in self.world.clusters:
                rules[host] += self.rules(host, bodies.get(host, ()))
                gone[host] = gone.get(host, frozenset()) | self.made_by(ref, host)
        return Planned(self, {host: self.view(host).with_rules(rules[host]) for host in rules}, gone)

    def rules(self, host: str, bodies: Iterable[Body]) -> list[Rule]:
        """Of policies that are to be written."""
        view = self.world.clusters[host]
        return rules_of((_as_facts(body) for body in bodies), view.name, view.settings)

    def candidates(self, selector: Selector) -> Iterable[Group]:
        """Groups that are worth a look: those that the most telling requirement leaves."""
        fewest: frozenset[int] | None = None
        for requirement in selector.requirements:
            if requirement.operator == "In" and requirement.sure:
                values = self._values(requirement.key)
                there = frozenset().union(*(values.get(value, frozenset()) for value in (*requirement.values, _UNSURE)))
                fewest = there if fewest is None or len(there) < len(fewest) else fewest
        return self.groups if fewest is None else (self.groups[number] for number in sorted(fewest))

    def _values(self, key: str) -> Mapping[str, frozenset[int]]:
        """Value of a selector's key -> groups that have it; made when it is first asked for."""
        found = self._by_value.get(key)
        if found is None:
            numbers: dict[str, set[int]] = {}
            for group in self.groups:
                present, value = group.party.identity.value(key)
                if present is not False:
                    numbers.setdefault(value if present else _UNSURE, set()).add(group.number)
            found = self._by_value[key] = {value: frozenset(those) for value, those in numbers.items()}
        return found

    @cached_property
    def by_name(self) -> tuple[tuple[str, int], ...]:
        """(``production/frontend in c1``, number of its group), in order. A workload whose pods differ is there more than once."""
        return tuple(sorted((f"{g.namespace}/{name} in {g.host}", g.number) for g in self.groups for name in g.workloads))

    @cached_property
    def _plain(self) -> frozenset[int]:
        """Groups that are exactly one workload."""
        names: dict[str, int] = {}
        for name, _number in self.by_name:
            names[name] = names.get(name, 0) + 1
        return frozenset(number for name, number in self.by_name if names[name] == 1 and len(self.groups[number].workloads) == 1)

    def workloads_in(self, numbers: Collection[int]) -> int:
        """How many workloads the groups are."""
        those = frozenset(numbers)
        rest = those - self._plain
        return len(those & self._plain) + (len({name for name, number in self.by_name if number in rest}) if rest else 0)

    def matched(self, selector: Selector) -> Matched:
        found = self._matches.get(selector)
        if found is None:
            answers = [(group.number, selector.matches(group.party.identity)) for group in self.candidates(selector)]
            found = Matched(frozenset(n for n, a in answers if a), frozenset(n for n, a in answers if a is None))
            self._matches[selector] = found
        return found

    def peers(self, peers: Peers, requires: Sequence[Selector] = ()) -> Matched:
        """Groups on the other side of a rule."""
        if peers.anyone:
            return Matched(self.everybody)
        found = Matched(frozenset(), self.everybody if peers.doubts else frozenset())
        for selector in peers.entities:
            found |= self.matched(selector)
        for selector in peers.selectors:
            found |= self._demanded(self.matched(selector), requires)
        return found

    def _demanded(self, found: Matched, requires: Sequence[Selector]) -> Matched:
        for demand in requires:
            there = self.matched(demand)
            found = Matched(
                found.sure & there.sure, (found.sure | found.perhaps) & (there.sure | there.perhaps) - (found.sure & there.sure)
            )
        return found

    def selected(self, host: str, rule: Rule) -> list[Group]:
        """Groups of a cluster that the rule selects for sure."""
        return [self.groups[number] for number in sorted(self.matched(rule.subject).sure) if self.groups[number].host == host]

    def selecting(self, group: Group) -> list[tuple[Rule, Ternary]]:
        """Observed rules that select the group, or perhaps do."""
        found = self._selecting.get(group.number)
        if found is None:
            found = self._selecting[group.number] = self.world.clusters[group.host].selecting(group.party)
        return found

    def view(self, host: str) -> ClusterView:
        return self.world.clusters[host]

    @cached_property
    def ruled_egress(self) -> frozenset[int]:
        """Groups that some policy about egress selects, or perhaps does."""
        found: set[int] = set()
        for host, view in self.world.clusters.items():
            for rule in view.rules:
                if Direction.EGRESS in rule.sections and view.settings.enforced:
                    matched = self.matched(rule.subject)
                    found |= {number for number in matched.sure | matched.perhaps if self.groups[number].host == host}
        return frozenset(found)

    def may_send(self, source: Group, destination: Group) -> bool:
        """Does the source's egress leave it any way at all? True also where that cannot be told."""
        view = self.view(source.host)
        if view.settings.enforced and view.settings.mode == "always" and source.number not in self.ruled_egress:
            return False
        if source.number not in self.ruled_egress:
            return True
        selecting = [(rule, sure) for rule, sure in self.selecting(source) if Direction.EGRESS in rule.sections]
        if not any(sure for _rule, sure in isolating(selecting, Direction.EGRESS)):
            return True
        return any(rule.problem or _lets_out(rule, destination) for rule, _sure in selecting)


def _lets_out(rule: Rule, destination: Group) -> bool:
    entries = rule.sections[Direction.EGRESS].entries
    return any(not entry.deny and entry.peers.match(destination.party) is not False for entry in entries)


@dataclass
class Planned:
    """What will hold when the items of a run have been written."""

    landscape: Landscape
    views: Mapping[str, ClusterView]  # with the rules that are about to be written, and no others
    gone: Mapping[str, frozenset[str]]  # policies that these replace
    _selecting: dict[int, list[tuple[Rule, Ternary]]] = field(default_factory=dict)

    def selecting(self, group: Group) -> list[tuple[Rule, Ternary]]:
        """Rules that will select the group, or perhaps will."""
        found = self._selecting.get(group.number)
        if found is None:
            gone = self.gone.get(group.host, frozenset())
            kept = [(rule, sure) for rule, sure in self.landscape.selecting(group) if rule.policy not in gone]
            found = self._selecting[group.number] = kept + self.views[group.host].selecting(group.party)
        return found


def landscape_of(scene: Scene) -> Landscape:
    """The same one for the same scene: it lives as long as the scene does, as a ``cached_property`` would."""
    kept = vars(scene)
    if "_landscape" not in kept:
        kept["_landscape"] = Landscape(scene)
    found: Landscape = kept["_landscape"]
    return found


def _as_facts(body: Body) -> ObjectFacts:
    metadata = body["metadata"]
    return ObjectFacts(
        kind=str(body["kind"]), path="", namespace=metadata.get("namespace", ""), name=metadata["name"], spec=body.get("spec") or {}
    )
