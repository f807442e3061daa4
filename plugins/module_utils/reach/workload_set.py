# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Sets of workloads that no policy of any cluster distinguishes; and what else a flow can begin or end at: outsiders and nodes.

Two pods of a namespace belong to one set if every selector of every rule matches both or neither. So the number of sets follows from the
policies, and not from the number of pods. Sets are numbered, and a collection of sets is an integer with a bit for each number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from ..mesh.versions.cilium_config import ip_versions
from ..policies.evaluate.endpoints import EndpointKind, Party, PolicyEndpoint
from ..policies.evaluate.rules import Rule
from ..policies.evaluate.selectors import Selector
from ..policies.evaluate.world import PolicyWorld
from ..policies.workload_index import Group, WorkloadIndex
from .outside import Region, regions_of


class SetKind(StrEnum):
    """Kind of the members of a set."""

    WORKLOADS = "workloads"
    WORLD = "world"  # addresses outside of the clusters
    NODES = "nodes"  # of one cluster, as seen from any node but their own
    UNREAD = "unread"  # pods of a member of which nothing is known


@dataclass(frozen=True, kw_only=True)
class WorkloadSet:
    """Workloads of one cluster and namespace that policies treat alike, or something that stands for one endpoint."""

    number: int
    kind: SetKind
    host: str = ""  # inventory name; "" for the world
    namespace: str = ""
    workloads: tuple[str, ...] = ()  # names, of the kind WORKLOADS alone
    pods: int = 0
    party: Party | None = None  # None: nothing is known of it
    groups: tuple[int, ...] = ()  # numbers of the workload index
    shown: str = ""  # name of what is no workload

    @property
    def place(self) -> str:
        """Place of the set: ``shop in c1``, or what it is."""
        return f"{self.namespace} in {self.host}" if self.kind is SetKind.WORKLOADS else self.shown

    @property
    def weight(self) -> int:
        """Number of workloads; of what is no workload, 1."""
        return len(self.workloads) if self.kind is SetKind.WORKLOADS else 1


@dataclass(frozen=True)
class WorkloadSets:
    """All sets by number, and the sets that a selector matches in the state of ``index``."""

    index: WorkloadIndex
    sets: tuple[WorkloadSet, ...]
    sets_of_group: Mapping[int, int]
    """Number of a group of ``index`` -> bits of the sets that hold pods of it."""

    def __iter__(self) -> Iterator[WorkloadSet]:
        return iter(self.sets)

    def __len__(self) -> int:
        return len(self.sets)

    def __getitem__(self, number: int) -> WorkloadSet:
        return self.sets[number]

    @cached_property
    def _bits_of_selector(self) -> dict[Selector, tuple[int, int]]:
        return {}

    def matched(self, selector: Selector) -> tuple[int, int]:
        """Return the bits of the sets of workloads that the selector matches for sure, and of those that it perhaps does."""
        found = self._bits_of_selector.get(selector)
        if found is None:
            matched = self.index.matched(selector)
            found = self._bits_of_selector[selector] = (self._bits_of_groups(matched.sure), self._bits_of_groups(matched.perhaps))
        return found

    def _bits_of_groups(self, groups: Iterable[int]) -> int:
        found = 0
        for number in groups:
            found |= self.sets_of_group.get(number, 0)
        return found

    def seen_by(self, index: WorkloadIndex) -> WorkloadSets:
        """Return the same sets in another state of the same pods, in which their identities may be formed otherwise.

        The sets have to be made with both indexes (``workload_sets``).
        """
        if index is self.index:
            return self
        found: list[WorkloadSet] = []
        bits: dict[int, int] = {}
        numbers = _group_by_pod(index)
        for entry in self.sets:
            groups = tuple(dict.fromkeys(numbers[_pod_of(self.index.groups[number])] for number in entry.groups))
            for number in groups:
                bits[number] = bits.get(number, 0) | 1 << entry.number
            found.append(replace(entry, groups=groups, party=index.groups[groups[0]].party) if groups else entry)
        return WorkloadSets(index, tuple(found), bits)

    @cached_property
    def workloads(self) -> int:
        """Bits of the sets of workloads."""
        return bits_of(entry.number for entry in self.sets if entry.kind is SetKind.WORKLOADS)

    @cached_property
    def everything(self) -> int:
        """Bits of all sets."""
        return (1 << len(self.sets)) - 1

    @cached_property
    def _bits_of_weight(self) -> Mapping[int, int]:
        found: dict[int, int] = {}
        for entry in self.sets:
            found[entry.weight] = found.get(entry.weight, 0) | 1 << entry.number
        return found

    def weight(self, bits: int) -> int:
        """Return the number of workloads of the sets together."""
        return sum(weight * (bits & mask).bit_count() for weight, mask in self._bits_of_weight.items())


