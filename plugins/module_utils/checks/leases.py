# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What runs, compared with the leases that the mesh keeps: nobody renumbered a member, nobody stands in for another.

Why a name and an id may not change while they are used: Cilium pkg/clustermesh (remote configuration and identity range are compared at
connection), issues 36338, 48800 and 48801.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..registry import (
    Lease,
    LeaseState,
    NewerRegistry,
    Registry,
    RegistryProblem,
    copies,
    is_ours,
    mesh_registry,
    registry_name,
    trimmed,
)
from .wording import config_evidence, finding, kubectl, lines, listed, show, where

QUARANTINE: Final = timedelta(hours=24)
"""How long an id rests after its cluster left: clients of the old cluster's identities and addresses are gone by then."""

_LEAVE = "Or take the cluster out and back in under its new name and id: disconnect with mesh_connect_clusters naming it, then connect."


def _members(context: CheckContext) -> dict[str, ClusterFacts]:
    return {host: context.facts[host] for host in context.mesh.clusters if host in context.facts}


def _registry(context: CheckContext) -> Registry:
    return mesh_registry(context.mesh, _members(context))


def lease_text(lease: Lease) -> str:
    """``name "c1", id 1``."""
    return f"name {show(lease.name)}, id {lease.id}"


@check("CM-LEASE-01", "Cluster runs another name or id than it has leased", severity=Severity.BLOCKING, scope=Scope.MESH)
def runs_what_it_leased(context: CheckContext) -> Iterator[Finding]:
    registry = _registry(context)
    for host, facts in _members(context).items():
        lease = registry.active(host)
        if lease is None or facts.config is None or lease.uid not in ("", facts.uid) or (facts.name, facts.id) == (lease.name, lease.id):
            continue
        yield finding(
            "CM-LEASE-01",
            cluster=host,
            summary=f"Cluster {host} was renumbered or renamed while it is in the mesh, which knows it by {lease_text(lease)}",
            evidence=f"{config_evidence(facts, 'cluster-name', 'cluster-id')}; ConfigMap {registry_name(context.mesh.binding)}: "
            f"{lease_text(lease)}",
            fix=lines(f"Set cluster.name={lease.name} and cluster.id={lease.id} again and restart Cilium.", _LEAVE),
        )


@check("CM-LEASE-02", "Another cluster stands where a leased one stood", severity=Severity.BLOCKING, scope=Scope.MESH, acceptable=True)
def is_who_it_was(context: CheckContext) -> Iterator[Finding]:
    registry = _registry(context)
    for host, facts in _members(context).items():
        lease = registry.active(host)
        if lease is None or not lease.uid or not facts.uid or lease.uid == facts.uid:
            continue
        yield finding(
            "CM-LEASE-02",
            cluster=host,
            summary=f"Behind inventory host {host} is another cluster than the one that the mesh knows by {lease_text(lease)}",
            evidence=f"the namespace where Cilium runs has the uid {facts.uid}; leased to uid {show(lease.uid)} in ConfigMap "
            f"{registry_name(context.mesh.binding)}",
            fix=lines(
                "If the kubeconfig or context of the host is wrong, correct it.",
                "If the cluster was built anew, disconnect it with mesh_connect_clusters naming it, then connect; or accept this code, "
                "and the new cluster takes the lease over.",
            ),
        )


@check("CM-LEASE-03", "Cluster uses a name or an id that is leased to another", severity=Severity.BLOCKING, scope=Scope.SEEN)
def uses_nobody_elses(context: CheckContext) -> Iterator[Finding]:
    registry, members = _registry(context), _members(context)
    for host, facts in members.items():
        taken = [lease for lease in registry.leases if lease.holds and _collides(lease, facts) and not _gone(lease, context)]
        if taken:
            yield finding(
                "CM-LEASE-03",
                cluster=host,
                peer=taken[0].host if taken[0].host in members else "",
                summary=f"Cluster {host} uses a name or an id that the mesh has leased to {show(taken[0].host)}",
                evidence=f"{config_evidence(facts, 'cluster-name', 'cluster-id')}; ConfigMap {registry_name(context.mesh.binding)}: "
                + listed(f"{show(lease.host)} ({lease.state.value}) {lease_text(lease)}" for lease in taken),
                fix=lines(
                    f"Give {host} a free name and id; playbook edge_portal.cilium_mesh.identity says which and how.",
                    "If the other cluster is no more, disconnect with mesh_connect_clusters naming it: its lease ends.",
                ),
            )


def _collides(lease: Lease, facts: ClusterFacts) -> bool:
    same_name = facts.name not in ("", "default") and lease.name == facts.name
    another = lease.host != facts.host and lease.uid != facts.uid  # a host that was only renamed in the inventory is the same cluster
    return another and (same_name or (bool(facts.id) and lease.id == facts.id))


def _gone(lease: Lease, context: CheckContext) -> bool:
    """Its cluster is no member any more, so that its lease ends with the next connect; or a member that no peer of this one sees."""
    return lease.state is LeaseState.ACTIVE and lease.host not in context.mesh.clusters


