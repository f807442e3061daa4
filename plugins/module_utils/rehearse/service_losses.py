# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a loss does to global services: which lose every backend, and to which backends clients of the remaining clusters are sent.

Cilium never checks whether a remote backend is alive: it keeps those of a lost peer until its cache TTL ends, or for ever
(services/failover_findings.py has the source), and chooses among them by affinity as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..items.scene import Scene
from ..mesh.versions.lost_peer import Seconds
from .loss import Loss
from .service_table import ServiceRow, ServiceTable, ServiceUse, Signature


class Use(NamedTuple):
    """Backends to which clients are sent. ``live`` are known to be current; ``frozen`` answered last; ``dead`` do not answer."""

    live: int
    frozen: int = 0
    dead: int = 0

    @property
    def answering(self) -> int:
        """Return the number of backends that answer, as far as is known."""
        return self.live + self.frozen


class LossEffect(NamedTuple):
    """What a loss does to clients of one cluster, for one service: the backends in use before it, at once, and later.

    ``contracted``: after the next run that carries out the failover contract; None without one. ``dropped``: after Cilium dropped the
    backends of the lost peers; None where it never does.
    """

    before: Use
    at_once: Use
    contracted: Use | None
    dropped: Use | None

    @property
    def cut(self) -> bool:
        """Return whether no backend answers any more, at once."""
        return bool(self.before.answering) and not self.at_once.answering

    @property
    def cut_later(self) -> bool:
        """Return whether no backend is left after Cilium dropped those of the lost peers, although some answer until then."""
        return bool(self.at_once.answering) and self.dropped is not None and not self.dropped.answering

    @property
    def dead(self) -> bool:
        """Return whether some connections go to backends that do not answer."""
        return bool(self.at_once.dead) and not self.cut

    @property
    def frozen(self) -> bool:
        """Return whether connections go to backends of which no change arrives any more, because of the loss."""
        return self.at_once.frozen > self.before.frozen

    @property
    def kept(self) -> bool:
        """Return whether nothing ends that clients are sent to backends of the lost peers: neither Cilium nor a contract."""
        if not (self.at_once.dead or self.frozen) or self.dropped is not None:
            return False
        return self.contracted is None or bool(self.contracted.dead or self.contracted.frozen > self.before.frozen)


