# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What becomes of each cluster's name and id: kept as they run, given to a cluster that was never meshed, or refused with a recipe. Pure.

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

from .checks.identity import MAX_CLUSTERS, max_clusters
from .checks.leases import QUARANTINE, rests_until
from .checks.wording import setting
from .errors import InvalidInput
from .facts import ClusterFacts, PeerSecretFacts
from .model import Mesh
from .peers import valid_cluster_name
from .registry import Lease, LeaseState, Registry, lease_of
from .trust import user_for

DEFAULT_NAME: Final = "default"  # the chart's; refused by Cilium together with an id
NAME_LENGTH: Final = 32


class Verdict(StrEnum):
    """What is done with the name and the id of a cluster."""

    LEASED = "leased"  # runs what it has on lease
    ADOPT = "adopt"  # runs a name and an id that become its lease
    ASSIGN = "assign"  # was never meshed: gets a name and an id
    RESUME = "resume"  # has them in its configuration already; restarts or the lease are not finished
    REFUSE = "refuse"  # must not be changed while it runs


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user wants a cluster to have; "" and None leave it open."""

    name: str = ""
    id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One cluster. ``name`` and ``id`` are those it is to have; None where none is legal and free."""

    host: str
    verdict: Verdict
    name: str
    id: int | None
    reasons: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()  # of a refusal: what a person can do, step by step


@dataclass
class _Taken:
    """What is spoken for, by whom: other members that run it, leases, quarantine. Filled as decisions are made."""

    registry: Registry
    now: datetime
    quarantine: timedelta
    ids: dict[int, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()  # members that do not answer and of which nothing is on record: any id may be theirs

    def holder_of_id(self, cluster: ClusterFacts, id: int) -> str:
        """Who keeps the cluster from the id; "" when nobody does."""
        leases = [lease for lease in self.registry.holders(id) if lease.host != cluster.host]
        resting = [lease for lease in self.registry.released(id) if rests_until(lease, self.quarantine) > self.now]
        resting = [lease for lease in resting if not lease.uid or lease.uid != cluster.uid]
        holder = self.ids.get(id, cluster.host)
        if holder != cluster.host:
            return f"{holder} runs it"
        if leases:
            return f"it is leased to {leases[0].host} ({leases[0].state.value})"
        return f"{resting[0].host} gave it up at {resting[0].since}, and it rests" if resting else ""

    def holder_of_name(self, cluster: ClusterFacts, name: str) -> str:
        leases = [lease for lease in self.registry.leases if lease.holds and lease.name == name and lease.host != cluster.host]
        leases = [lease for lease in leases if not lease.uid or lease.uid != cluster.uid]
        holder = self.names.get(name, cluster.host)
        if holder != cluster.host:
            return f"{holder} has it"
        return f"it is leased to {leases[0].host}" if leases else ""


def legal_ids(cluster: ClusterFacts) -> Iterator[int]:
    """Every id that this cluster may have, in ascending order."""
    highest = int(max_clusters(cluster)) if max_clusters(cluster) in MAX_CLUSTERS else 255
    # With these the agent uses bit 7 of the id as a packet mark of its own (issue 21330).
    cloud = setting(cluster, "ipam") in ("eni", "alibabacloud") or setting(cluster, "cni-chaining-mode") == "aws-cni"
    return (id for id in range(1, highest + 1) if not (cloud and id & 0x80))


def established(cluster: ClusterFacts) -> bool:
    """Does it run a name and an id with which it can be in a mesh?"""
    return valid_cluster_name(cluster.name) and cluster.name != DEFAULT_NAME and cluster.id in set(legal_ids(cluster))


def traces_of_a_mesh(cluster: ClusterFacts, registry: Registry) -> tuple[str, ...]:
    """Why it cannot be said that the cluster was never meshed; nothing when it can."""
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
    wishes: Mapping[str, Wish],
    now: datetime,
    quarantine: timedelta = QUARANTINE,
) -> tuple[Decision, ...]:
    """A decision for every member that answered, in the order of the mesh. Members that run something come before those that wait for it.

    :param now: aware, UTC; decides what rests in quarantine.
    :raises InvalidInput: a wish cannot be meant.
    """
    members = [facts[host] for host in mesh.clusters if host in facts]
    _refuse_bad_wishes(mesh, facts, wishes)
    on_record = {lease.host for lease in registry.leases if lease.holds}
    unknown = tuple(host for host in mesh.clusters if host not in facts and host not in on_record)
    taken = _Taken(registry=registry, now=now, quarantine=quarantine, unknown=unknown)
    found: dict[str, Decision] = {}
    for cluster in sorted(members, key=lambda c: registry.active(c.host) is None):  # a lease goes before a claim without one
        if established(cluster):
            found[cluster.host] = _decide_running(cluster, taken, wishes.get(cluster.host, Wish()))
        if cluster.id and found.get(cluster.host, _NONE).verdict is not Verdict.REFUSE:
            taken.ids.setdefault(cluster.id, cluster.host)
            taken.names.setdefault(cluster.name, cluster.host)
    for cluster in members:  # what a refused one runs is not free either
        if cluster.id:
            taken.ids.setdefault(cluster.id, cluster.host)
            taken.names.setdefault(cluster.name, cluster.host)
    for cluster in members:
        if cluster.host not in found:
            made = found[cluster.host] = _decide_waiting(cluster, taken, wishes.get(cluster.host, Wish()))
            if made.verdict is Verdict.ASSIGN and made.id is not None:
                taken.ids[made.id], taken.names[made.name] = cluster.host, cluster.host
    return tuple(found[cluster.host] for cluster in members)


