# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Losses that are rehearsed: members, links and networks that are gone at the same time, as users name them or one after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import Problems, child_path, is_list, json_type_name, list_items, quoted, sentence, suggest
from ..base.tables import count
from ..mesh.binding.model import Mesh

KEYS: Final = ("name", "members", "links", "networks")
NAME_LIMIT: Final = 100
NAMED: Final = 4


class LossKind(StrEnum):
    """Kinds of losses that are rehearsed one after the other."""

    MEMBERS = "members"
    LINKS = "links"
    NETWORKS = "networks"


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Members, links and networks that are gone at the same time.

    ``links``: ordered pairs (cluster, peer): the cluster does not read the peer any more, and packets still pass. ``networks``: unordered
    pairs between which no packet passes, sorted; their links are gone too.
    """

    name: str
    kind: str  # "members", "links", "networks", or "named"
    members: frozenset[str] = frozenset()
    links: frozenset[tuple[str, str]] = frozenset()
    networks: frozenset[tuple[str, str]] = frozenset()

    @cached_property
    def dead(self) -> frozenset[tuple[str, str]]:
        """Ordered pairs (cluster, peer) of which the peer's backends do not answer the cluster's clients, but for members that are gone."""
        return frozenset({*self.networks, *((b, a) for a, b in self.networks)})

    def dead_for(self, host: str) -> frozenset[str]:
        """Return the clusters whose backends do not answer clients of ``host``."""
        return self.members | {peer for cluster, peer in self.dead if cluster == host}

    def frozen_for(self, host: str) -> frozenset[str]:
        """Return the clusters of which ``host`` receives no change any more, although their backends answer."""
        return frozenset(peer for cluster, peer in self.links if cluster == host) - self.dead_for(host)

    def reaches(self, host: str, peer: str) -> bool:
        """Return whether ``host`` still reads ``peer`` and its backends answer."""
        lost = (host, peer) in self.links or (host, peer) in self.dead
        return host not in self.members and peer not in self.members and not lost

    def concerns(self, host: str) -> bool:
        """Return whether the services, clients or links of ``host`` may be touched: a member that is gone is missed by all of them."""
        return bool(self.members) or any(host in pair for pair in (*self.links, *self.networks))

    def to_dict(self) -> dict[str, Any]:
        """Return the loss as results have it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "members": sorted(self.members),
            "links": [list(pair) for pair in sorted(self.links)],
            "networks": [list(pair) for pair in sorted(self.networks)],
        }


def each_loss(mesh: Mesh, kinds: Collection[LossKind]) -> tuple[Loss, ...]:
    """Return one loss for each member, each pair of linked members whose links are gone, and each pair without a network."""
    place = {host: number for number, host in enumerate(mesh.clusters)}
    pairs = [(a, b) for a, b in mesh.links if place[a] < place[b]] if set(kinds) - {LossKind.MEMBERS} else []
    found = [Loss(name=f"{host} is gone", kind="members", members=frozenset({host})) for host in mesh.clusters if LossKind.MEMBERS in kinds]
    if LossKind.LINKS in kinds:
        found += [Loss(name=f"links {a} - {b} are cut", kind="links", links=frozenset({(a, b), (b, a)})) for a, b in pairs]
    if LossKind.NETWORKS in kinds:
        found += [Loss(name=f"network {a} - {b} is cut", kind="networks", networks=frozenset({_sorted(a, b)})) for a, b in pairs]
    return tuple(found)


def named_losses(raw: Any, mesh: Mesh) -> tuple[Loss, ...]:
    """Parse the losses that the user names.

    :raises InvalidInput: when one is not valid; the message lists all problems.
    """
    problems, found = Problems(), []
    for path, entry in list_items(problems, "losses", raw, "losses"):
        given = problems.mapping(path, entry, KEYS, optional=False)
        members = _members(problems, child_path(path, "members"), given.get("members"), mesh)
        links = _pairs(problems, child_path(path, "links"), given.get("links"), mesh)
        networks = frozenset(_sorted(a, b) for a, b in _pairs(problems, child_path(path, "networks"), given.get("networks"), mesh))
        if given and not members and not links and not networks and not problems.found:
            problems.add(path, "names nothing that is gone: give members, links or networks")
        if members and members >= frozenset(mesh.clusters):
            problems.add(child_path(path, "members"), "are all members of the mesh; nothing would remain to be rehearsed")
        name = problems.typed(child_path(path, "name"), given.get("name"), str, "a text")
        if name is not None and (not name.strip() or len(name) > NAME_LIMIT or not name.isprintable()):
            problems.add(child_path(path, "name"), f"must be one printable line of at most {NAME_LIMIT} characters")
        found.append(Loss(name=name or _name(members, links, networks), kind="named", members=members, links=links, networks=networks))
    if problems.found:
        raise InvalidInput(
            f"losses has {count(len(problems.found), 'problem')}: {sentence(problems.found)}", remedy="No cluster was asked."
        )
    return tuple(found)


def _sorted(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def _members(problems: Problems, path: str, raw: Any, mesh: Mesh) -> frozenset[str]:
    found = set()
    for place, value in list_items(problems, path, raw, "inventory names"):
        if _is_member(problems, place, value, mesh):
            found.add(str(value))
    return frozenset(found)


def _is_member(problems: Problems, path: str, value: Any, mesh: Mesh) -> bool:
    if not isinstance(value, str):
        problems.add(path, f"must be the inventory name of a member, not {json_type_name(value)}")
    elif value not in mesh.clusters:
        problems.add(path, f"{quoted(value)} is no member of the mesh; {suggest(value, mesh.clusters, 'its members are')}")
    else:
        return True
    return False


def _are_members(problems: Problems, path: str, values: Sequence[Any], mesh: Mesh) -> bool:
    valid = [_is_member(problems, f"{path}[{place}]", value, mesh) for place, value in enumerate(values)]  # reports every problem
    return all(valid)


def _pairs(problems: Problems, path: str, raw: Any, mesh: Mesh) -> frozenset[tuple[str, str]]:
    found = set()
    for place, value in list_items(problems, path, raw, "pairs of inventory names"):
        if not is_list(value) or len(value) != 2:
            problems.add(place, "must be a pair of inventory names, as [c1, c2]")
        elif _are_members(problems, place, value, mesh):
            local, peer = str(value[0]), str(value[1])
            if mesh.linked(local, peer):
                found.add((local, peer))
            else:
                problems.add(place, f"{quoted(local)} and {quoted(peer)} have no links to each other in this mesh")
    return frozenset(found)


def _name(members: frozenset[str], links: frozenset[tuple[str, str]], networks: frozenset[tuple[str, str]]) -> str:
    parts = [f"{_listed(sorted(members))} {'is' if len(members) == 1 else 'are'} gone"] if members else []
    parts += [f"links {_listed([f'{a} -> {b}' for a, b in sorted(links)])} are cut"] if links else []
    parts += [f"networks {_listed([f'{a} - {b}' for a, b in sorted(networks)])} are cut"] if networks else []
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
