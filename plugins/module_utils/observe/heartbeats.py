# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Proof of links by the controller, which reads the heartbeat of each peer with the credentials of each link.

One link per peer is tried first. If the controller cannot reach that peer, as with most private addresses, its other links are not
tried: they would only cost a timeout each. In a large mesh one link per peer is all, as every link reads the same heartbeat of a peer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Final

from ..base.sealed import SecretStore
from ..etcd.client import EtcdAccess, EtcdError, EtcdReader, ReadFailure
from ..etcd.heartbeat import HEARTBEAT, ControllerProof, ProofVerdict, parse_heartbeat
from ..etcd.link_access import link_access
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.minors import apiserver_version, delay

AT_ONCE: Final = 16  # connections; each waits for the network most of the time
LINKS_EACH: Final = 200  # up to so many links, each is read with its own credentials

Link = tuple[str, str]
Names = Mapping[Link, str]  # (cluster, peer) -> Cilium's name of the peer


def read_heartbeats(
    links: Sequence[Link], names: Names, facts: Mapping[str, ClusterFacts], secrets: SecretStore
) -> dict[Link, ControllerProof]:
    """Return the controller's proof of each link whose cluster was observed. Raises nothing: a failed read gives the verdict unknown.

    :param names: of the links that have one; the others are left out of the result.
    :param facts: by inventory name, with the present Secrets.
    :param secrets: see ``link_access.link_access``.
    """
    accesses = {link: link_access(facts[link[0]], names[link], secrets) for link in links if link in names and link[0] in facts}
    found = {link: _unknown(link, access) for link, access in accesses.items() if isinstance(access, str)}
    usable = {link: access for link, access in accesses.items() if isinstance(access, EtcdAccess)}
    scouts = {link[1]: link for link in reversed(usable)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first = list(scouts.values())
        tried = dict(zip(first, pool.map(lambda link: _read(link, usable[link], facts), first), strict=True))
        away = {
            peer: tried[link][0].note for peer, link in scouts.items() if tried[link][1] in (ReadFailure.UNREACHED, ReadFailure.MISSING)
        }
        rest = [link for link in usable if link not in tried and link[1] not in away] if len(usable) <= LINKS_EACH else []
        tried.update(zip(rest, pool.map(lambda link: _read(link, usable[link], facts), rest), strict=True))
    found.update({link: proof for link, (proof, why) in tried.items()})
    for link in usable:
        large = "read with the credentials of one other cluster only, as the mesh is large"
        found.setdefault(link, _unknown(link, away.get(link[1], large)))
    return _with_shared_heartbeats(found)


def _unknown(link: Link, note: str) -> ControllerProof:
    return ControllerProof(cluster=link[0], peer=link[1], verdict=ProofVerdict.UNKNOWN, note=note)


def _with_shared_heartbeats(found: Mapping[Link, ControllerProof]) -> dict[Link, ControllerProof]:
    """Return the proofs with the newest heartbeat that any link read of the same peer: a peer has only one."""
    newest: dict[str, datetime] = {}
    for proof in found.values():
        if proof.heartbeat is not None and (proof.peer not in newest or proof.heartbeat > newest[proof.peer]):
            newest[proof.peer] = proof.heartbeat
    return {link: replace(proof, heartbeat=newest.get(proof.peer)) for link, proof in found.items()}


def _read(link: Link, access: EtcdAccess, facts: Mapping[str, ClusterFacts]) -> tuple[ControllerProof, ReadFailure | None]:
    """Return (the proof, why nothing was read)."""
    try:
        with EtcdReader(access) as reader:
            value = reader.get(HEARTBEAT)
    except EtcdError as error:
        verdict = ProofVerdict.REFUTED if error.why is ReadFailure.DENIED else ProofVerdict.UNKNOWN
        return replace(_unknown(link, error.clause), verdict=verdict, detail=error.detail), error.why
    heartbeat = parse_heartbeat(value)
    # A successful read is the proof, as for Cilium's own check; a missing or invalid heartbeat only leaves its age unknown.
    note = "" if heartbeat else without_heartbeat(facts.get(link[1]))
    return replace(_unknown(link, note), verdict=ProofVerdict.PROVEN, heartbeat=heartbeat), None


def without_heartbeat(peer: ClusterFacts | None) -> str:
    """Return the note about a peer that shows no heartbeat; a mesh etcd that has just started has none yet."""
    first = delay("first_heartbeat", apiserver_version(peer) if peer is not None else None)
    return f"the peer shows no heartbeat; its clustermesh-apiserver writes the first one up to {first.most} s after its start"