_NONE: Final = Decision(host="", verdict=Verdict.ADOPT, name="", id=None)


def _refuse_bad_wishes(mesh: Mesh, facts: Mapping[str, ClusterFacts], wishes: Mapping[str, Wish]) -> None:
    for host, wish in wishes.items():
        if host not in mesh.clusters:
            raise InvalidInput(f"names has {host!r}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}.")
        if wish.name and (not valid_cluster_name(wish.name) or wish.name == DEFAULT_NAME):
            raise InvalidInput(
                f"names gives {host} the name {wish.name!r}.", remedy="Use 1 to 32 lower-case letters, digits and '-', and not 'default'."
            )
        if wish.id is not None and host in facts and wish.id not in set(legal_ids(facts[host])):
            raise InvalidInput(
                f"names gives {host} the id {wish.id}, which Cilium refuses there.", remedy="Leave it open, or take a lower one."
            )


def _decide_running(cluster: ClusterFacts, taken: _Taken, wish: Wish) -> Decision:
    registry, running = taken.registry, lease_of(cluster)
    lease, claim = registry.active(cluster.host), registry.claim(cluster.host)
    keep = Decision(host=cluster.host, verdict=Verdict.ADOPT, name=cluster.name, id=cluster.id)
    wanted = replace(keep, name=wish.name or cluster.name, id=wish.id or cluster.id)
    if (wanted.name, wanted.id) != (cluster.name, cluster.id):
        return _refusal(cluster, wanted, f"it runs as {_named(cluster)}, and other values are wished for")
    if lease is not None and lease.key != running.key:
        return _refusal(cluster, replace(keep, name=lease.name, id=lease.id), f"it runs as {_named(cluster)}, but has another lease")
    if lease is not None:
        return replace(keep, verdict=Verdict.LEASED)
    if claim is not None and any(one.key == running.key for one in _claims(registry, cluster.host)):
        return replace(keep, verdict=Verdict.RESUME, reasons=("an assignment was begun and not finished",))
    for holder in (taken.holder_of_id(cluster, running.id), taken.holder_of_name(cluster, running.name)):
        if holder and "rests" not in holder:
            free = _allocate(cluster, taken, Wish(name=wish.name), new_name=True)
            return _refusal(cluster, replace(keep, name=free.name, id=free.id), f"it runs as {_named(cluster)}, and {holder}")
    return keep


def _claims(registry: Registry, host: str) -> list[Lease]:
    return [lease for lease in registry.leases if lease.host == host and lease.state is LeaseState.CLAIMED]


def _decide_waiting(cluster: ClusterFacts, taken: _Taken, wish: Wish) -> Decision:
    wanted = _allocate(cluster, taken, wish)
    if cluster.config is None:
        return replace(wanted, verdict=Verdict.REFUSE, reasons=("there is no ConfigMap cilium-config",))
    traces = traces_of_a_mesh(cluster, taken.registry)
    if traces:
        return _refusal(cluster, wanted, *traces)
    return wanted


