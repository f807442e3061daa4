# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Index of all pods by identity and of the policies that select them, prepared for questions about many intents. Pure.

Pods with the same identity are one group: Cilium treats them alike. Selectors are looked up by namespace, and every answer is
cached, so that one more intent costs little, however many pods there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from ..items.owned import contains, owning_item
from ..items.scene import Scene
from ..items.system import is_system_namespace
from ..mesh.binding.item_kinds import ItemRef
from ..mesh.facts.traffic import ObjectFacts, PodMeta
from .evaluate.endpoints import NAMESPACE, Party
from .evaluate.peers import Peers
from .evaluate.rules import Direction, Rule
from .evaluate.selectors import Selector
from .evaluate.ternary import Ternary
from .evaluate.verdict import isolating
from .evaluate.world import ClusterView, PolicyWorld, pod_endpoint, policy_world, rules_of

HASH_LABEL: Final = "pod-template-hash"
_UNSURE: Final = "\0"
"""Stands for a value that is not known; no label has it."""

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
        """Names of pods by name of their workload."""
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
    """Return the name of the workload of a pod.

    A pod does not name its Deployment; the name of a ReplicaSet without its hash is the Deployment's (or that of a similar kind).
    """
    kind, _sep, name = pod.owner.partition(" ")
    if not name:
        return f"Pod {pod.name}"
    hashed = pod.labels.get(HASH_LABEL, "")
    return name[: -len(hashed) - 1] if hashed and name.endswith(f"-{hashed}") else f"{kind} {name}"


