# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""hostAliases for the peers' names, where Cilium before 1.20 needs them, and the one write per workload that brings them there.

hostAliases is a map by IP for server-side apply, with the host names of an entry as one value: two peers behind one IP share an entry,
and an entry of somebody else cannot be extended (Kubernetes API, core/v1 PodSpec.hostAliases: listMapKey ip, hostnames atomic).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .columns import count
from .endpoints import canonical_ip, is_ip
from .facts import ClusterFacts, HostAlias, WorkloadFacts
from .findings import Finding, Severity
from .peer_keys import Link, reader_version
from .steps import ApplyHostAliases, Step
from .versions import aliases_in_template


@dataclass(frozen=True, kw_only=True)
class DesiredAliases:
    """Every hostAliases entry of ours in one workload: IP -> host names, sorted."""

    workload: WorkloadFacts
    entries: Mapping[str, tuple[str, ...]]
    conflicts: tuple[HostAlias, ...] = ()  # entries of others in the way


def desired_aliases(local: ClusterFacts, links: Iterable[Link], kept_names: Iterable[str], manager: str) -> tuple[DesiredAliases, ...]:
    """The aliases of both workloads of ``local``; of the one that does not dial the peers: none.

    :param kept_names: cluster names of peers that were not observed: their names stay where we put them.
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
            for alias in _own(workload, manager):
                staying = {h for h in alias.hostnames if prefixes and h.startswith(prefixes)}
                if staying:
                    names.setdefault(alias.ip, set()).update(staying)
            found.append(_settle(workload, names, manager))
    return tuple(found)


def alias_problems(local: ClusterFacts, desired: DesiredAliases) -> Iterator[Finding]:
    """Entries of others that hold an IP that a peer's name needs."""
    for alias in desired.conflicts:
        workload = f"{desired.workload.kind} {local.namespace}/{desired.workload.name}"
        yield Finding(
            code="CM-OWN-03",
            severity=Severity.BLOCKING,
            cluster=local.host,
            summary=f"the hostAliases entry for {alias.ip} in {desired.workload.name} belongs to somebody else and lacks a peer's name",
            evidence=f"{workload}: {alias.ip} -> {', '.join(alias.hostnames)}; field manager {', '.join(alias.managers) or 'unknown'}",
            fix="add the peer's name to that entry, or take the entry out",
        )


def alias_step(local: ClusterFacts, desired: DesiredAliases, *, manager: str, wave: int, why: str) -> Step | None:
    """The write that makes our entries equal to ``desired``; None when they are so already."""
    workload = desired.workload
    own = {alias.ip: tuple(sorted(alias.hostnames)) for alias in _own(workload, manager)}
    if own == dict(desired.entries):
        return None
    adds = bool(set(desired.entries.items()) - set(own.items()))
    restarts = f"rolling restart of {workload.kind} {workload.name} ({count(workload.desired, 'pod')})"
    return Step(
        wave=wave,
        cluster=local.host,
        verb="apply",
        object=f"{workload.kind} {local.namespace}/{workload.name}",
        why=why + ("" if adds else " (only entries that go)"),
        disruption=f"{restarts}: host aliases are part of the pod template before Cilium 1.20",
        undo=f"playbook edge_portal.cilium_mesh.{'disconnect takes exactly' if adds else 'connect writes'} these entries "
        f"{'out again' if adds else 'again'}, with another rolling restart",
        action=ApplyHostAliases(namespace=local.namespace, kind=workload.kind, name=workload.name, aliases=dict(desired.entries)),
    )


def only_removes(desired: DesiredAliases, manager: str) -> bool:
    """Does the write give no name that is not there already?"""
    own = {alias.ip: set(alias.hostnames) for alias in _own(desired.workload, manager)}
    return all(set(names) <= own.get(ip, set()) for ip, names in desired.entries.items())


def _settle(workload: WorkloadFacts, wanted: Mapping[str, set[str]], manager: str) -> DesiredAliases:
    """Leave to others what they provide already, and see whose entries are in the way."""
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
            entries[ip] = tuple(sorted(names))  # held together with somebody else: both keep it
    return DesiredAliases(workload=workload, entries=entries, conflicts=tuple(conflicts))


def _own(workload: WorkloadFacts, manager: str) -> tuple[HostAlias, ...]:
    return tuple(alias for alias in workload.host_aliases if manager in alias.managers)
