# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Decision about each cluster's name and id: kept as they run, assigned to a cluster that was never meshed, or refused with a recipe. Pure.

Rules of Cilium: pkg/clustermesh/types (ClusterInfo.Validate, ValidateBuggyClusterID). Why a meshed cluster is never renumbered in place:
issues 36338, 48800 and 48801.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ..base.errors import InvalidInput
from ..leases.claims import without_ended_claims
from ..leases.quarantine import QUARANTINE, quarantine_end
from ..leases.registry import Lease, LeaseState, Registry, lease_of
from ..mesh.binding.model import Mesh
from ..mesh.endpoints.etcd_config import valid_cluster_name
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from ..mesh.trust.link_trust import user_for
from ..mesh.versions.cilium_config import setting
from ..mesh.versions.limits import MAX_CLUSTERS, max_clusters
from ..plan.steps import NOW

DEFAULT_NAME: Final = "default"  # the chart's; refused by Cilium together with an id
NAME_LENGTH: Final = 32


class IdentityVerdict(StrEnum):
    """Decision about the name and the id of a cluster."""

    LEASED = "leased"  # runs the name and the id of its lease
    ADOPT = "adopt"  # runs a name and an id that become its lease
    ASSIGN = "assign"  # was never meshed: gets a name and an id
    RESUME = "resume"  # its configuration has them already; restarts or the lease are not finished
    REFUSE = "refuse"  # must not be changed while it runs


@dataclass(frozen=True, kw_only=True)
class IdentityRequest:
    """Name and id that the user requests for a cluster; "" and None leave them open."""

    name: str = ""
    id: int | None = None


@dataclass(frozen=True, kw_only=True)
class IdentityDecision:
    """Decision for one cluster. ``name`` and ``id`` are those it is to have; None if no id is legal and free."""

    host: str
    verdict: IdentityVerdict
    name: str
    id: int | None
    reasons: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()  # of a refusal: what the user can do, step by step


@dataclass(frozen=True)
class _Conflict:
    """Reason why a name or an id is not free for a cluster. A quarantine binds only clusters that do not run the id yet."""

    reason: str
    is_quarantine: bool = False

    def __str__(self) -> str:
        return self.reason


