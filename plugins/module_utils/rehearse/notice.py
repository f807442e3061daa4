# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who notices a loss, and when: clients, Cilium's readers by their version, runs of this collection, and failover contracts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ..items.scene import Scene
from ..mesh.versions.lost_peer import Seconds, delays
from ..mesh.versions.minors import reader_version
from .loss import Loss

PROOF: Final = Seconds(0, 36)
"""Seconds that a run takes at most to prove the links of one pod of clustermesh-apiserver (docs/dead-peers.md)."""


class Notice(NamedTuple):
    """Observer of a loss, and the seconds after which it notices; ``after`` None: only when it is asked."""

    who: str
    after: Seconds | None
    clusters: tuple[str, ...] = ()
    how: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        after = list(self.after) if self.after else None
        return {"who": self.who, "afterSeconds": after, "clusters": list(self.clusters), "how": self.how}


def notices(loss: Loss, scene: Scene, contracts: Iterable[int], mesh_check: int) -> tuple[Notice, ...]:
    """Return who notices a loss, the first ones first.

    :param contracts: ``detectWithin`` of the failover contracts of the services that the loss touches.
    :param mesh_check: seconds between two runs of the operator for a connected mesh.
    """
    found = []
    if loss.members or loss.networks:
        found.append(Notice("clients", Seconds(0, 0), how="connections to its backends time out"))
    found += _readers(loss, scene)
    found.append(Notice("status", None, how=f"the first run after it proves every link anew, within {PROOF.most} s for each cluster"))
    found.append(Notice("operator", Seconds(0, mesh_check), how="its next check of the mesh"))
    times = sorted(set(contracts))
    if times:
        how = "the run that a scheduler makes every detectWithin / 2"
        found.append(Notice("failover contract", Seconds(0, times[-1]), how=how))
    return tuple(found)


def _readers(loss: Loss, scene: Scene) -> Sequence[Notice]:
    """Return the readers that lose a peer, together where they take as long."""
    groups: dict[tuple[str, Seconds, str], list[str]] = {}
    cut = {*loss.links, *loss.dead}
    for host in scene.hosts:
        if host in loss.members:
            continue
        lost = [peer for peer in scene.mesh.peers(host) if peer in loss.members or (host, peer) in cut]
        if not lost:
            continue
        facts = scene.facts[host]
        version = reader_version(facts)
        who = "kvstoremesh" if facts.runs_kvstoremesh else "agents"
        taken = delays(version)
        how = f"Cilium {version or 'of an unknown version'}: {taken.refused} if connections are refused, {taken.silent} without an answer"
        groups.setdefault((who, taken.either, how), []).append(host)
    return [Notice(who, after, tuple(hosts), how) for (who, after, how), hosts in groups.items()]
