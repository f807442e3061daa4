# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Lease registry: which cluster holds which name and id in a mesh, and the text in which every member keeps all leases.

Each member holds a whole copy, so any one can restore the others. Copies are merged, never chosen between: ``merge`` is commutative,
associative and idempotent, and a change of a lease raises its ``serial``, so that the later state wins wherever two copies meet.

Pure: no clock, no network. docs/decisions/0013 has the protocol by which two controllers never assign the same id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from ipaddress import ip_network
from typing import Any, Final

from ..base.json_reader import NotJson, load_json
from ..base.networks import NetworkSet, widen_networks
from ..mesh.binding.model import Binding, Mesh
from ..mesh.cidrs import allocated_ranges, pool_ranges
from ..mesh.facts.cluster import ClusterFacts, RegistryFacts
from ..mesh.ownership.marks import OWNER_LABEL
from ..mesh.trust.link_trust import anchor
from ..plan.steps import NOW

KEY: Final = "leases.json"
SCHEMA: Final = 1
LIMIT: Final = 900_000  # characters; a ConfigMap ends at 1 MiB, 511 leases take some 180,000
MAX_SERIAL: Final = 1_000_000  # changes of one lease; a copy with a larger number counts as unreadable
MAX_ID: Final = 511  # pkg/clustermesh/types: the highest id there can be
CIDRS_KEPT: Final = 16
RELEASED_KEPT: Final = 512  # beyond that, the oldest released leases are dropped; active, claimed and dead ones never are

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEXT = re.compile(r"[ -~]{0,253}")  # names of hosts and clusters, uids: one line of ASCII


class RegistryProblem(ValueError):
    """Reason why a text is no registry. Safe to print: it repeats nothing of the text."""


class NewerRegistry(RegistryProblem):
    """Text written by a later release of this collection, so it is not overwritten."""


class LeaseState(StrEnum):
    """State of a lease: how a name and an id are held."""

    RESERVED = "claimed"  # assigned to a cluster that does not run it yet
    ACTIVE = "active"  # a cluster runs it
    RELEASED = "released"  # left in order; the id is in quarantine
    DEAD = "dead"  # disconnected without its answer: a tombstone


_RANK: Final = {state: rank for rank, state in enumerate(LeaseState)}


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Name and id of a cluster, with the cluster that holds them."""

    host: str  # inventory name
    name: str  # cluster-name
    id: int  # cluster-id
    uid: str = ""  # of Cilium's namespace: identifies the cluster
    ca: str = ""  # SHA-256 of the public key of the CA that signed its server certificate; "" unknown
    pod_cidrs: tuple[str, ...] = ()
    state: LeaseState = LeaseState.ACTIVE
    since: str = ""  # RFC 3339, UTC, of the change of state; "" while active; ``steps.NOW`` in a plan
    serial: int = 1  # raised with every change of the lease, so that a copy which missed a change loses the merge

    @property
    def key(self) -> tuple[str, str, int]:
        """Key of the lease: for ever the same cluster with the same name and id; any other combination is another lease."""
        return self.host, self.name, self.id

    @property
    def holds(self) -> bool:
        """Whether the lease keeps every other cluster from the id, without a limit of time."""
        return self.state is not LeaseState.RELEASED

    @property
    def next_serial(self) -> int:
        """Serial of the lease after a change.

        It never exceeds the largest readable one, which a hostile member may have written: a larger one would make the text invalid.
        """
        return min(self.serial + 1, MAX_SERIAL)

    def to_dict(self) -> dict[str, Any]:
        """Return the lease as it is written, with the CRDs' spelling of keys."""
        values = {**vars(self), "pod_cidrs": list(self.pod_cidrs), "state": self.state.value}
        return {"podCidrs" if key == "pod_cidrs" else key: value for key, value in values.items()}


def precedence(lease: Lease) -> tuple[Any, ...]:
    """Return the sort key by which one of two versions of a lease wins: the serial decides, for the same serial the graver state."""
    return (lease.serial, _RANK[lease.state], lease.since, lease.uid, lease.ca, lease.pod_cidrs)


