# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Leases: which cluster holds which name and id in a mesh, and the text in which every member keeps all of them.

Each member holds a whole copy, so any one can restore the others. Copies are merged, never chosen between: ``merge`` is commutative,
associative and idempotent, and a change of a lease raises its ``serial``, so that the later state wins wherever two copies meet.
Pure: no clock, no network. docs/decisions/0013 has the protocol by which two controllers never hand out the same id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any, Final, TypeVar

from .facts import ClusterFacts, RegistryFacts
from .model import Binding, Mesh
from .steps import NOW, OWNER_LABEL
from .trust import anchor

KEY: Final = "leases.json"
SCHEMA: Final = 1
LIMIT: Final = 900_000  # characters; a ConfigMap ends at 1 MiB, 511 leases take some 180,000
MAX_SERIAL: Final = 2**53  # the largest integer that every JSON reader keeps (RFC 8259, 6)
MAX_ID: Final = 511  # pkg/clustermesh/types: the highest id there can be
CIDRS_KEPT: Final = 16
RELEASED_KEPT: Final = 512  # oldest ones are forgotten beyond that; what is active, claimed or dead never is

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEXT = re.compile(r"[ -~]{0,253}")  # names of hosts and clusters, uids: one line of ASCII


class RegistryProblem(ValueError):
    """Why a text is no registry; safe to print: it repeats nothing of the text."""


class NewerRegistry(RegistryProblem):
    """A later release of this collection wrote the text, so it is not overwritten."""


class LeaseState(StrEnum):
    """How a name and an id are held."""

    CLAIMED = "claimed"  # promised to a cluster that does not run it yet
    ACTIVE = "active"  # a cluster runs it
    RELEASED = "released"  # left in order; the id is in quarantine
    DEAD = "dead"  # taken out without its answer: a tombstone


Network = TypeVar("Network", IPv4Network, IPv6Network)
_RANK: Final = {state: rank for rank, state in enumerate(LeaseState)}


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A name and an id, and who holds them."""

    host: str  # inventory name
    name: str  # cluster-name
    id: int  # cluster-id
    uid: str = ""  # of Cilium's namespace: tells clusters apart
    ca: str = ""  # SHA-256 of the public key of the CA that signed its server certificate; "" unknown
    pod_cidrs: tuple[str, ...] = ()
    state: LeaseState = LeaseState.ACTIVE
    since: str = ""  # RFC 3339, UTC, of the change of state; "" while active; ``steps.NOW`` in a plan
    serial: int = 1  # of the lease: raised with every change, so that a copy which missed one loses

    @property
    def key(self) -> tuple[str, str, int]:
        """A lease is for ever the same cluster with the same name and id; any other is another lease."""
        return self.host, self.name, self.id

    @property
    def holds(self) -> bool:
        """May nobody else have the id meanwhile, however long that takes?"""
        return self.state is not LeaseState.RELEASED

    @property
    def next_serial(self) -> int:
        """Of the lease after a change. A hostile member may have written the largest; what is larger nobody would read."""
        return min(self.serial + 1, MAX_SERIAL)

    def to_dict(self) -> dict[str, Any]:
        """As it is written, with the CRDs' spelling of keys."""
        return {
            "host": self.host,
            "name": self.name,
            "id": self.id,
            "uid": self.uid,
            "ca": self.ca,
            "podCidrs": list(self.pod_cidrs),
            "state": self.state.value,
            "since": self.since,
            "serial": self.serial,
        }


def _order(lease: Lease) -> tuple[Any, ...]:
    """A total order of what can be said about one lease: the serial decides, and where two wrote the same serial, the graver state."""
    return (lease.serial, _RANK[lease.state], lease.since, lease.uid, lease.ca, lease.pod_cidrs)