def _allocate(cluster: ClusterFacts, taken: _Taken, wish: Wish, *, new_name: bool = False) -> Decision:
    """The name and the id that the cluster is to get: what is wished for, else what it claimed before, else the lowest legal and free."""
    reasons: list[str] = []
    claim = taken.registry.claim(cluster.host)
    kept = claim if claim and not taken.holder_of_id(cluster, claim.id) and not taken.holder_of_name(cluster, claim.name) else None
    name = wish.name or (kept.name if kept else "") or _name(cluster, taken, reasons, new_name)
    holder = taken.holder_of_name(cluster, name)
    made = Decision(host=cluster.host, verdict=Verdict.ASSIGN, name=name, id=None)
    if holder:
        return replace(made, reasons=(*reasons, f"the name {name} is not free: {holder}"))
    if taken.unknown:
        return replace(made, reasons=(*reasons, f"no id is known to be free: {', '.join(taken.unknown)} not answering, and not on record"))
    if wish.id is not None:
        holder = taken.holder_of_id(cluster, wish.id)
        return replace(made, reasons=(*reasons, f"id {wish.id} is not free: {holder}")) if holder else replace(made, id=wish.id)
    if kept is not None and kept.name == name and kept.id in set(legal_ids(cluster)):
        return replace(made, id=kept.id, reasons=(*reasons, "claimed before"))
    id = next((id for id in legal_ids(cluster) if not taken.holder_of_id(cluster, id)), None)
    return replace(made, id=id, reasons=tuple(reasons) if id else (*reasons, "every id that is legal for it is taken or rests"))


def _name(cluster: ClusterFacts, taken: _Taken, reasons: list[str], new_name: bool) -> str:
    """The cluster's own, else its inventory name, made valid if need be; and then said."""
    if (
        valid_cluster_name(cluster.name)
        and cluster.name != DEFAULT_NAME
        and not new_name
        and not taken.holder_of_name(cluster, cluster.name)
    ):
        return cluster.name
    base = derived_name(cluster.host)
    for name in _variants(base):
        if not taken.holder_of_name(cluster, name):
            if name != cluster.host:
                reasons.append(f"the inventory name is not valid or not free as a cluster name, so it becomes {name}")
            return name
    return base


def derived_name(host: str) -> str:
    """The inventory name as a name that Cilium takes: lower case, what is not allowed as "-", 32 characters."""
    if valid_cluster_name(host) and host != DEFAULT_NAME:
        return host
    name = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:NAME_LENGTH].strip("-")
    return name if name and name != DEFAULT_NAME else f"cluster-{name}".strip("-")


def _variants(base: str) -> Iterator[str]:
    yield base
    for number in range(2, 1000):
        suffix = f"-{number}"
        yield base[: NAME_LENGTH - len(suffix)].rstrip("-") + suffix


def _refusal(cluster: ClusterFacts, wanted: Decision, *reasons: str) -> Decision:
    return replace(wanted, verdict=Verdict.REFUSE, reasons=reasons, recipe=migration(cluster, wanted.name, wanted.id))


def migration(cluster: ClusterFacts, name: str, id: int | None) -> tuple[str, ...]:
    """How a cluster that is or was in a mesh gets another name and id, in the order that drops least. Sources: issues 48800 and 48801."""
    ns = f"--namespace {cluster.namespace}"
    number = str(id) if id else "FREE_ID"
    return (
        f"1. Take {cluster.host} out of every mesh: playbook edge_portal.cilium_mesh.disconnect with "
        f"mesh_connect_clusters=[{cluster.host}], and the same with whatever else made links of it.",
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


def claims_of(decisions: Iterable[Decision], facts: Mapping[str, ClusterFacts], registry: Registry) -> tuple[Lease, ...]:
    """The leases that the decisions promise: one for each cluster that is to be assigned; those that stand already as they are."""
    made = []
    for decision in decisions:
        if decision.verdict is not Verdict.ASSIGN or decision.id is None:
            continue
        cluster, claim = facts[decision.host], registry.claim(decision.host)
        if claim is not None and (claim.name, claim.id) == (decision.name, decision.id):
            made.append(claim)
        else:
            wanted = replace(lease_of(cluster), name=decision.name, id=decision.id, state=LeaseState.CLAIMED)
            made.append(replace(wanted, serial=registry.serial(decision.host) + 1))
    return tuple(made)