def bits_of(numbers: Iterable[int]) -> int:
    """Return the integer in which the bits with these numbers are set."""
    kept = list(numbers)
    if not kept:
        return 0
    found = bytearray(max(kept) // 8 + 1)
    for number in kept:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")


def numbers_of(bits: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, in order."""
    for place, byte in enumerate(bits.to_bytes((bits.bit_length() + 7) // 8, "little")):
        if byte:
            yield from (place * 8 + bit for bit in range(8) if byte >> bit & 1)


def first_of(bits: int) -> int:
    """Return the number of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def workload_sets(index: WorkloadIndex, *others: WorkloadIndex) -> WorkloadSets:
    """Return the sets that the policies of all states leave together, such as those of now and those after a plan.

    :param others: indexes of the same pods in other states. They form identities of the same labels, or of fewer.
    """
    states = (index, *others)
    rules = [rule for state in states for view in state.world.clusters.values() for rule in view.rules]
    found: list[WorkloadSet] = []
    unread = dict.fromkeys((*index.unread, *(host for host in index.scene.mesh.clusters if host not in index.world.clusters)))
    by_traits: dict[tuple[str, str, tuple[tuple[int, ...], ...]], list[Group]] = {}
    traits = [(_group_by_pod(state), _traits(state, rules)) for state in states]
    for group in index.groups:
        if group.host not in unread:
            every = tuple(mask[numbers[_pod_of(group)]] for numbers, mask in traits)
            by_traits.setdefault((group.host, group.namespace, every), []).append(group)
    for (host, namespace, _traits_of_it), groups in sorted(by_traits.items(), key=lambda item: (item[0][0], item[0][1], _name(item[1]))):
        names = sorted({name for group in groups for name in group.workloads})
        found.append(
            WorkloadSet(
                number=len(found),
                kind=SetKind.WORKLOADS,
                host=host,
                namespace=namespace,
                workloads=tuple(names),
                pods=sum(len(group.pods) for group in groups),
                party=groups[0].party,
                groups=tuple(group.number for group in groups),
            )
        )
    sets_of_group = {number: 1 << entry.number for entry in found for number in entry.groups}
    for region in regions_of(rules, _families(index)):
        found.append(_outsider(len(found), index.world, region))
    for host in index.world.clusters:
        party = index.world.party(PolicyEndpoint(kind=EndpointKind.REMOTE_NODE, cluster=host))
        found.append(WorkloadSet(number=len(found), kind=SetKind.NODES, host=host, party=party, shown=f"nodes of {host}"))
    for host in unread:
        found.append(WorkloadSet(number=len(found), kind=SetKind.UNREAD, host=host, shown=f"pods of {host}, not known"))
    return WorkloadSets(index, tuple(found), sets_of_group)


def _families(index: WorkloadIndex) -> tuple[int, ...]:
    """Return the IP families that any cluster has, as the chart writes them into cilium-config."""
    facts = [index.scene.facts[host] for host in index.world.clusters]
    return tuple(version for version in (4, 6) if not facts or any(version in ip_versions(entry) for entry in facts))


def _outsider(number: int, world: PolicyWorld, region: Region) -> WorkloadSet:
    party = world.party(PolicyEndpoint(kind=EndpointKind.WORLD, address=region.address))
    return WorkloadSet(number=number, kind=SetKind.WORLD, party=party, shown=region.shown)


Pod = tuple[str, str, str]
"""Host, namespace and name."""


def _group_by_pod(index: WorkloadIndex) -> Mapping[Pod, int]:
    return {(group.host, group.namespace, pod.name): group.number for group in index.groups for pod in group.pods}


def _pod_of(group: Group) -> Pod:
    return group.host, group.namespace, group.pods[0].name


def _name(groups: list[Group]) -> str:
    return min(name for group in groups for name in group.workloads)


def _traits(index: WorkloadIndex, rules: Iterable[Rule]) -> list[tuple[int, ...]]:
    """Return for each group the selectors that match it, or perhaps do, as numbers."""
    traits: list[list[int]] = [[] for _group in index.groups]
    for place, selector in enumerate(dict.fromkeys(selector for rule in rules for selector in selectors_of(rule))):
        matched = index.matched(selector)
        for number in matched.sure:
            traits[number].append(2 * place)
        for number in matched.perhaps:
            traits[number].append(2 * place + 1)
    return [tuple(entry) for entry in traits]


def selectors_of(rule: Rule) -> Iterator[Selector]:
    """Yield every label selector of the rule: that of the pods that it is about, and those of its peers."""
    yield rule.subject
    for section in rule.sections.values():
        yield from section.requires
        yield from section.requires_deny
        for entry in section.entries:
            yield from entry.peers.selectors
            yield from entry.peers.entities