@dataclass(frozen=True, kw_only=True)
class Registry:
    """All leases of a mesh, each key once, sorted. ``mesh`` is the owner hash of the binding (``Binding.owner``)."""

    mesh: str
    leases: tuple[Lease, ...] = ()

    def active(self, host: str) -> Lease | None:
        """What the host runs, as the mesh has it on record; the latest where several say so."""
        return self._latest(host, LeaseState.ACTIVE)

    def claim(self, host: str) -> Lease | None:
        """What was promised to the host and does not run yet."""
        return self._latest(host, LeaseState.CLAIMED)

    def tombstone(self, host_or_name: str) -> Lease | None:
        """The dead lease of a host or a cluster name that holds no active one."""
        found = [d for d in self._in_state.get(LeaseState.DEAD, ()) if host_or_name in (d.host, d.name) and self.active(d.host) is None]
        return max(found, key=_order, default=None)

    def holders(self, id: int) -> tuple[Lease, ...]:
        """Leases that keep everybody else from the id: claimed, active or dead."""
        return self._by_id.get(id, ())

    def released(self, id: int) -> tuple[Lease, ...]:
        """Released leases of the id."""
        return tuple(lease for lease in self._in_state.get(LeaseState.RELEASED, ()) if lease.id == id)

    @cached_property
    def text(self) -> str:
        """As it is written; worked out once, as every member gets the same."""
        return write_registry(trimmed(self))

    @cached_property
    def _in_state(self) -> dict[LeaseState, tuple[Lease, ...]]:
        return {state: tuple(lease for lease in self.leases if lease.state is state) for state in LeaseState}

    @cached_property
    def _by_id(self) -> dict[int, tuple[Lease, ...]]:
        found: dict[int, tuple[Lease, ...]] = {}
        for lease in self.leases:
            if lease.holds:
                found[lease.id] = (*found.get(lease.id, ()), lease)
        return found

    @cached_property
    def _by_host(self) -> dict[tuple[str, LeaseState], Lease]:
        found: dict[tuple[str, LeaseState], Lease] = {}
        for lease in self.leases:
            place = (lease.host, lease.state)
            found[place] = max(found.get(place, lease), lease, key=lambda one: (one.serial, one.key))
        return found

    def _latest(self, host: str, state: LeaseState) -> Lease | None:
        return self._by_host.get((host, state))

    def serial(self, host: str) -> int:
        """The highest serial of the host's leases; 0 without any."""
        return max((lease.serial for (name, state), lease in self._by_host.items() if name == host), default=0)

    def with_leases(self, changed: Iterable[Lease]) -> Registry:
        """The registry with these leases merged in."""
        return merge((self, Registry(mesh=self.mesh, leases=tuple(changed))), self.mesh)


def merge(registries: Iterable[Registry], mesh: str = "") -> Registry:
    """One registry that knows all that any of them knows. Order and repetition make no difference.

    :param mesh: whose registry it is when there are none.
    :raises RegistryProblem: they are of different meshes.
    """
    every = list(registries)
    meshes = {registry.mesh for registry in every} or {mesh}
    if len(meshes) > 1:
        raise RegistryProblem("registries of different meshes are never merged")
    latest: dict[tuple[str, str, int], Lease] = {}
    for registry in {id(registry): registry for registry in every}.values():  # equal copies are mostly one object: see ``copies``
        for lease in registry.leases:
            known = latest.get(lease.key)
            if known is None or _order(known) < _order(lease):
                latest[lease.key] = lease
    return Registry(mesh=meshes.pop(), leases=tuple(latest[key] for key in sorted(latest)))


def dated(registry: Registry, now: datetime) -> Registry:
    """With the time in the place of ``steps.NOW``, for whoever writes it himself. ``now``: aware."""
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(registry, leases=tuple(replace(lease, since=time) if lease.since == NOW else lease for lease in registry.leases))


def trimmed(registry: Registry) -> Registry:
    """Without the oldest released leases, where there are more than ``RELEASED_KEPT``."""
    old = sorted((lease for lease in registry.leases if not lease.holds), key=lambda lease: (lease.since, lease.key), reverse=True)
    forgotten = {lease.key for lease in old[RELEASED_KEPT:]}
    return replace(registry, leases=tuple(lease for lease in registry.leases if lease.key not in forgotten)) if forgotten else registry