@dataclass
class _TakenIdentities:
    """Names and ids that are not free, with their holders: other members that run them, leases, quarantine.

    Filled as decisions are made.
    """

    registry: Registry
    now: datetime
    quarantine: timedelta
    ids: dict[int, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()  # members that do not answer and have no lease: any id may be theirs

    def id_conflict(self, cluster: ClusterFacts, id: int) -> _Conflict | None:
        """Return why the id is not free for the cluster; None if it is."""
        leases = [lease for lease in self.registry.holders(id) if lease.host != cluster.host]
        released = [lease for lease in self.registry.released(id) if quarantine_end(lease, self.quarantine) > self.now]
        released = [lease for lease in released if not lease.uid or lease.uid != cluster.uid]
        holder = self.ids.get(id, cluster.host)
        if holder != cluster.host:
            return _Conflict(f"{holder} runs it")
        if leases:
            return _Conflict(f"it is leased to {leases[0].host} ({leases[0].state.value})")
        if released:
            return _Conflict(f"{released[0].host} released it at {released[0].since}, and it is in quarantine", is_quarantine=True)
        return None

    def name_conflict(self, cluster: ClusterFacts, name: str) -> _Conflict | None:
        """Return why the name is not free for the cluster; None if it is."""
        leases = [lease for lease in self.registry.leases if lease.holds and lease.name == name and lease.host != cluster.host]
        leases = [lease for lease in leases if not lease.uid or lease.uid != cluster.uid]
        holder = self.names.get(name, cluster.host)
        if holder != cluster.host:
            return _Conflict(f"{holder} has it")
        return _Conflict(f"it is leased to {leases[0].host}") if leases else None


def legal_ids(cluster: ClusterFacts) -> Iterator[int]:
    """Yield every id that this cluster may have, in ascending order."""
    highest = int(max_clusters(cluster)) if max_clusters(cluster) in MAX_CLUSTERS else 255
    # With these the agent uses bit 7 of the id as a packet mark of its own (issue 21330).
    cloud = setting(cluster, "ipam") in ("eni", "alibabacloud") or setting(cluster, "cni-chaining-mode") == "aws-cni"
    return (id for id in range(1, highest + 1) if not (cloud and id & 0x80))


def has_usable_identity(cluster: ClusterFacts) -> bool:
    """Return whether the cluster runs a name and an id with which it can be in a mesh."""
    return valid_cluster_name(cluster.name) and cluster.name != DEFAULT_NAME and cluster.id in set(legal_ids(cluster))


def traces_of_a_mesh(cluster: ClusterFacts, registry: Registry) -> tuple[str, ...]:
    """Return the reasons why the cluster may have been in a mesh; () if it surely never was."""
    traces = []
    if cluster.id != 0 and cluster.name not in ("", DEFAULT_NAME):
        traces.append("it has both a name and an id already")
    for secret in (cluster.clustermesh, cluster.kvstoremesh):
        if secret.keys:
            traces.append(f"Secret {secret.name} holds {_count(secret)}")
    users = set(cluster.users.users) - {user_for(cluster)}
    if users:
        traces.append(f"clustermesh-remote-users names {', '.join(sorted(users)[:3])}")
    if cluster.users.problem:
        traces.append("clustermesh-remote-users cannot be read")
    if registry.active(cluster.host) is not None:
        traces.append("the mesh has a lease of it on record")
    return tuple(traces)


def _count(secret: PeerSecretFacts) -> str:
    return f"{len(secret.keys)} keys" if len(secret.keys) > 1 else "a key"


def decide(
    mesh: Mesh,
    facts: Mapping[str, ClusterFacts],
    registry: Registry,
    *,
    requests: Mapping[str, IdentityRequest],
    now: datetime,
    quarantine: timedelta = QUARANTINE,
) -> tuple[IdentityDecision, ...]:
    """Return a decision for every member that answered, in the order of the mesh. Members that run an id come before those that need one.

    :param requests: name and id that the user requests, by inventory name.
    :param now: aware, UTC; decides which ids are in quarantine.
    :raises InvalidInput: when a request is not valid.
    """
    members = [facts[host] for host in mesh.clusters if host in facts]
    registry = without_ended_claims(registry, mesh.clusters, now)
    _check_requests(mesh, facts, requests)
    on_record = {lease.host for lease in registry.leases if lease.holds}
    unknown = tuple(host for host in mesh.clusters if host not in facts and host not in on_record)
    taken = _TakenIdentities(registry=registry, now=now, quarantine=quarantine, unknown=unknown)
    found: dict[str, IdentityDecision] = {}
    for cluster in sorted(members, key=lambda c: registry.active(c.host) is None):  # a lease goes before a claim without one
        if has_usable_identity(cluster):
            found[cluster.host] = _decide_running(cluster, taken, requests.get(cluster.host, IdentityRequest()))
        if cluster.id and found.get(cluster.host, _NONE).verdict is not IdentityVerdict.REFUSE:
            taken.ids.setdefault(cluster.id, cluster.host)
            taken.names.setdefault(cluster.name, cluster.host)
    for cluster in members:  # the name and id that a refused cluster runs are not free either
        if cluster.id:
            taken.ids.setdefault(cluster.id, cluster.host)
            taken.names.setdefault(cluster.name, cluster.host)
    for cluster in members:
        if cluster.host not in found:
            made = found[cluster.host] = _decide_waiting(cluster, taken, requests.get(cluster.host, IdentityRequest()))
            if made.verdict is IdentityVerdict.ASSIGN and made.id is not None:
                taken.ids[made.id], taken.names[made.name] = cluster.host, cluster.host
    return tuple(found[cluster.host] for cluster in members)


_NONE: Final = IdentityDecision(host="", verdict=IdentityVerdict.ADOPT, name="", id=None)


def _check_requests(mesh: Mesh, facts: Mapping[str, ClusterFacts], requests: Mapping[str, IdentityRequest]) -> None:
    for host, request in requests.items():
        if host not in mesh.clusters:
            raise InvalidInput(f"names has {host!r}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}.")
        if request.name and (not valid_cluster_name(request.name) or request.name == DEFAULT_NAME):
            raise InvalidInput(
                f"names gives {host} the name {request.name!r}.",
                remedy="Use 1 to 32 lower-case letters, digits and '-', and not 'default'.",
            )
        if request.id is not None and host in facts and request.id not in set(legal_ids(facts[host])):
            raise InvalidInput(
                f"names gives {host} the id {request.id}, which Cilium refuses there.", remedy="Leave it open, or take a lower one."
            )


def _decide_running(cluster: ClusterFacts, taken: _TakenIdentities, request: IdentityRequest) -> IdentityDecision:
    registry, running = taken.registry, lease_of(cluster)
    lease, claim = registry.active(cluster.host), registry.claim(cluster.host)
    keep = IdentityDecision(host=cluster.host, verdict=IdentityVerdict.ADOPT, name=cluster.name, id=cluster.id)
    wanted = replace(keep, name=request.name or cluster.name, id=request.id or cluster.id)
    if (wanted.name, wanted.id) != (cluster.name, cluster.id):
        return _refusal(cluster, wanted, f"it runs as {_named(cluster)}, and other values are requested")
    if lease is not None and lease.key != running.key:
        return _refusal(cluster, replace(keep, name=lease.name, id=lease.id), f"it runs as {_named(cluster)}, but has another lease")
    if lease is not None:
        return replace(keep, verdict=IdentityVerdict.LEASED)
    if claim is not None and any(one.key == running.key for one in _reservations(registry, cluster.host)):
        return replace(keep, verdict=IdentityVerdict.RESUME, reasons=("an assignment was begun and not finished",))
    for conflict in (taken.id_conflict(cluster, running.id), taken.name_conflict(cluster, running.name)):
        if conflict and not conflict.is_quarantine:
            free = _allocate(cluster, taken, IdentityRequest(name=request.name), new_name=True)
            return _refusal(cluster, replace(keep, name=free.name, id=free.id), f"it runs as {_named(cluster)}, and {conflict}")
    return keep


def _reservations(registry: Registry, host: str) -> list[Lease]:
    return [lease for lease in registry.leases if lease.host == host and lease.state is LeaseState.RESERVED]


def _decide_waiting(cluster: ClusterFacts, taken: _TakenIdentities, request: IdentityRequest) -> IdentityDecision:
    wanted = _allocate(cluster, taken, request)
    if cluster.config is None:
        return replace(wanted, verdict=IdentityVerdict.REFUSE, reasons=("there is no ConfigMap cilium-config",))
    traces = traces_of_a_mesh(cluster, taken.registry)
    if traces:
        return _refusal(cluster, wanted, *traces)
    return wanted


def _allocate(cluster: ClusterFacts, taken: _TakenIdentities, request: IdentityRequest, *, new_name: bool = False) -> IdentityDecision:
    """Return the name and the id that the cluster is to get.

    These are the requested ones, else those claimed earlier, else the lowest legal and free id.
    """
    reasons: list[str] = []
    claim = taken.registry.claim(cluster.host)
    name = request.name or _name(cluster, taken, reasons, new_name)
    # Only the id is kept: the name of a claim may be the choice of the owner of a member in whose copy it stands.
    kept = claim if claim and claim.name == name and not taken.id_conflict(cluster, claim.id) else None
    conflict = taken.name_conflict(cluster, name)
    made = IdentityDecision(host=cluster.host, verdict=IdentityVerdict.ASSIGN, name=name, id=None)
    if conflict:
        return replace(made, reasons=(*reasons, f"the name {name} is not free: {conflict}"))
    if taken.unknown:
        return replace(made, reasons=(*reasons, f"no id is known to be free: {', '.join(taken.unknown)} not answering, and not on record"))
    if request.id is not None:
        conflict = taken.id_conflict(cluster, request.id)
        return replace(made, reasons=(*reasons, f"id {request.id} is not free: {conflict}")) if conflict else replace(made, id=request.id)
    if kept is not None and kept.id in set(legal_ids(cluster)):
        return replace(made, id=kept.id, reasons=(*reasons, "claimed before"))
    id = next((id for id in legal_ids(cluster) if not taken.id_conflict(cluster, id)), None)
    return replace(made, id=id, reasons=tuple(reasons) if id else (*reasons, "every id that is legal for it is in use or in quarantine"))


def _name(cluster: ClusterFacts, taken: _TakenIdentities, reasons: list[str], new_name: bool) -> str:
    """Return the cluster's own name, else its inventory name, made valid if need be with an entry in ``reasons``."""
    if (
        valid_cluster_name(cluster.name)
        and cluster.name != DEFAULT_NAME
        and not new_name
        and not taken.name_conflict(cluster, cluster.name)
    ):
        return cluster.name
    base = derived_name(cluster.host)
    for name in _variants(base):
        if not taken.name_conflict(cluster, name):
            if name != cluster.host:
                reasons.append(f"the inventory name is not valid or not free as a cluster name, so it becomes {name}")
            return name
    return base


def derived_name(host: str) -> str:
    """Return the inventory name as a valid cluster name: lower case, other characters as "-", 32 characters."""
    if valid_cluster_name(host) and host != DEFAULT_NAME:
        return host
    name = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:NAME_LENGTH].strip("-")
    return name if name and name != DEFAULT_NAME else f"cluster-{name}".strip("-")


