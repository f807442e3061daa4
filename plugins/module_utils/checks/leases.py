# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of cluster names and ids in use against the leases of the mesh, and of clusters with a tombstone.

Why a name and an id may not change while they are used: Cilium pkg/clustermesh (remote configuration and identity range are compared
at connection), issues 36338, 48800 and 48801.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base.tables import count
from ..findings.finding import Finding, Severity
from ..findings.wording import config_evidence, kubectl, lines, listed, show, where
from ..leases.agreement import is_certain, readable_copies, unwitnessed
from ..leases.claims import without_ended_claims
from ..leases.plan_tombstones import lockout_finding
from ..leases.quarantine import lease_text, quarantine_end
from ..leases.registry import (
    Lease,
    LeaseState,
    NewerRegistry,
    RegistryProblem,
    is_ours,
    member_copies,
    merge,
    registry_name,
    without_oldest,
)
from ..leases.tombstones import doubtful_deaths, remaining_access, returning_members, tombstones
from ..mesh.facts.cluster import ClusterFacts
from .context import CheckContext
from .flaw import Flaw
from .registry import check

_LEAVE = "Or take the cluster out and back in under its new name and id: disconnect with mesh_connect_clusters naming it, then connect."


def _members(context: CheckContext) -> dict[str, ClusterFacts]:
    """Return the facts of the members that were observed, by host."""
    return {host: context.facts[host] for host in context.mesh.clusters if host in context.facts}


