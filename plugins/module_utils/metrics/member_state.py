# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""State of members and links: what they are with regard to what was asked for, from a status and from the states before. Pure.

Only DOWN is a failure. A member that leaves because its owner asked for that, or that was never connected, has links that are not ready
too, and is no outage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from ..base.json_fields import items
from ..mesh.link_stage import LinkStage


class MemberState(StrEnum):
    """State of a member or of a link.

    JOINED: asked for, and ready. NEVER_JOINED: asked for, and not ready yet. DOWN: asked for, was ready, and is not. LEAVING: not asked for
    any more, and not withdrawn yet. REMOVED: withdrawn. UNKNOWN: was not or could not be asked, so that nothing is said.
    """

    JOINED = "joined"
    NEVER_JOINED = "never_joined"
    DOWN = "down"
    LEAVING = "leaving"
    REMOVED = "removed"
    UNKNOWN = "unknown"


Link = tuple[str, str]
"""Cluster and peer, by inventory names."""

_ONCE: Final = frozenset({MemberState.JOINED, MemberState.DOWN, MemberState.UNKNOWN})
"""States after which a link that is not ready is down. A link whose readers could not be asked may have been ready."""
_KEPT: Final = frozenset({MemberState.DOWN, MemberState.NEVER_JOINED})
"""States that stay while no reader can be asked."""
_GONE: Final = frozenset({MemberState.LEAVING, MemberState.REMOVED})


def link_states_of(status: Mapping[str, Any], earlier: Mapping[Link, MemberState] | None = None) -> dict[Link, MemberState]:
    """Return the state of each link of a binding's status, which is not trusted.

    :param earlier: states before; without them, a link was ready once if it was proven, if data of the peer arrived, or if a mesh without
        a ready link is Degraded: one that was never connected is Pending or Connecting.
    """
    every = [row for row in items(status, "links") if row.get("cluster") and row.get("peer")]
    broke = status.get("phase") == "Degraded" and not any(row.get("ready") is True for row in every)
    return {(str(row["cluster"]), str(row["peer"])): _link_state(row, earlier or {}, broke=broke) for row in every}


def _link_state(row: Mapping[str, Any], earlier: Mapping[Link, MemberState], *, broke: bool) -> MemberState:
    if row.get("ready") is True:
        return MemberState.JOINED
    before = earlier.get((str(row["cluster"]), str(row["peer"])))
    if row.get("stage") == LinkStage.NOT_ASKED.value:
        return before if before is not None and before not in _GONE else MemberState.UNKNOWN
    if row.get("stage") == LinkStage.UNKNOWN.value:
        return before if before in _KEPT and before is not None else MemberState.UNKNOWN
    if before is not None:
        return MemberState.DOWN if before in _ONCE else MemberState.NEVER_JOINED
    return MemberState.DOWN if row.get("lastProof") or row.get("arrived") or broke else MemberState.NEVER_JOINED


def member_states_of(
    status: Mapping[str, Any], links: Mapping[Link, MemberState], earlier: Mapping[str, MemberState] | None = None
) -> dict[str, MemberState]:
    """Return the state of each member that a binding's status names.

    A member is joined if one of its links is ready, in either direction: of one cluster that is lost, its peers are not lost with it.
    """
    found = {}
    for row in items(status, "meshStatus"):
        name = str(row.get("clusterName") or "")
        own = [state for link, state in links.items() if name in link]
        before = (earlier or {}).get(name)
        if row.get("asked") is False and MemberState.JOINED not in own:
            found[name] = before if before is not None and before not in _GONE else MemberState.UNKNOWN
        else:
            found[name] = _member_state(own)
    found.pop("", None)
    return found


def _member_state(own: Collection[MemberState]) -> MemberState:
    if MemberState.JOINED in own:
        return MemberState.JOINED
    if MemberState.DOWN in own:
        return MemberState.DOWN
    return MemberState.UNKNOWN if own and all(state is MemberState.UNKNOWN for state in own) else MemberState.NEVER_JOINED


def departed_states(
    earlier: Mapping[str, MemberState], members: Collection[str], *, withdrawn: bool, unclean: Iterable[str] = ()
) -> dict[str, MemberState]:
    """Return the states of clusters that had one earlier and are no members any more.

    :param withdrawn: the run withdrew the links of former members. A measurement alone does not.
    :param unclean: clusters for which that did not succeed.
    """
    kept = set(unclean)
    return {
        name: MemberState.REMOVED if before is MemberState.REMOVED or (withdrawn and name not in kept) else MemberState.LEAVING
        for name, before in earlier.items()
        if name not in members
    }