def _variants(base: str) -> Iterator[str]:
    yield base
    for number in range(2, 1000):
        suffix = f"-{number}"
        yield base[: NAME_LENGTH - len(suffix)].rstrip("-") + suffix


def _refusal(cluster: ClusterFacts, wanted: IdentityDecision, *reasons: str) -> IdentityDecision:
    return replace(wanted, verdict=IdentityVerdict.REFUSE, reasons=reasons, recipe=migration(cluster, wanted.name, wanted.id))


def migration(cluster: ClusterFacts, name: str, id: int | None) -> tuple[str, ...]:
    """Return the recipe by which a cluster that is or was in a mesh gets another name and id with the least disruption.

    Sources: issues 48800 and 48801.
    """
    ns = f"--namespace {cluster.namespace}"
    number = str(id) if id else "FREE_ID"
    return (
        f"1. Take {cluster.host} out of every mesh: playbook edge_portal.cilium_mesh.disconnect with "
        f"mesh_connect_clusters=[{cluster.host}], and disconnect it with every other tool that made links of it.",
        f"2. Change name and id together, never one alone: Helm values cluster.name={name} and cluster.id={number}, where the installation "
        "is declared.",
        "3. Issue again the certificates that carry the name: clustermesh-apiserver-admin-cert (admin-NAME), "
        "clustermesh-apiserver-local-cert (local-NAME), in auth mode cluster clustermesh-apiserver-remote-cert (remote-NAME), and "
        "Hubble's server certificates.",
        f"4. Restart in this order, waiting for each: kubectl {ns} rollout restart deployment/cilium-operator; then daemonset/cilium; then "
        "deployment/clustermesh-apiserver.",
        "5. Connect again under the new name: playbook edge_portal.cilium_mesh.connect.",
    )


def _named(cluster: ClusterFacts) -> str:
    return f"{cluster.name or '(no name)'} with id {cluster.id}"


def reserved_leases(decisions: Iterable[IdentityDecision], facts: Mapping[str, ClusterFacts], registry: Registry) -> tuple[Lease, ...]:
    """Return the leases that the decisions claim: one for each cluster that is to be assigned; existing claims as they are."""
    made = []
    for decision in decisions:
        if decision.verdict is not IdentityVerdict.ASSIGN or decision.id is None:
            continue
        cluster, claim = facts[decision.host], registry.claim(decision.host)
        if claim is not None and (claim.name, claim.id) == (decision.name, decision.id):
            made.append(claim)
        else:
            wanted = replace(lease_of(cluster), name=decision.name, id=decision.id, state=LeaseState.RESERVED, since=NOW)
            made.append(replace(wanted, serial=registry.serial(decision.host) + 1))
    return tuple(made)