@dataclass(frozen=True, kw_only=True)
class ServiceTally:
    """Sums over all services and clusters: how many services, and how many pairs of a service and a cluster with clients."""

    lost: tuple[str, ...] = ()  # services of which no backend remains
    unmet: tuple[str, ...] = ()  # services whose failover contract no remaining cluster meets
    cut: int = 0
    cut_later: int = 0
    dead: int = 0
    frozen: int = 0
    kept: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as results have them."""
        return {
            "withoutBackend": len(self.lost),
            "contractNotMet": len(self.unmet),
            "clientsWithoutBackend": self.cut,
            "clientsWithoutBackendLater": self.cut_later,
            "clientsWithDeadBackends": self.dead,
            "clientsWithFrozenBackends": self.frozen,
            "keptForEver": self.kept,
        }


@dataclass(frozen=True, kw_only=True)
class Clients:
    """Clusters whose clients share one effect of a loss on one service."""

    clusters: tuple[str, ...]
    effect: LossEffect
    dropped_after: Seconds | None
    contracted_within: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        effect = self.effect
        found: dict[str, Any] = {
            "clusters": list(self.clusters),
            "before": effect.before._asdict(),
            "atOnce": effect.at_once._asdict(),
            "keptForSeconds": list(self.dropped_after) if self.dropped_after else None,
        }
        if effect.contracted is not None:
            found |= {"contracted": effect.contracted._asdict(), "contractedWithinSeconds": self.contracted_within}
        if effect.dropped is not None:
            found["dropped"] = effect.dropped._asdict()
        return found


@dataclass(frozen=True, kw_only=True)
class ServiceLoss:
    """What a loss does to one service: the ready backends that remain, by cluster, and its clients."""

    row: ServiceRow
    remaining: Mapping[str, int]
    clients: tuple[Clients, ...]
    gravity: tuple[int, ...]  # the larger, the graver; compared number by number

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        return {
            "kind": self.row.kind,
            "namespace": self.row.key[0],
            "name": self.row.key[1],
            "readyBefore": sum(self.row.ready.values()),
            "ready": sum(self.remaining.values()),
            "readyByCluster": dict(self.remaining),
            "clients": [entry.to_dict() for entry in self.clients],
        }


def effect_of(signature: Signature, *, dead: int, frozen: int, drops: bool) -> LossEffect:
    """Return the effect of losing ``dead`` and ``frozen`` remote backends.

    :param frozen: all frozen ones after the loss, those of links that do not work today among them.
    :param drops: Cilium drops the backends of the lost peers after some time.
    """
    local, remote = signature.local, signature.remote
    before = _use(signature.affinity, local, remote - signature.frozen, signature.frozen, 0)
    live = remote - dead - frozen
    at_once = _use(signature.affinity, local, live, frozen, dead)
    # A contract gives a cluster with a lost peer affinity Local (services/failover.py, _choice).
    contracted = _use("Local", local, live, frozen, dead) if signature.detect_within is not None else None
    dropped = _use(signature.affinity, local, live, 0, 0) if drops else None
    return LossEffect(before, at_once, contracted, dropped)


def _use(affinity: str, local: int, live: int, frozen: int, dead: int) -> Use:
    """Return the backends that Cilium chooses among: it takes all it has for active (pkg/clustermesh/selectbackends.go)."""
    if affinity == "Local" and local:
        return Use(local)
    if affinity == "Remote" and live + frozen + dead:
        return Use(live, frozen, dead)
    return Use(local + live, frozen, dead)


class ServiceLosses:
    """Judge of losses for one table; sums of a cluster and a lost peer are worked out once, for all losses in which they occur."""

    def __init__(self, table: ServiceTable, scene: Scene) -> None:
        self._table, self._hosts = table, scene.hosts
        self._contracts = any(row.contract for row in table.rows)
        self._sums: dict[tuple[str, frozenset[str], frozenset[str]], Counter[str]] = {}
        self._peers: dict[str, frozenset[str]] = {}
        for host, peer in table.by_peer:
            self._peers[host] = self._peers.get(host, frozenset()) | {peer}

    def tally(self, loss: Loss) -> ServiceTally:
        """Return the sums of a loss."""
        sums: Counter[str] = Counter()
        for host, dead, frozen in self._losers(loss):
            sums.update(self._sums_of(host, dead, frozen))
        gone = self._gone(loss)
        return ServiceTally(
            lost=tuple(row.shown for row in gone if not _remaining(row, loss)),
            unmet=tuple(row.shown for row in gone if _contract_unmet(row, loss)),
            **{name: sums[name] for name in ("cut", "cut_later", "dead", "frozen", "kept")},
        )

    def details(self, loss: Loss) -> tuple[ServiceLoss, ...]:
        """Return the services that a loss harms, the gravest first."""
        found: dict[ServiceRow, dict[tuple[LossEffect, Seconds | None, int | None], list[str]]] = {row: {} for row in self._gone(loss)}
        for host, dead, frozen in self._losers(loss):
            drop = self._table.dropped[host]
            for entry, lost_dead, lost_frozen in self._entries(host, dead, frozen):
                effect = effect_of(entry.signature, dead=lost_dead, frozen=lost_frozen, drops=drop is not None)
                within = entry.signature.detect_within
                found.setdefault(entry.row, {}).setdefault((effect, drop, within), []).append(host)
        losses = []
        for row, groups in found.items():
            clients = tuple(
                Clients(clusters=tuple(hosts), effect=effect, dropped_after=drop, contracted_within=within)
                for (effect, drop, within), hosts in groups.items()
            )
            remaining = _remaining(row, loss)
            losses.append(ServiceLoss(row=row, remaining=remaining, clients=clients, gravity=_gravity(remaining, clients)))
        return tuple(sorted(losses, key=lambda entry: (*(-number for number in entry.gravity), entry.row.key)))

    def touched(self, loss: Loss) -> int:
        """Return the number of services of which the loss touches a backend or a client."""
        rows = {
            entry.row
            for host, dead, frozen in self._losers(loss)
            for peer in dead | frozen
            for entry, _n in self._table.by_peer[host, peer]
        }
        return len(rows.union(self._gone(loss)))

    def detect_times(self, loss: Loss) -> frozenset[int]:
        """Return ``detectWithin`` of the failover contracts of clients that a loss touches."""
        if not self._contracts:
            return frozenset()
        found = {
            entry.signature.detect_within
            for host, dead, frozen in self._losers(loss)
            for peer in dead | frozen
            for entry, _number in self._table.by_peer[host, peer]
        }
        return frozenset(seconds for seconds in found if seconds is not None)

    def _losers(self, loss: Loss) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
        """Yield the remaining clusters that lose a peer whose backends they use, with the dead and the frozen peers."""
        if loss.members or len(loss.links) + len(loss.networks) > 1:
            hosts: Iterable[str] = self._hosts
        else:
            hosts = {host for pair in (*loss.links, *loss.networks) for host in pair}
        for host in hosts:
            if host in loss.members or host not in self._table.dropped:
                continue
            peers = self._peers.get(host, frozenset())
            dead, frozen = loss.dead_for(host) & peers, loss.frozen_for(host) & peers
            if dead or frozen:
                yield host, dead, frozen

    def _entries(self, host: str, dead: frozenset[str], frozen: frozenset[str]) -> Iterator[tuple[ServiceUse, int, int]]:
        """Yield each entry of the cluster that a loss touches, with its dead and its frozen backends after the loss."""
        table = self._table
        broken = table.broken[host]
        numbers: dict[ServiceUse, list[int]] = {}
        for peers, place in ((dead, 0), (frozen, 1)):
            for peer in peers:
                for entry, ready in table.by_peer[host, peer]:
                    counted = numbers.setdefault(entry, [0, entry.signature.frozen])
                    counted[place] += ready if place == 0 or peer not in broken else 0
                    if place == 0 and peer in broken:
                        counted[1] -= ready
        return ((entry, counts[0], counts[1]) for entry, counts in numbers.items())

    def _sums_of(self, host: str, dead: frozenset[str], frozen: frozenset[str]) -> Counter[str]:
        known = self._sums.get((host, dead, frozen))
        if known is not None:
            return known
        drops = self._table.dropped[host] is not None
        if len(dead) + len(frozen) == 1 and not self._table.broken[host]:  # the case of 1,225 pairs
            (peer,) = dead or frozen
            pairs = Counter((entry.signature, ready) for entry, ready in self._table.by_peer[host, peer])
            groups = Counter({(signature, n if dead else 0, 0 if dead else n): times for (signature, n), times in pairs.items()})
        else:
            groups = Counter((entry.signature, d, f) for entry, d, f in self._entries(host, dead, frozen))
        sums: Counter[str] = Counter()
        for (signature, lost_dead, lost_frozen), times in groups.items():
            effect = effect_of(signature, dead=lost_dead, frozen=lost_frozen, drops=drops)
            for name in ("cut", "cut_later", "dead", "frozen", "kept"):
                if getattr(effect, name):
                    sums[name] += times
        self._sums[host, dead, frozen] = sums
        return sums

    def _gone(self, loss: Loss) -> list[ServiceRow]:
        """Return the services that have ready backends in a member that is gone, each once, in order."""
        return list(dict.fromkeys(row for host in sorted(loss.members) for row in self._table.by_host.get(host, ())))


def _remaining(row: ServiceRow, loss: Loss) -> dict[str, int]:
    return {host: ready for host, ready in row.ready.items() if ready and host not in loss.members}


def _contract_unmet(row: ServiceRow, loss: Loss) -> bool:
    """Return whether a cluster met the contract before the loss, and none does any more."""
    if row.contract is None:
        return False
    least = row.contract.min_local_ready
    able = {host for host in row.contract_hosts if row.ready.get(host, 0) >= least}
    return bool(able) and not able - loss.members


def _gravity(remaining: Mapping[str, int], clients: tuple[Clients, ...]) -> tuple[int, ...]:
    """Return the numbers by which services are ranked: without a backend, then clients that are cut off, then others."""
    effects = [(entry.effect, len(entry.clusters)) for entry in clients]
    names = ("cut", "cut_later", "dead", "frozen", "kept")
    return (int(not remaining), *(sum(times for effect, times in effects if getattr(effect, name)) for name in names))
