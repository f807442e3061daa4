# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Host aliases of the peers' names, where Cilium before 1.20 needs them, and the one write per workload that updates them.

hostAliases is a map by IP for server-side apply, with the host names of an entry as one value: two peers behind one IP share an entry,
and an entry of another writer cannot be extended (Kubernetes API, core/v1 PodSpec.hostAliases: listMapKey ip, hostnames atomic).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..base.tables import count
from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import Binding
from ..mesh.endpoints.address_moves import updated_moves, write_moves
from ..mesh.endpoints.addresses import canonical_ip, is_ip
from ..mesh.facts.cluster import ClusterFacts, HostAlias, WorkloadFacts
from ..mesh.ownership.objects import moves_annotation, recorded_moves
from ..mesh.versions.minors import aliases_in_template, reader_version
from ..plan.steps import NOW, ApplyHostAliases, Step
from .peer_keys import Link


@dataclass(frozen=True, kw_only=True)
class DesiredAliases:
    """All hostAliases entries of the binding in one workload: IP -> host names, sorted."""

    workload: WorkloadFacts
    entries: Mapping[str, tuple[str, ...]]
    conflicts: tuple[HostAlias, ...] = ()  # entries of others in the way


def desired_aliases(local: ClusterFacts, links: Iterable[Link], kept_names: Iterable[str], manager: str) -> tuple[DesiredAliases, ...]:
    """Return the aliases of both workloads of ``local``; none for the workload that does not dial the peers.

    :param kept_names: cluster names of peers that were not observed: the aliases of their names stay.
    """
    wanted: dict[str, set[str]] = {}
    if aliases_in_template(reader_version(local)):
        for link in links:
            for ip in link.endpoint.ips:
                wanted.setdefault(ip, set()).add(link.endpoint.hostname)
    reader = local.apiserver if local.runs_kvstoremesh else local.agent
    prefixes = tuple(f"{name}." for name in kept_names)
    found = []
    for workload in (local.apiserver, local.agent):
        if workload is not None:
            names = {ip: set(hostnames) for ip, hostnames in wanted.items()} if workload is reader else {}
            for alias in _own_aliases(workload, manager):
                staying = {h for h in alias.hostnames if prefixes and h.startswith(prefixes)}
                if staying:
                    names.setdefault(alias.ip, set()).update(staying)
            found.append(_resolve_conflicts(workload, names, manager))
    return tuple(found)


def alias_problems(local: ClusterFacts, desired: DesiredAliases) -> Iterator[Finding]:
    """Yield findings about entries of other writers for an IP that a peer's name needs."""
    for alias in desired.conflicts:
        workload = f"{desired.workload.kind} {local.namespace}/{desired.workload.name}"
        yield finding(
            "CM-OWN-03",
            cluster=local.host,
            summary=f"the hostAliases entry for {alias.ip} in {desired.workload.name} belongs to another writer and lacks a peer's name",
            evidence=f"{workload}: {alias.ip} -> {', '.join(alias.hostnames)}; field manager {', '.join(alias.managers) or 'unknown'}",
            fix="add the peer's name to that entry, or remove the entry",
        )


def alias_step(
    local: ClusterFacts,
    desired: DesiredAliases,
    *,
    binding: Binding,
    wave: int,
    why: str,
    peers: Collection[str],
    moved: Collection[str] = (),
) -> Step | None:
    """Return the write that makes the binding's entries equal to ``desired``; None if they are equal already.

    :param peers: cluster names of the peers that this workload goes on dialling; records of others go (mesh/endpoints/address_moves.py).
    :param moved: those of which other addresses or names are dialled than before: the time of the write is recorded.
    """
    workload = desired.workload
    own = {alias.ip: tuple(sorted(alias.hostnames)) for alias in _own_aliases(workload, binding.manager)}
    before = recorded_moves(binding, workload)
    record = write_moves(updated_moves(before, peers, moved, NOW))
    same = own == dict(desired.entries)
    if same and (record or not before):
        return None
    adds = bool(set(desired.entries.items()) - set(own.items()))
    restarts = f"rolling restart of {workload.kind} {workload.name} ({count(workload.desired, 'pod')})"
    return Step(
        wave=wave,
        cluster=local.host,
        verb="apply",
        object=f"{workload.kind} {local.namespace}/{workload.name}",
        why=why + ("" if adds else " (only entries that are removed)"),
        disruption="" if same else f"{restarts}: host aliases are part of the pod template before Cilium 1.20",
        undo=f"playbook edge_portal.cilium_mesh.{'disconnect takes exactly' if adds else 'connect writes'} these entries "
        f"{'out again' if adds else 'again'}, with another rolling restart",
        action=ApplyHostAliases(
            namespace=local.namespace,
            kind=workload.kind,
            name=workload.name,
            aliases=dict(desired.entries),
            annotations={moves_annotation(binding): record} if record else {},
        ),
    )


def only_removes(desired: DesiredAliases, manager: str) -> bool:
    """Return whether the write adds no name."""
    own = {alias.ip: set(alias.hostnames) for alias in _own_aliases(desired.workload, manager)}
    return all(set(names) <= own.get(ip, set()) for ip, names in desired.entries.items())


def _resolve_conflicts(workload: WorkloadFacts, wanted: Mapping[str, set[str]], manager: str) -> DesiredAliases:
    """Return the entries to write, without those that other writers provide already, and the entries that conflict."""
    foreign: dict[str, list[HostAlias]] = {}
    for alias in workload.host_aliases:
        others = set(alias.managers) - {manager}
        if others or not alias.managers:
            foreign.setdefault(canonical_ip(alias.ip) if is_ip(alias.ip) else alias.ip, []).append(alias)
    entries: dict[str, tuple[str, ...]] = {}
    conflicts: list[HostAlias] = []
    for ip, names in sorted(wanted.items()):
        held = foreign.get(ip, [])
        provided = {hostname for alias in held for hostname in alias.hostnames}
        if not held:
            entries[ip] = tuple(sorted(names))
        elif not names <= provided:
            conflicts.extend(held)
        elif any(manager in alias.managers and set(alias.hostnames) == names for alias in held):
            entries[ip] = tuple(sorted(names))  # owned together with another writer: both keep it
    return DesiredAliases(workload=workload, entries=entries, conflicts=tuple(conflicts))


def _own_aliases(workload: WorkloadFacts, manager: str) -> tuple[HostAlias, ...]:
    return tuple(alias for alias in workload.host_aliases if manager in alias.managers)
