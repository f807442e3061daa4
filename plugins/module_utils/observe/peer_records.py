# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reads of peer records from the controller, with the credentials of the links that exist.

At most KEYS keys of each kind are read, page by page; the rest is counted. Reads only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ..base.sealed import SecretStore
from ..etcd.client import EtcdAccess, EtcdError, EtcdReader, ReadFailure
from ..etcd.link_access import link_access
from ..etcd.peer_records import (
    ADDRESSES,
    CONFIG,
    IDENTITIES,
    KEYS,
    NODES,
    PREFIXES,
    PeerRecords,
    parse_address,
    parse_config,
    parse_identity,
    parse_node,
)
from ..mesh.facts.cluster import ClusterFacts
from .heartbeats import Link, Names

AT_ONCE: Final = 8
SECONDS: Final = 10.0  # for one page
KEY_LIMIT: Final = 600  # characters that are kept; names of a cluster and a node are some 300
WAYS: Final = 3  # links that are tried per cluster


def read_peer_records(
    links: Sequence[Link], names: Names, facts: Mapping[str, ClusterFacts], secrets: SecretStore
) -> dict[str, PeerRecords]:
    """Return the records of every peer of the links, by inventory name. Raises nothing: a failed read is a problem of that cluster.

    :param names: as for ``heartbeats.read_heartbeats``.
    :param secrets: see ``link_access.link_access``.
    """
    ways: dict[str, list[tuple[Link, EtcdAccess | str]]] = {}
    for link in links:
        if link in names and link[0] in facts:
            ways.setdefault(link[1], []).append((link, link_access(facts[link[0]], names[link], secrets)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda peer: _read_peer(peer, ways[peer], names), ways)
        return dict(zip(ways, found, strict=True))


def _read_peer(peer: str, ways: Sequence[tuple[Link, EtcdAccess | str]], names: Names) -> PeerRecords:
    problem = next((access for link, access in ways if isinstance(access, str)), "there is no link to it")
    for link, access in [(link, access) for link, access in ways if isinstance(access, EtcdAccess)][:WAYS]:
        found: dict[str, Any] = {"counts": {}}
        try:
            with EtcdReader(access, timeout=SECONDS) as reader:
                _read(reader, names[link], found)
            return PeerRecords(host=peer, reader=link[0], **found)
        except EtcdError as error:
            problem = error.clause
            if error.why is ReadFailure.MISSING or found["counts"]:
                return PeerRecords(host=peer, reader=link[0], problem=problem, **found)
    return PeerRecords(host=peer, problem=problem)


def _read(reader: EtcdReader, name: str, found: dict[str, Any]) -> None:
    """Fill ``found`` in the order of reading, so that everything read before an error is kept."""
    found["config"] = parse_config(reader.get(CONFIG + name))
    parts = {NODES: ("nodes", parse_node), IDENTITIES: ("identities", parse_identity), ADDRESSES: ("addresses", parse_address)}
    for prefix in PREFIXES:
        field, parse = parts[prefix]
        found["counts"][prefix] = reader.count(prefix)
        found[field] = tuple(parse(item.key.removeprefix(prefix)[:KEY_LIMIT], item.value) for item in reader.scan(prefix, most=KEYS))