def write_registry(registry: Registry) -> str:
    """The one text of a registry: JSON, one lease a line, so that a diff shows leases."""
    rows = [json.dumps(lease.to_dict(), separators=(",", ":")) for lease in sorted(registry.leases, key=lambda lease: lease.key)]
    listed = "".join(f"\n  {row}," for row in rows)[:-1]
    return f'{{"schema":{SCHEMA},"mesh":{json.dumps(registry.mesh)},"leases":[{listed}\n]}}\n'


def parse_registry(text: str) -> Registry:
    """The registry that a text holds. Nothing in it is trusted: types, lengths and ranges are checked, unknown keys are dropped.

    :raises RegistryProblem: it is none.
    """
    if len(text) > LIMIT:
        raise RegistryProblem("it is too long")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise RegistryProblem("it is not JSON") from None
    if not isinstance(data, dict) or not _is_number(data.get("schema")):
        raise RegistryProblem("it has no schema")
    if data["schema"] > SCHEMA:
        raise NewerRegistry("a later release of this collection wrote it")
    if data["schema"] != SCHEMA:
        raise RegistryProblem(f"its schema is not {SCHEMA}")
    mesh, rows = data.get("mesh"), data.get("leases")
    if not isinstance(mesh, str) or not _TEXT.fullmatch(mesh) or not isinstance(rows, list):
        raise RegistryProblem("it names no mesh or has no list of leases")
    leases = [_lease(row, place) for place, row in enumerate(rows)]
    return merge((Registry(mesh=mesh, leases=tuple(leases)),))


