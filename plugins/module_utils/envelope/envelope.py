# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Envelope of a mesh: the use of every limit now and with one more cluster, how many more fit, and the gate of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import Problems, sentence
from ..mesh.binding.model import Mesh
from ..mesh.binding.topology import Mode
from .cluster_size import ClusterSize
from .limits import LIMITS, Bound
from .usage import LimitUsage, Load, etcd_loads, usages

NEWCOMER: Final = "one more cluster"
"""Stands for the cluster that is not there yet; no inventory name has a blank."""

KEYS: Final = ("nodes", "identities", "endpoints", "services", "backends")
MOST: Final = 10_000_000
SECRET_BYTES_OF_A_PEER: Final = 4_500
"""Bytes of a peer with a minted certificate: its configuration, and three PEM texts. Used where no peer is configured yet."""
NAMED: Final = 3


@dataclass(frozen=True, kw_only=True)
class Newcomer:
    """Size of a cluster that may join. ``backends``: load-balancer entries that its global services add in each of its peers."""

    nodes: int
    identities: int
    endpoints: int
    services: int
    backends: int

    def to_dict(self) -> dict[str, int]:
        """Return the size as results have it."""
        return {key: getattr(self, key) for key in KEYS}


@dataclass(frozen=True, kw_only=True)
class EnvelopeRow:
    """Use of one limit in one cluster, now and with one more cluster. ``fits``: how many more such clusters; None for any number."""

    now: LimitUsage
    after: int | None
    fits: int | None

    @property
    def percent_after(self) -> int | None:
        """Use with one more cluster, in whole percent, rounded down."""
        return None if self.after is None else 100 * self.after // self.now.most

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        limit = LIMITS[self.now.bound]
        return {
            "limit": self.now.bound.value,
            "cluster": self.now.cluster,
            "detail": self.now.detail,
            "used": self.now.used,
            "most": self.now.most,
            "left": None if self.now.used is None else self.now.most - self.now.used,
            "percent": self.now.percent,
            "usedWithOneMore": self.after,
            "moreClusters": self.fits,
            "estimate": limit.estimate,
            "unknownOf": list(self.now.unknown),
        }


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """The envelope. Rows are sorted by use, the fullest first. ``newcomer`` None: one more cluster was not worked out."""

    rows: tuple[EnvelopeRow, ...]
    loads: tuple[tuple[Load, Load | None], ...]  # now, and with one more cluster
    newcomer: Newcomer | None
    newcomer_rows: tuple[LimitUsage, ...] = ()  # limits of the newcomer itself
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # inventory name -> why numbers are not known
    silent: Mapping[str, str] = field(default_factory=dict)  # members of which nothing is known, with the reason

    @property
    def more(self) -> int | None:
        """How many more clusters of the newcomer's size fit, by the limits whose use is known; None if it was not worked out."""
        numbers = [row.fits for row in self.rows if row.fits is not None]
        if self.newcomer is None or not numbers:
            return None
        return 0 if any(usage.used is not None and usage.used > usage.most for usage in self.newcomer_rows) else min(numbers)

    def gate(self, percent: int | None) -> str:
        """Return the sentence with which the gate fails; "" if it holds. It judges the mesh with one more cluster, where there is one."""
        if percent is None:
            return ""
        judged = [(row.now.cluster, row.now.bound, _judged(row)) for row in self.rows]
        judged += [(NEWCOMER, usage.bound, usage.percent or 0) for usage in self.newcomer_rows]
        shown = [f"{host}: {bound.value} {used} %" for host, bound, used in judged if used >= percent]
        if shown:
            more = f"; and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
            when = " with one more cluster" if self.newcomer else ""
            limits = "1 limit is" if len(shown) == 1 else f"{len(shown)} limits are"
            return f"{limits} used to {percent} % or more{when}: {'; '.join(shown[:NAMED])}{more}."
        unknown = sorted({host for row in self.rows for host in row.now.unknown} | set(self.silent))
        if unknown:
            return f"fail_at cannot be answered: numbers of {', '.join(unknown[:NAMED])} are not known."
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as results have it."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "limits": {
                bound.value: {"title": limit.title, "source": limit.source, "consequence": limit.consequence, "remedy": limit.remedy}
                for bound, limit in LIMITS.items()
            },
            "loads": [_load(now, after) for now, after in self.loads],
            "newcomer": None if self.newcomer is None else self.newcomer.to_dict(),
            "newcomerRows": [
                {"limit": u.bound.value, "used": u.used, "most": u.most, "percent": u.percent, "unknownOf": list(u.unknown)}
                for u in self.newcomer_rows
            ],
            "moreClusters": self.more,
            "unread": [{"cluster": host, "reasons": list(reasons)} for host, reasons in self.unread.items()],
            "unknown": [{"cluster": host, "reason": reason} for host, reason in self.silent.items()],
        }