@dataclass(frozen=True, kw_only=True)
class Registry:
    """All leases of a mesh, each key once, sorted. ``mesh`` is the owner hash of the binding (``Binding.owner``)."""

    mesh: str
    leases: tuple[Lease, ...] = ()

    def active(self, host: str) -> Lease | None:
        """Return the active lease of the host; the latest if there are several."""
        return self._latest(host, LeaseState.ACTIVE)

    def claim(self, host: str) -> Lease | None:
        """Return the lease reserved for the host, which it does not run yet."""
        return self._latest(host, LeaseState.RESERVED)

    def tombstone(self, host_or_name: str) -> Lease | None:
        """Return the dead lease of a host or a cluster name that holds no active one."""
        found = [d for d in self._in_state.get(LeaseState.DEAD, ()) if host_or_name in (d.host, d.name) and self.active(d.host) is None]
        return max(found, key=precedence, default=None)

    def holders(self, id: int) -> tuple[Lease, ...]:
        """Return the leases that keep other clusters from the id: claimed, active or dead."""
        return self._by_id.get(id, ())

    def released(self, id: int) -> tuple[Lease, ...]:
        """Return the released leases of the id."""
        return tuple(lease for lease in self._in_state.get(LeaseState.RELEASED, ()) if lease.id == id)

    @cached_property
    def text(self) -> str:
        """Text of the registry; computed once, as every member gets the same."""
        return write_registry(without_oldest(self))

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
        """Return the highest serial of the host's leases; 0 without any."""
        return max((lease.serial for (name, state), lease in self._by_host.items() if name == host), default=0)

    def with_leases(self, changed: Iterable[Lease]) -> Registry:
        """Return the registry with these leases merged in."""
        return merge((self, Registry(mesh=self.mesh, leases=tuple(changed))), self.mesh)


def merge(registries: Iterable[Registry], mesh: str = "") -> Registry:
    """Merge registries into one that has the latest state of every lease. Order and repetition make no difference.

    :param mesh: owner hash of the result when ``registries`` is empty.
    :raises RegistryProblem: when they are of different meshes.
    """
    every = list(registries)
    meshes = {registry.mesh for registry in every} or {mesh}
    if len(meshes) > 1:
        raise RegistryProblem("registries of different meshes are never merged")
    latest: dict[tuple[str, str, int], Lease] = {}
    for registry in {id(registry): registry for registry in every}.values():  # equal copies are mostly one object: see ``member_copies``
        for lease in registry.leases:
            known = latest.get(lease.key)
            if known is None or precedence(known) < precedence(lease):
                latest[lease.key] = lease
    return Registry(mesh=meshes.pop(), leases=tuple(latest[key] for key in sorted(latest)))


def with_time(registry: Registry, now: datetime) -> Registry:
    """Return the registry with ``now`` (aware) in place of ``steps.NOW``, for callers that write it themselves."""
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return replace(registry, leases=tuple(replace(lease, since=time) if lease.since == NOW else lease for lease in registry.leases))


def without_oldest(registry: Registry) -> Registry:
    """Return the registry without the oldest released leases beyond ``RELEASED_KEPT``."""
    old = sorted((lease for lease in registry.leases if not lease.holds), key=lambda lease: (lease.since, lease.key), reverse=True)
    forgotten = {lease.key for lease in old[RELEASED_KEPT:]}
    return replace(registry, leases=tuple(lease for lease in registry.leases if lease.key not in forgotten)) if forgotten else registry


def write_registry(registry: Registry) -> str:
    """Format a registry as its one canonical text: JSON, one lease per line, so that a diff shows leases."""
    rows = [json.dumps(lease.to_dict(), separators=(",", ":")) for lease in sorted(registry.leases, key=lambda lease: lease.key)]
    listed = "".join(f"\n  {row}," for row in rows)[:-1]
    return f'{{"schema":{SCHEMA},"mesh":{json.dumps(registry.mesh)},"leases":[{listed}\n]}}\n'