@check("CM-LEASE-01")
def members_use_leased_name_and_id(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose name or id is not the one of its active lease."""
    registry = context.leases
    for host, facts in context.mesh.members_in(context.facts).items():
        lease = registry.active(host)
        if lease is None or facts.config is None or (facts.name, facts.id) == (lease.name, lease.id):
            continue
        if facts.uid and lease.uid not in ("", facts.uid):
            continue  # CM-LEASE-02
        yield Flaw(
            cluster=host,
            summary=f"Cluster {host} was renumbered or renamed while it is in the mesh, which knows it by {lease_text(lease)}",
            evidence=f"{config_evidence(facts, 'cluster-name', 'cluster-id')}; ConfigMap {registry_name(context.mesh.binding)}: "
            f"{lease_text(lease)}",
            fix=lines(f"Set cluster.name={lease.name} and cluster.id={lease.id} again and restart Cilium.", _LEAVE),
        )


@check("CM-LEASE-02")
def members_are_the_clusters_of_their_leases(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose uid is not the one of its active lease."""
    registry = context.leases
    for host, facts in context.mesh.members_in(context.facts).items():
        lease = registry.active(host)
        if lease is None or not lease.uid or not facts.uid or lease.uid == facts.uid:
            continue
        yield Flaw(
            cluster=host,
            summary=f"Inventory host {host} leads to another cluster than the one that holds the lease of {lease_text(lease)}",
            evidence=f"the namespace where Cilium runs has the uid {facts.uid}; leased to uid {show(lease.uid)} in ConfigMap "
            f"{registry_name(context.mesh.binding)}",
            fix=lines(
                "If the kubeconfig or context of the host is wrong, correct it.",
                "If the cluster was built anew, disconnect it with mesh_connect_clusters naming it, then connect; or accept this code, "
                "and the new cluster takes the lease over.",
            ),
        )


@check("CM-LEASE-03")
def name_and_id_are_not_leased_to_another(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose name or id is leased to another cluster."""
    members, everywhere = context.mesh.members_in(context.facts), context.decisions.mesh.clusters
    registry = without_ended_claims(context.leases, everywhere, context.now)
    for host, facts in members.items():
        taken = [lease for lease in registry.leases if lease.holds and _collides(lease, facts) and not _lease_ends(lease, context)]
        if taken:
            yield Flaw(
                cluster=host,
                peer=taken[0].host if taken[0].host in members else "",
                summary=f"Cluster {host} uses a name or an id that the mesh has leased to {show(taken[0].host)}",
                evidence=f"{config_evidence(facts, 'cluster-name', 'cluster-id')}; ConfigMap {registry_name(context.mesh.binding)}: "
                + listed(f"{show(lease.host)} ({lease.state.value}) {lease_text(lease)}" for lease in taken),
                fix=lines(
                    f"Give {host} a free name and id; playbook edge_portal.cilium_mesh.identity says which and how.",
                    "If the other cluster no longer exists, disconnect with mesh_connect_clusters naming it: its lease ends.",
                ),
            )


def _collides(lease: Lease, facts: ClusterFacts) -> bool:
    """Return whether the lease of another cluster has the name or the id of this cluster."""
    same_name = facts.name not in ("", "default") and lease.name == facts.name
    another = lease.host != facts.host and lease.uid != facts.uid  # a host that was renamed in the inventory only is the same cluster
    return another and (same_name or (bool(facts.id) and lease.id == facts.id))


def _lease_ends(lease: Lease, context: CheckContext) -> bool:
    """Return whether the lease is active and its cluster is not a member in this context.

    Either the cluster left, so that its lease ends with the next connect, or it is a member without a common peer.
    """
    return lease.state is LeaseState.ACTIVE and lease.host not in context.mesh.clusters


@check("CM-LEASE-04")
def ids_are_not_in_quarantine(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose id another cluster released, while its quarantine lasts."""
    registry = context.leases
    for host, facts in context.mesh.members_in(context.facts).items():
        lease = registry.active(host)
        if not facts.id or (lease is not None and lease.id == facts.id):
            continue
        resting = [r for r in registry.released(facts.id) if r.uid != facts.uid and quarantine_end(r) > context.now]
        if resting:
            latest = max(resting, key=quarantine_end)
            yield Flaw(
                cluster=host,
                summary=f"Cluster {host} uses id {facts.id}, which {show(latest.host)} released only at {latest.since}",
                evidence=f"ConfigMap {registry_name(context.mesh.binding)}: released {lease_text(latest)}",
                fix=f"Wait until {quarantine_end(latest):%Y-%m-%dT%H:%M:%SZ}, or make sure that no cluster still holds its identities.",
            )


@check("CM-LEASE-15")
def assignments_are_finished(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose assigned name and id are still reserved and not active.

    cilium-config has the new name and id; whether the pods use them, only the run that restarts them knows.
    """
    registry = context.leases
    for host, facts in context.mesh.members_in(context.facts).items():
        claims = [one for one in registry.leases if one.host == host and one.state is LeaseState.RESERVED]
        if registry.active(host) is None and any((one.name, one.id) == (facts.name, facts.id) for one in claims):
            yield Flaw(
                cluster=host,
                summary=f"Cluster {host} was given its name and id, but it is not proven that all its workloads were restarted since",
                evidence=f"{config_evidence(facts, 'cluster-name', 'cluster-id')}; claimed, and not active, in ConfigMap "
                f"{registry_name(context.mesh.binding)}",
                fix="Run playbook edge_portal.cilium_mesh.identity with cluster_identity_policy=assign again: it goes on where it stopped.",
            )


@check("CM-LEASE-05")
def lease_copies_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose copy of the lease registry is missing, unreadable or out of date.

    The check needs at least one copy: before the first connect there is none, and none is missing.
    """
    members = context.mesh.members_in(context.facts)
    found = member_copies(context.mesh, members)
    whole = without_oldest(context.leases)
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
            known, what = bool(unwitnessed(whole, copy)), "lacks leases that copies of other members hold"
        if known:
            yield Flaw(
                cluster=host,
                summary=f"The copy of the mesh's leases in {host} {what}",
                evidence=where(members[host], "ConfigMap", registry_name(context.mesh.binding)),
                fix="Run connect: it merges what all members hold and writes it to each."
                + ("" if whole.leases else " No member has a copy that can be read, so ids that are in quarantine are forgotten."),
            )


@check("CM-LEASE-16")
def lease_copies_hold_no_claims_of_their_own(context: CheckContext) -> Iterator[Flaw]:
    """Report a member whose copy of the lease registry holds leases, or later versions of them, that no other copy holds.

    It blocks only where two copies can be read and one says that the other member died: connecting that member could let a stranger in.
    """
    members = context.mesh.members_in(context.facts)
    readable, doubts = readable_copies(context.mesh, members), doubtful_deaths(context.mesh, members)
    certain = is_certain(len(readable), len(context.mesh.clusters))
    for host, copy in readable.items():
        others = [other for member, other in readable.items() if member != host]
        alone = unwitnessed(copy, context.leases if certain else merge(others)) if others else ()
        dead = [item.host for item in doubts.get(host, ()) if item.host not in context.take_back]
        if alone:
            yield Flaw(
                severity=Severity.BLOCKING if dead else None,
                cluster=host,
                summary=f"The copy of the mesh's leases in {host} holds {count(len(alone), 'lease')} that no other member confirms: "
                + ("the run ignores them" if certain else "only two copies can be read, so it is not known which is wrong"),
                evidence=f"{where(members[host], 'ConfigMap', registry_name(context.mesh.binding))}: "
                + listed(f"{show(lease.host)} ({lease.state.value}) {lease_text(lease)}, serial {lease.serial}" for lease in alone),
                fix=lines(
                    "If a run was stopped, run it again: it writes the same leases to every member.",
                    f"If none was, find out who writes this ConfigMap in {host}. Run connect"
                    + ("" if certain else " when a third copy can be read")
                    + ": it writes what the members agree on.",
                    *[f'If {one} is the cluster that it was: -e \'{{"mesh_connect_take_back": ["{one}"]}}\'' for one in dead],
                ),
            )


@check("CM-LEASE-06")
def lease_registry_name_is_free(context: CheckContext) -> Iterator[Flaw]:
    """Report a ConfigMap of the lease registry's name that belongs to another writer or a later release."""
    members = context.mesh.members_in(context.facts)
    name = registry_name(context.mesh.binding)
    for host, copy in member_copies(context.mesh, members).items():
        facts = members[host]
        foreign = facts.registry.present and not is_ours(facts.registry, context.mesh.binding)
        if not foreign and not isinstance(copy, NewerRegistry):
            continue
        yield Flaw(
            cluster=host,
            summary=f"ConfigMap {name} of {host} is not overwritten: "
            + ("another writer made it" if foreign else "a later release of this collection wrote it"),
            evidence=f"{where(facts, 'ConfigMap', name)}: "
            + ("no owner label of this binding" if foreign else "this release does not know its schema")
            + f"; field managers {listed(show(m) for m in facts.registry.managers) or 'none recorded'}",
            fix=lines("Inspect it, save what you need of it, and delete it:", kubectl(facts, "delete", "configmap", name))
            if foreign
            else "Use the release of this collection that wrote it, or a later one.",
        )


@check("CM-TOMB-01")
def returning_clusters_match_their_tombstones(context: CheckContext) -> Iterator[Flaw]:
    """Report a returning cluster that differs from its tombstone."""
    for item in returning_members(context.mesh, context.facts):
        if not item.differences or item.host in context.take_back:
            continue
        yield Flaw(
            cluster=item.host,
            summary=f"{item.host} is back, but it is not the cluster that was disconnected without its answer: {item.differences[0]}"
            + (f", and {len(item.differences) - 1} more" if len(item.differences) > 1 else ""),
            evidence=f"ConfigMap {registry_name(context.mesh.binding)} of the other members, dead since {item.tombstone.since}: "
            + "; ".join(item.differences),
            fix=lines(
                "Find out which cluster this is: the kubeconfig of the host may be wrong, or another cluster may pose as it.",
                f'If it was built anew and you want it in the mesh: -e \'{{"mesh_connect_take_back": ["{item.host}"]}}\'',
                f"In a ClusterMeshBinding: takeBack with cluster {item.host}, reason and until.",
            ),
        )


@check("CM-TOMB-02")
def dead_clusters_are_locked_out(context: CheckContext) -> Iterator[Finding]:
    """Report members that would still let a cluster with a tombstone in."""
    dead = tombstones(context.mesh, context.facts)
    for host in context.mesh.clusters:
        if host in context.facts:
            others = [lease for lease in dead if lease.host != host]
            yield from (lockout_finding(host, gone, why) for gone, why in remaining_access(context.facts[host], others).items())