def newcomer_of(raw: Mapping[str, Any] | None, sizes: Mapping[str, ClusterSize]) -> Newcomer | None:
    """Return the size of the cluster that may join: what the user gives, the rest as the largest member; None if that is not known.

    :raises InvalidInput: when a number is not valid.
    """
    given, problems = dict(raw or {}), Problems()
    for key, value in given.items():
        if key not in KEYS:
            problems.add(key, f"unknown key; the keys here are {', '.join(KEYS)}")
        elif not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            problems.add(key, f"must be a whole number from 0 to {MOST}")
    if problems.found:
        raise InvalidInput(f"one_more: {sentence(problems.found)}", remedy="No cluster was contacted.")
    known = [size for size in sizes.values() if size.endpoints is not None]
    largest = max(known, key=lambda size: (size.endpoints or 0, size.nodes), default=None)
    usual = {
        "nodes": largest.nodes if largest else None,
        "identities": largest.identities if largest else None,
        "endpoints": largest.endpoints if largest else None,
        "services": largest.services if largest else None,
        "backends": max(
            (-(-size.lb_peers // max(1, len(sizes) - 1)) for size in sizes.values() if size.lb_peers is not None), default=None
        ),
    }
    values = {**usual, **given}
    numbers = {key: value for key, value in values.items() if value is not None}
    return Newcomer(**numbers) if len(numbers) == len(KEYS) else None


def envelope_of(
    mesh: Mesh,
    sizes: Mapping[str, ClusterSize],
    newcomer: Newcomer | None,
    *,
    unread: Mapping[str, tuple[str, ...]] | None = None,
    silent: Mapping[str, str] | None = None,
) -> Envelope:
    """Return the envelope of a mesh.

    :param sizes: of the members that answered.
    :param unread: why numbers of a member are not known, by inventory name.
    :param silent: members of which nothing is known, with the reason.
    """
    found = _envelope(mesh, sizes, newcomer)
    return replace(found, unread=unread or {}, silent=silent or {})


def _envelope(mesh: Mesh, sizes: Mapping[str, ClusterSize], newcomer: Newcomer | None) -> Envelope:
    now = usages(sizes, mesh.peers)
    if newcomer is None:
        rows = [EnvelopeRow(now=usage, after=None, fits=None) for usage in now]
        return Envelope(rows=_sorted(rows), loads=tuple((load, None) for load in etcd_loads(sizes, mesh.peers)), newcomer=None)
    neighbours = _neighbours(mesh)
    more = {host: _with_newcomer(size, newcomer) if host in neighbours else size for host, size in sizes.items()}
    more[NEWCOMER] = _size(newcomer, sizes)

    def peers(host: str) -> Sequence[str]:
        if host == NEWCOMER:
            return neighbours
        return (*mesh.peers(host), NEWCOMER) if host in neighbours else mesh.peers(host)

    later = {(usage.bound, usage.cluster, usage.detail): usage for usage in usages(more, peers)}
    rows = []
    for usage in now:
        after = later[usage.bound, usage.cluster, usage.detail].used
        rows.append(EnvelopeRow(now=usage, after=after, fits=_fits(usage, after)))
    loads_later = {load.cluster: load for load in etcd_loads(more, peers)}
    return Envelope(
        rows=_sorted(rows),
        loads=tuple((load, loads_later[load.cluster]) for load in etcd_loads(sizes, mesh.peers)),
        newcomer=newcomer,
        newcomer_rows=tuple(usage for usage in later.values() if usage.cluster == NEWCOMER),
    )


def _judged(row: EnvelopeRow) -> int:
    return (row.now.percent if row.percent_after is None else row.percent_after) or 0


def _load(now: Load, after: Load | None) -> dict[str, Any]:
    def data(load: Load) -> dict[str, Any]:
        return {
            "keys": load.keys,
            "cachedKeys": load.cached,
            "watchesOfPeers": load.watches_of_peers,
            "watchesOfAgents": load.watches_of_agents,
            "connections": load.connections,
        }

    return {"cluster": now.cluster, **data(now), "withOneMore": None if after is None else data(after)}


def _neighbours(mesh: Mesh) -> tuple[str, ...]:
    """Return the members with which a newcomer is linked: the hubs, or all members. With pairs it is the worst case."""
    topology = mesh.binding.topology
    return tuple(host for host in mesh.clusters if topology.mode is not Mode.HUB_AND_SPOKE or host in topology.hubs)


def _with_newcomer(size: ClusterSize, newcomer: Newcomer) -> ClusterSize:
    """Return the size of a member after the newcomer was linked with it."""
    return replace(
        size,
        lb_peers=None if size.lb_peers is None else size.lb_peers + newcomer.backends,
        secrets={name: used + _bytes_of_a_peer(size, used) for name, used in size.secrets.items()},
    )


def _bytes_of_a_peer(size: ClusterSize, used: int) -> int:
    return -(-used // size.configured) if size.configured else SECRET_BYTES_OF_A_PEER


def _size(newcomer: Newcomer, sizes: Mapping[str, ClusterSize]) -> ClusterSize:
    """Return the newcomer as a cluster with the settings of the members."""
    pattern = next(iter(sizes.values()), None)
    size = ClusterSize(
        host=NEWCOMER,
        nodes=newcomer.nodes,
        identities=newcomer.identities,
        endpoints=newcomer.endpoints,
        services=newcomer.services,
        lb_own=0,
        lb_peers=sum(newcomer.backends for _host in sizes),
    )
    if pattern is None:
        return size
    return replace(
        size,
        families=pattern.families,
        max_clusters=pattern.max_clusters,
        lb_most=pattern.lb_most,
        ipsec=pattern.ipsec,
        kvstoremesh=pattern.kvstoremesh,
        mcs=pattern.mcs,
    )


def _fits(usage: LimitUsage, after: int | None) -> int | None:
    """Return how many more clusters fit, each of which takes as much as the first; None if they take nothing, or the use is not known."""
    if usage.used is None or after is None or after <= usage.used:
        return None
    return max(0, (usage.most - usage.used) // (after - usage.used))


def _sorted(rows: Sequence[EnvelopeRow]) -> tuple[EnvelopeRow, ...]:
    bounds = list(Bound)
    return tuple(sorted(rows, key=lambda row: (-(row.now.percent or -1), bounds.index(row.now.bound), row.now.cluster, row.now.detail)))