@dataclass
class WorkloadIndex:
    """Index of all clusters whose policies and pods are known."""

    scene: Scene
    _matches: dict[Selector, Matched] = field(default_factory=dict)
    _by_value: dict[str, Mapping[str, frozenset[int]]] = field(default_factory=dict)
    _selecting: dict[int, list[tuple[Rule, Ternary]]] = field(default_factory=dict)

    @cached_property
    def world(self) -> PolicyWorld:
        """Policies of all clusters."""
        return policy_world(self.scene)

    @cached_property
    def unread(self) -> tuple[str, ...]:
        """Members whose pods are not known."""
        scene = self.scene
        return tuple(h for h in scene.mesh.clusters if h not in scene.traffic or scene.traffic[h].could_not_read("pods") is not None)

    @cached_property
    def mixed(self) -> tuple[str, ...]:
        """Members that do not say which pods run in the host's network (Kubernetes before 1.28)."""
        return tuple(host for host in self.world.clusters if self.scene.traffic[host].could_not_read("hostpods") is not None)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups, by number."""
        found: list[Group] = []
        for host in self.world.clusters:
            traffic = self.scene.traffic[host]
            by_identity: dict[tuple[str, frozenset[tuple[str, str]], tuple[str, ...]], tuple[Party, list[PodMeta]]] = {}
            seen: dict[tuple[str, frozenset[tuple[str, str]]], Any] = {}
            for pod in (pod for pod in traffic.pods if not pod.host_network):
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
    def system(self) -> frozenset[int]:
        """Numbers of the groups in system namespaces."""
        return frozenset(g.number for g in self.groups if is_system_namespace(g.namespace, self.scene.facts[g.host]))

    @cached_property
    def _numbers_by_pod(self) -> Mapping[tuple[str, str, str], int]:
        return {(group.host, group.namespace, pod.name): group.number for group in self.groups for pod in group.pods}

    @cached_property
    def _numbers_by_labels(self) -> Mapping[tuple[str, str, frozenset[tuple[str, str]]], int]:
        texts = ((g, {key.removeprefix("k8s:"): value for key, value in g.party.identity.labels.items()}) for g in self.groups)
        return {(group.host, group.namespace, _own_labels(labels)): group.number for group, labels in texts}

    def group_of(self, cluster_name: str, namespace: str, pod: str, labels: Mapping[str, str]) -> Group | None:
        """Return the group of a pod, or, of one that is gone, the group that has the labels of its identity."""
        host = next((host for host, view in self.world.clusters.items() if view.name == cluster_name), "")
        number = self._numbers_by_pod.get((host, namespace, pod))
        number = self._numbers_by_labels.get((host, namespace, _own_labels(labels))) if number is None else number
        return None if number is None else self.groups[number]

    @cached_property
    def all_numbers(self) -> frozenset[int]:
        """Numbers of all groups."""
        return frozenset(group.number for group in self.groups)

    @cached_property
    def _policies_by_item(self) -> Mapping[str, Mapping[ItemRef, frozenset[str]]]:
        """Policies by inventory name and the item that made them, as ``ObjectFacts.shown`` names them."""
        found: dict[str, dict[ItemRef, frozenset[str]]] = {}
        for host in self.world.clusters:
            items = found.setdefault(host, {})
            for policy in self.scene.traffic[host].policies:
                ref = owning_item(self.scene.binding, policy)
                if ref is not None:
                    items[ref] = items.get(ref, frozenset()) | {policy.shown}
        return found

    def policies_made_by(self, ref: ItemRef, host: str) -> frozenset[str]:
        """Return the policies that an item made in a cluster."""
        return self._policies_by_item.get(host, {}).get(ref, frozenset())

    def planned(self, compiled: Mapping[ItemRef, Mapping[str, Iterable[Body]]]) -> Planned:
        """Return the state after items have written their policies, by item and inventory name."""
        rules: dict[str, list[Rule]] = {host: [] for host in self.world.clusters}
        gone: dict[str, frozenset[str]] = {}
        for ref, bodies in compiled.items():
            for host in self.world.clusters:
                rules[host] += self.rules(host, bodies.get(host, ()))
                gone[host] = gone.get(host, frozenset()) | self.policies_made_by(ref, host)
        return Planned(self, {host: self.view(host).with_rules(rules[host]) for host in rules}, gone)

    def rules(self, host: str, bodies: Iterable[Body]) -> list[Rule]:
        """Return the rules of policies that are to be written. One that is there as it should be stays as Cilium has judged it."""
        view, known = self.world.clusters[host], self._policies_by_name.get(host, {})
        return rules_of((_facts_of_body(body, known) for body in bodies), view.name, view.settings)

    @cached_property
    def _policies_by_name(self) -> Mapping[str, Mapping[tuple[str, str, str], ObjectFacts]]:
        """Policies by inventory name and (kind, namespace, name)."""
        return {
            host: {(policy.kind, policy.namespace, policy.name): policy for policy in self.scene.traffic[host].policies}
            for host in self.world.clusters
        }

    def candidates(self, selector: Selector) -> Iterable[Group]:
        """Return the groups that may match: those that the most selective requirement leaves."""
        fewest: frozenset[int] | None = None
        for requirement in selector.requirements:
            if requirement.operator == "In" and requirement.sure:
                values = self._groups_by_value(requirement.key)
                known = frozenset().union(*(values.get(value, frozenset()) for value in (*requirement.values, _UNSURE)))
                fewest = known if fewest is None or len(known) < len(fewest) else fewest
        return self.groups if fewest is None else (self.groups[number] for number in sorted(fewest))

    def _groups_by_value(self, key: str) -> Mapping[str, frozenset[int]]:
        """Return the groups that have each value of a selector's key; indexed at the first request."""
        found = self._by_value.get(key)
        if found is None:
            numbers: dict[str, set[int]] = {}
            for group in self.groups:
                present, value = group.party.identity.value(key)
                if present is not False:
                    numbers.setdefault(_UNSURE if value is None else value, set()).add(group.number)
            found = self._by_value[key] = {value: frozenset(those) for value, those in numbers.items()}
        return found

    @cached_property
    def by_name(self) -> tuple[tuple[tuple[str, str], int], ...]:
        """((``production/frontend``, cluster), number of its group), in order. A workload whose pods differ has several rows."""
        return tuple(sorted(((f"{g.namespace}/{name}", g.host), g.number) for g in self.groups for name in g.workloads))

    @cached_property
    def _single_workload_groups(self) -> frozenset[int]:
        """Groups that are exactly one workload."""
        names: dict[tuple[str, str], int] = {}
        for name, _number in self.by_name:
            names[name] = names.get(name, 0) + 1
        return frozenset(number for name, number in self.by_name if names[name] == 1 and len(self.groups[number].workloads) == 1)

    def workloads_in(self, numbers: Collection[int]) -> int:
        """Return the number of workloads in the groups."""
        those = frozenset(numbers)
        rest = those - self._single_workload_groups
        return len(those & self._single_workload_groups) + (len({name for name, number in self.by_name if number in rest}) if rest else 0)

    def matched(self, selector: Selector) -> Matched:
        """Return the groups that the selector matches."""
        found = self._matches.get(selector)
        if found is None:
            answers = [(group.number, selector.matches(group.party.identity)) for group in self.candidates(selector)]
            found = Matched(frozenset(n for n, a in answers if a), frozenset(n for n, a in answers if a is None))
            self._matches[selector] = found
        return found

    def peers(self, peers: Peers, requires: Sequence[Selector] = ()) -> Matched:
        """Return the groups that are peers of a rule."""
        if peers.anyone:
            return Matched(self.all_numbers)
        found = Matched(frozenset(), self.all_numbers if peers.doubts else frozenset())
        for selector in peers.entities:
            found |= self.matched(selector)
        for selector in peers.selectors:
            found |= self._restricted(self.matched(selector), requires)
        return found

    def _restricted(self, found: Matched, requires: Sequence[Selector]) -> Matched:
        for demand in requires:
            known = self.matched(demand)
            found = Matched(
                found.sure & known.sure, (found.sure | found.perhaps) & (known.sure | known.perhaps) - (found.sure & known.sure)
            )
        return found

    def selected(self, host: str, rule: Rule) -> list[Group]:
        """Return the groups of a cluster that the rule selects, or perhaps does."""
        matched = self.matched(rule.subject)
        return [self.groups[number] for number in sorted(matched.sure | matched.perhaps) if self.groups[number].host == host]

    def selecting(self, group: Group) -> list[tuple[Rule, Ternary]]:
        """Return the observed rules that select the group, or perhaps do."""
        found = self._selecting.get(group.number)
        if found is None:
            found = self._selecting[group.number] = self.world.clusters[group.host].selecting(group.party)
        return found

    def view(self, host: str) -> ClusterView:
        """Return the policies of a cluster."""
        return self.world.clusters[host]

    @cached_property
    def with_egress_policy(self) -> frozenset[int]:
        """Groups that a policy on egress selects, or perhaps does."""
        found: set[int] = set()
        for host, view in self.world.clusters.items():
            for rule in view.rules:
                if Direction.EGRESS in rule.sections and view.settings.enforced:
                    matched = self.matched(rule.subject)
                    found |= {number for number in matched.sure | matched.perhaps if self.groups[number].host == host}
        return frozenset(found)

    def may_send(self, source: Group, destination: Group) -> bool:
        """Return whether the source's egress may let it out to the destination; True also where that is unknown."""
        view = self.view(source.host)
        if view.settings.enforced and view.settings.mode == "always" and source.number not in self.with_egress_policy:
            return False
        if source.number not in self.with_egress_policy:
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
    """Policies that hold when the items of a run have been written."""

    index: WorkloadIndex
    views: Mapping[str, ClusterView]  # with the rules that are about to be written, and no others
    gone: Mapping[str, frozenset[str]]  # policies that these replace
    _selecting: dict[int, list[tuple[Rule, Ternary]]] = field(default_factory=dict)

    def selecting(self, group: Group) -> list[tuple[Rule, Ternary]]:
        """Return the rules that will select the group, or perhaps will."""
        found = self._selecting.get(group.number)
        if found is None:
            gone = self.gone.get(group.host, frozenset())
            kept = [(rule, sure) for rule, sure in self.index.selecting(group) if rule.policy not in gone]
            found = self._selecting[group.number] = kept + self.views[group.host].selecting(group.party)
        return found


def index_workloads(scene: Scene) -> WorkloadIndex:
    """Return the workload index of the scene, made once per scene, as a ``cached_property`` would be."""
    kept = vars(scene)
    if "_workload_index" not in kept:
        kept["_workload_index"] = WorkloadIndex(scene)
    found: WorkloadIndex = kept["_workload_index"]
    return found


def _own_labels(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the labels of an identity that the pod itself has."""
    return frozenset((key, value) for key, value in labels.items() if not key.startswith("io.cilium.k8s") and key != NAMESPACE)


def _facts_of_body(body: Body, observed: Mapping[tuple[str, str, str], ObjectFacts]) -> ObjectFacts:
    kind, namespace, name = str(body["kind"]), body["metadata"].get("namespace", ""), body["metadata"]["name"]
    spec, known = body.get("spec") or {}, observed.get((kind, namespace, name))
    status = known.status if known is not None and contains(known.spec, spec) else {}
    return ObjectFacts(kind=kind, path="", namespace=namespace, name=name, spec=spec, status=status)
