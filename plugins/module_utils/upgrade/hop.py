# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hops of an upgrade: one member, one minor further; and the order in which linked members are never more than one minor apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..mesh.binding.model import Mesh
from ..mesh.versions.minors import Minor


@dataclass(frozen=True)
class UpgradeHop:
    """Upgrade of one member by one minor. All hops of a ``round`` lead to the same minor."""

    round: int
    host: str
    before: Minor
    after: Minor

    def __str__(self) -> str:
        return f"{self.host}: {self.before} to {self.after}"


def hops_of(minors: Mapping[str, Minor], target: Minor) -> tuple[UpgradeHop, ...]:
    """Return the hops that bring every member to ``target``, the members furthest behind first.

    Each round lifts all members of the lowest minor, one after the other. So two members are never further apart than one minor, or than
    they are now. Cilium's documentation allows one minor within a mesh, and one minor per upgrade.
    """
    state = dict(minors)
    found: list[UpgradeHop] = []
    rounds = 0
    while state and min(state.values()) < target:
        lowest = min(state.values())
        rounds += 1
        after = Minor(lowest.major, lowest.minor + 1)
        for host, minor in state.items():
            if minor == lowest:
                found.append(UpgradeHop(rounds, host, lowest, after))
                state[host] = after
    return tuple(found)


def skewed(mesh: Mesh, minors: Mapping[str, Minor]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of linked members that are more than one minor apart."""
    hosts = list(minors)
    return tuple(
        (one, other)
        for place, one in enumerate(hosts)
        for other in hosts[place + 1 :]
        if abs(minors[one].minor - minors[other].minor) > 1 and mesh.linked(one, other)
    )