def _lease(row: Any, place: int) -> Lease:
    where = f"lease {place + 1} of it"
    if not isinstance(row, dict):
        raise RegistryProblem(f"{where} is no object")
    texts = {key: row.get(key) for key in ("host", "name", "uid", "ca", "state", "since")}
    wrong = [key for key, value in texts.items() if not isinstance(value, str) or not _TEXT.fullmatch(value)]
    cidrs = row.get("podCidrs")
    wrong += [key for key, highest in (("id", MAX_ID), ("serial", MAX_SERIAL)) if not _counts(row.get(key), highest)]
    wrong += ["podCidrs"] if not isinstance(cidrs, list) or len(cidrs) > CIDRS_KEPT * 4 or not all(map(_is_cidr, cidrs)) else []
    if not wrong:
        wrong += ["ca"] if texts["ca"] and not _DIGEST.fullmatch(row["ca"]) else []
        wrong += ["since"] if texts["since"] and not _TIME.fullmatch(row["since"]) else []
        wrong += ["state"] if row["state"] not in {state.value for state in LeaseState} else []
        wrong += [key for key in ("host", "name") if not texts[key]]
    if wrong:
        raise RegistryProblem(f"{where} has a wrong {wrong[0]}")
    return Lease(
        host=row["host"],
        name=row["name"],
        id=row["id"],
        uid=row["uid"],
        ca=row["ca"],
        pod_cidrs=tuple(row["podCidrs"]),
        state=LeaseState(row["state"]),
        since=row["since"],
        serial=row["serial"],
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _counts(value: Any, highest: int) -> bool:
    return _is_number(value) and 1 <= value <= highest


def _is_cidr(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > 64 or "%" in value:  # a zone may hold anything
        return False
    try:
        ip_network(value)
    except ValueError:
        return False
    return True


def registry_name(binding: Binding) -> str:
    """Name of the ConfigMap. One per binding, so that two meshes that share a cluster never meet in one object."""
    return f"cilium-mesh-{binding.owner}"


def is_ours(facts: RegistryFacts, binding: Binding) -> bool:
    """Did this binding make the ConfigMap? Anything else of that name is left alone."""
    return facts.present and facts.labels.get(OWNER_LABEL) == binding.owner


def may_be_written(facts: RegistryFacts, binding: Binding) -> bool:
    """Nothing of others and nothing of a later release is in the way."""
    if not facts.present or not is_ours(facts, binding):
        return not facts.present and not facts.unread
    try:
        parse_registry(facts.text)
    except NewerRegistry:
        return False
    except RegistryProblem:
        pass  # spoiled, and ours
    return True


def read_copy(cluster: ClusterFacts, mesh: Mesh) -> Registry:
    """The copy that a member keeps.

    :raises RegistryProblem: there is none, it is not ours, or it cannot be read.
    """
    if cluster.registry.present and not is_ours(cluster.registry, mesh.binding):
        raise RegistryProblem("the ConfigMap does not belong to this binding")
    if not cluster.registry.text:
        raise RegistryProblem("there is none")
    found = parse_registry(cluster.registry.text)
    if found.mesh != mesh.binding.owner:
        raise RegistryProblem("it is of another mesh")
    return found


def copies(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, Registry | RegistryProblem]:
    """What every cluster that answered keeps, by inventory name. Equal texts are parsed once: with 511 members they all are equal."""
    known: dict[tuple[str, str], Registry | RegistryProblem] = {}
    found: dict[str, Registry | RegistryProblem] = {}
    for host, cluster in facts.items():
        place = (cluster.registry.text, cluster.registry.labels.get(OWNER_LABEL, "") if cluster.registry.present else "-")
        if place not in known:
            try:
                known[place] = read_copy(cluster, mesh)
            except RegistryProblem as problem:
                known[place] = problem
        found[host] = known[place]
    return found


def mesh_registry(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> Registry:
    """What all members that answered know together; without leases where none keeps a copy that can be read."""
    readable = [copy for copy in copies(mesh, facts).values() if isinstance(copy, Registry)]
    return merge(readable, mesh.binding.owner)


def lease_of(cluster: ClusterFacts) -> Lease:
    """The lease of what the cluster runs. Only for a cluster whose name and id are valid; both are as cilium-config says."""
    signer = anchor(cluster.server_cert)
    return Lease(
        host=cluster.host,
        name=cluster.name,
        id=cluster.id or 0,
        uid=cluster.uid,
        ca=signer.public_key if signer else "",
        pod_cidrs=pod_cidrs(cluster),
    )


def pod_cidrs(cluster: ClusterFacts) -> tuple[str, ...]:
    """Everything that the cluster's pods may have as an address, as at most ``CIDRS_KEPT`` networks of each family."""
    from .checks.cidrs import allocated, pools  # the checks import this file

    networks = [claim.network for claim in (*pools(cluster), *allocated(cluster))]
    v4 = _summed([n for n in networks if isinstance(n, IPv4Network)])
    v6 = _summed([n for n in networks if isinstance(n, IPv6Network)])
    return tuple(str(network) for network in (*v4, *v6))


def _summed(networks: list[Network]) -> list[Network]:
    """Joined, and widened where they are many: nodes come and go, and each change of a lease is a write to every member."""
    found = sorted(collapse_addresses(networks))
    while len(found) > CIDRS_KEPT:
        longest = max(network.prefixlen for network in found)
        found = sorted(collapse_addresses([n.supernet() if n.prefixlen == longest else n for n in found]))
    return found


def covers(wide: Iterable[str], narrow: Iterable[str]) -> bool:
    """Does each network of ``narrow`` lie within one of ``wide``?"""
    outer = [ip_network(text) for text in wide]
    return all(any(_within(ip_network(text), network) for network in outer) for text in narrow)


def _within(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.subnet_of(other)
    return isinstance(other, IPv6Network) and one.subnet_of(other)


def released(registry: Registry, hosts: Iterable[str]) -> Registry:
    """The registry after these hosts left in order: their ids rest in quarantine from now on."""
    return _ended(registry, hosts, LeaseState.RELEASED)


def dead(registry: Registry, hosts: Iterable[str]) -> Registry:
    """The registry after these hosts were taken out without their answer: a tombstone each, until they come back and prove themselves."""
    return _ended(registry, hosts, LeaseState.DEAD)


def _ended(registry: Registry, hosts: Iterable[str], state: LeaseState) -> Registry:
    going = set(hosts)
    ends = (LeaseState.ACTIVE, LeaseState.CLAIMED)
    changed = [lease for lease in registry.leases if lease.host in going and lease.state in ends]
    return registry.with_leases(replace(lease, state=state, since=NOW, serial=lease.next_serial) for lease in changed)
