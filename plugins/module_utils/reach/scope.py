# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scope of a question about reach: the sources and destinations that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import Problems, quoted, sentence, suggest
from .workload_set import SetKind, WorkloadSet, WorkloadSets, bits_of

KEYS: Final = ("cluster", "namespace", "workload")


@dataclass(frozen=True, kw_only=True)
class End:
    """Source or destination of a question; "" is any."""

    cluster: str = ""  # inventory name
    namespace: str = ""
    workload: str = ""

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.cluster or self.namespace or self.workload)

    def __str__(self) -> str:
        """Text such as ``workload web of shop in c1``; "" for everything."""
        parts = [("workload", self.workload), ("namespace", self.namespace), ("cluster", self.cluster)]
        return " of ".join(f"{word} {name}" for word, name in parts if name)

    def workloads(self, entry: WorkloadSet) -> tuple[str, ...]:
        """Return the workloads of a set that belong to this end."""
        if entry.kind is not SetKind.WORKLOADS or self.cluster not in ("", entry.host) or self.namespace not in ("", entry.namespace):
            return ()
        return entry.workloads if not self.workload else tuple(name for name in entry.workloads if name == self.workload)


@dataclass(frozen=True, kw_only=True)
class ReachScope:
    """Ends of a question. Without a source it is about outsiders and nodes too."""

    source: End = field(default_factory=End)
    destination: End = field(default_factory=End)

    @property
    def named(self) -> bool:
        """Whether the question names a source or a destination."""
        return not (self.source.everything and self.destination.everything)

    def sources(self, sets: WorkloadSets) -> int:
        """Return the bits of the sources."""
        return _bits(sets, self.source)

    def destinations(self, sets: WorkloadSets) -> int:
        """Return the bits of the destinations."""
        return _bits(sets, self.destination)


def _bits(sets: WorkloadSets, end: End) -> int:
    if end.everything:
        return sets.everything
    unread = (entry for entry in sets if entry.kind is SetKind.UNREAD and end.cluster in ("", entry.host))
    return bits_of([*(entry.number for entry in sets if end.workloads(entry)), *(entry.number for entry in unread)])


def scope_of(params: Mapping[str, Any], members: Sequence[str]) -> ReachScope:
    """Parse the options ``source`` and ``destination``.

    :raises InvalidInput: an option is not valid; the message lists all of them.
    """
    problems = Problems()
    source, destination = (_end(problems, name, params.get(name), members) for name in ("source", "destination"))
    if problems.found:
        raise InvalidInput(sentence(problems.found), remedy="See docs/reach.md for how to name sources and destinations.")
    return ReachScope(source=source, destination=destination)


def _end(problems: Problems, path: str, value: Any, members: Sequence[str]) -> End:
    given = {key: entry for key, entry in problems.mapping(path, value, KEYS, optional=True).items() if key in KEYS and entry is not None}
    texts = {key: problems.typed(f"{path}.{key}", entry, str, "a text") or "" for key, entry in given.items()}
    cluster = texts.get("cluster", "")
    if cluster and cluster not in members:
        problems.add(f"{path}.cluster", f"{quoted(cluster)} is no member; {suggest(cluster, members, 'the members are')}")
    return End(**texts)


def check_ends(scope: ReachScope, sets: WorkloadSets) -> None:
    """Refuse an end that no workload belongs to: a gate about a misspelled name would always be passed.

    :raises InvalidInput: there is none.
    """
    for path, end in (("source", scope.source), ("destination", scope.destination)):
        if not end.everything and not _bits(sets, end):
            raise InvalidInput(
                f"{path}: there is no {end}.", remedy="Correct the names; a workload is named as its Deployment, or with its kind."
            )