@check("CM-LEASE-04", "Cluster uses an id that is in quarantine", severity=Severity.REMEDIABLE, scope=Scope.MESH)
def uses_no_resting_id(context: CheckContext) -> Iterator[Finding]:
    registry = _registry(context)
    for host, facts in _members(context).items():
        lease = registry.active(host)
        if not facts.id or (lease is not None and lease.id == facts.id):
            continue
        resting = [r for r in registry.released(facts.id) if r.uid != facts.uid and rests_until(r) > context.now]
        if resting:
            latest = max(resting, key=rests_until)
            yield finding(
                "CM-LEASE-04",
                cluster=host,
                summary=f"Cluster {host} uses id {facts.id}, which {show(latest.host)} gave up only at {latest.since}",
                evidence=f"ConfigMap {registry_name(context.mesh.binding)}: released {lease_text(latest)}",
                fix=f"Wait until {rests_until(latest):%Y-%m-%dT%H:%M:%SZ}, or make sure that nothing remembers its identities.",
            )


def rests_until(lease: Lease, quarantine: timedelta = QUARANTINE) -> datetime:
    """When a released id may be handed out again. A time that cannot be read counts as none."""
    try:
        return datetime.strptime(lease.since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) + quarantine
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)


@check("CM-LEASE-15", "An assignment was begun and is not finished", severity=Severity.BLOCKING, scope=Scope.MESH)
def assignment_is_finished(context: CheckContext) -> Iterator[Finding]:
    """Its configuration says the new name and id; whether its pods do, only the run that restarts them knows."""
    registry = _registry(context)
    for host, facts in _members(context).items():
        claims = [one for one in registry.leases if one.host == host and one.state is LeaseState.CLAIMED]
        if registry.active(host) is None and any((one.name, one.id) == (facts.name, facts.id) for one in claims):
            yield finding(
                "CM-LEASE-15",
                cluster=host,
                summary=f"Cluster {host} was given its name and id, but it is not sure that all of it was restarted since",
                evidence=f"{config_evidence(facts, 'cluster-name', 'cluster-id')}; claimed, and not active, in ConfigMap "
                f"{registry_name(context.mesh.binding)}",
                fix="Run playbook edge_portal.cilium_mesh.identity with cluster_identity_policy=assign again: it goes on where it stopped.",
            )


@check("CM-LEASE-05", "A member's copy of the leases is lost, spoiled or out of date", severity=Severity.REMEDIABLE, scope=Scope.MESH)
def copies_agree(context: CheckContext) -> Iterator[Finding]:
    """Only where some copy exists: before the first connect there are none, and none is missed."""
    members = _members(context)
    found = copies(context.mesh, members)
    whole = trimmed(mesh_registry(context.mesh, members))
    if not any(facts.registry.present for facts in members.values()):
        return
    for host, copy in found.items():
        facts = members[host].registry
        if facts.present and (not is_ours(facts, context.mesh.binding) or isinstance(copy, NewerRegistry)):
            continue  # CM-LEASE-06
        if isinstance(copy, RegistryProblem):
            known = whole.active(host) is not None or facts.present
            what = f"cannot be used: {copy}" if facts.present else "is not there"
        else:
            known, what = copy != whole, "does not hold all that the other members' copies hold"
        if known:
            yield finding(
                "CM-LEASE-05",
                cluster=host,
                summary=f"The copy of the mesh's leases in {host} {what}",
                evidence=where(members[host], "ConfigMap", registry_name(context.mesh.binding)),
                fix="Run connect: it merges what all members hold and writes it to each."
                + ("" if whole.leases else " No member has a copy that can be read, so ids that are in quarantine are forgotten."),
            )


@check("CM-LEASE-06", "The place of the leases is taken", severity=Severity.BLOCKING, scope=Scope.MESH)
def place_is_free(context: CheckContext) -> Iterator[Finding]:
    members = _members(context)
    name = registry_name(context.mesh.binding)
    for host, copy in copies(context.mesh, members).items():
        facts = members[host]
        foreign = facts.registry.present and not is_ours(facts.registry, context.mesh.binding)
        if not foreign and not isinstance(copy, NewerRegistry):
            continue
        yield finding(
            "CM-LEASE-06",
            cluster=host,
            summary=f"ConfigMap {name} of {host} is not overwritten: "
            + ("somebody else made it" if foreign else "a later release of this collection wrote it"),
            evidence=f"{where(facts, 'ConfigMap', name)}: "
            + ("no owner label of this binding" if foreign else "its schema is not known here")
            + f"; field managers {listed(show(m) for m in facts.registry.managers) or 'none recorded'}",
            fix=lines("Look at it, keep what you need of it, and delete it:", kubectl(facts, "delete", "configmap", name))
            if foreign
            else "Use the release of this collection that wrote it, or a later one.",
        )