def parse_registry(text: str) -> Registry:
    """Parse the text of a registry. Nothing in it is trusted: types, lengths and ranges are checked, unknown keys are dropped.

    :raises RegistryProblem: when it is no registry; NewerRegistry when a later release wrote it.
    """
    if len(text) > LIMIT:
        raise RegistryProblem("it is too long")
    try:
        data = load_json(text)
    except NotJson:
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
    known = {key: row[key] for key in (*texts, "id", "serial")}
    return Lease(**known | {"pod_cidrs": tuple(row["podCidrs"]), "state": LeaseState(row["state"])})


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
    """Return the name of the ConfigMap. There is one per binding, so that two meshes with a common cluster never meet in one object."""
    return f"cilium-mesh-{binding.owner}"


def is_ours(facts: RegistryFacts, binding: Binding) -> bool:
    """Return whether this binding created the ConfigMap. Any other ConfigMap of that name is left alone."""
    return facts.present and facts.labels.get(OWNER_LABEL) == binding.owner


def may_be_written(facts: RegistryFacts, binding: Binding) -> bool:
    """Return whether neither another writer nor a later release owns the ConfigMap."""
    if not facts.present or not is_ours(facts, binding):
        return not facts.present and not facts.unread
    try:
        parse_registry(facts.text)
    except NewerRegistry:
        return False
    except RegistryProblem:
        pass  # not a valid registry, and this binding's own ConfigMap
    return True


def read_copy(cluster: ClusterFacts, mesh: Mesh) -> Registry:
    """Return the copy that a member keeps.

    :raises RegistryProblem: when there is none, it is not this binding's, or it cannot be parsed.
    """
    if cluster.registry.present and not is_ours(cluster.registry, mesh.binding):
        raise RegistryProblem("the ConfigMap does not belong to this binding")
    if not cluster.registry.text:
        raise RegistryProblem("there is none")
    found = parse_registry(cluster.registry.text)
    if found.mesh != mesh.binding.owner:
        raise RegistryProblem("it is of another mesh")
    return found


def member_copies(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, Registry | RegistryProblem]:
    """Return the copy of every cluster by inventory name, or the reason why it has none.

    Equal texts are parsed once: with 511 members they all are equal.
    """
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


def lease_of(cluster: ClusterFacts) -> Lease:
    """Return the lease of the name and id that the cluster runs, as cilium-config has them.

    Only for a cluster whose name and id are valid.
    """
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
    """Return all addresses that the cluster's pods may have, as at most ``CIDRS_KEPT`` networks of each family."""
    networks = [claim.network for claim in (*pool_ranges(cluster), *allocated_ranges(cluster))]
    # Nodes come and go, and each change of a lease is a write to every member: more networks are widened.
    return tuple(str(network) for network in widen_networks(networks, CIDRS_KEPT))


def covers(wide: Iterable[str], narrow: Iterable[str]) -> bool:
    """Return whether all addresses of ``narrow`` are in ``wide``."""
    outer = NetworkSet(ip_network(text) for text in wide)
    return all(outer.contains(ip_network(text)) for text in narrow)


def with_released(registry: Registry, hosts: Iterable[str]) -> Registry:
    """Return the registry after these hosts left in order: their ids are in quarantine from now on."""
    return _with_ended(registry, hosts, LeaseState.RELEASED)


def with_tombstones(registry: Registry, hosts: Iterable[str]) -> Registry:
    """Return the registry after these hosts were disconnected without their answer: each gets a tombstone until it is taken back."""
    return _with_ended(registry, hosts, LeaseState.DEAD)


def _with_ended(registry: Registry, hosts: Iterable[str], state: LeaseState) -> Registry:
    going = set(hosts)
    ends = (LeaseState.ACTIVE, LeaseState.RESERVED)
    changed = [lease for lease in registry.leases if lease.host in going and lease.state in ends]
    return registry.with_leases(replace(lease, state=state, since=NOW, serial=lease.next_serial) for lease in changed)
