# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that makes the links of a mesh exist: observed facts in, steps out. Pure.

Waves: the lease registry (leases/plan.py); then users, so that no peer dials before it may log in; then per cluster the host aliases and
the Secrets, so that the pods that the aliases restart find the Secrets at their start; last the host aliases that are only removed, so that
no name vanishes while it is dialled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from ..base.gc_pause import collector_paused
from ..findings.finding import Finding
from ..findings.wording import finding
from ..leases.plan import LeasePlan
from ..mesh.binding.model import Mesh
from ..mesh.endpoints.endpoint import EndpointProblem
from ..mesh.endpoints.etcd_config import valid_cluster_name
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.link_decisions import LinkDecisions
from ..mesh.ownership.objects import remembered_by_members
from ..mesh.trust.link_trust import Trust, user_for_name
from ..plan.steps import LinkPlan, Plan, PlanOptions, Step
from .disconnect import withdrawal
from .fingerprint import facts_fingerprint
from .host_aliases import alias_problems, alias_step, desired_aliases, only_removes
from .load_balancer import elb_steps, endpoint_finding
from .peer_keys import Link
from .repair import repair_step
from .secrets import PeerChanges, desired_secrets, foreign_keys, oversized, secret_step
from .users import desired_users, own_users, users_problems, users_step

WAVE_USERS, WAVE_LINKS, WAVE_LEFTOVERS = 1, 2, 3
# In former members: Secrets with the links, host aliases and users in the two waves after them, and last the leases (FAREWELL_WAVE).
NAMED_IN_WHY = 5  # peers whose reason a step names; all reasons are in Plan.links


@dataclass(frozen=True, kw_only=True)
class LinksByCluster:
    """Every link that can be made, by the cluster that dials, and the problems of the others."""

    members: Mapping[str, ClusterFacts]
    outgoing: Mapping[str, list[Link]] = field(default_factory=dict)
    incoming: Mapping[str, list[Link]] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)


@collector_paused()
def plan_connect(decisions: LinkDecisions, leases: LeasePlan, options: PlanOptions) -> Plan:
    """Plan the writes with which every member reaches every peer that it is linked to, and no other cluster by way of this binding.

    Members without facts are left as they are, and so are the entries for them. Facts of clusters outside the mesh are ignored.
    Links that the mesh no longer has are withdrawn: those to former members, and those that the topology no longer has.
    """
    mesh = decisions.mesh
    made = _links_by_cluster(decisions)
    # The leases are read too: another writer may have removed the annotations, and a member that does not answer must lose nothing by that.
    remembered = {**leases.names, **remembered_by_members(mesh, made.members)}
    steps = [*leases.steps, *elb_steps(mesh.binding, made.members.values())]
    problems = list(made.problems)
    for host, cluster in made.members.items():
        kept = _unplanned_peers(mesh, host, made, remembered)
        for found in (_users(mesh, cluster, made, kept), _links(decisions, cluster, made.outgoing[host], kept, options)):
            steps.extend(item for item in found if isinstance(item, Step))
            problems.extend(item for item in found if isinstance(item, Finding))
    for cluster in leases.departing.values():
        steps.extend(withdrawal(mesh, cluster, kept={}, gone=(), wave=WAVE_LINKS))
        problems.extend(users_problems(cluster, frozenset(), mesh.binding))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),  # stable: by cluster within a wave, in order within a cluster
        problems=tuple(problems),
        links=tuple(_link_plan(link) for links in made.outgoing.values() for link in links),
        relied_on={host: facts_fingerprint(cluster) for host, cluster in {**made.members, **leases.departing}.items()},
    )


def _links_by_cluster(decisions: LinkDecisions) -> LinksByCluster:
    named, problems = decisions.members, _misnamed(decisions)
    made = LinksByCluster(members=named, outgoing={h: [] for h in named}, incoming={h: [] for h in named}, problems=problems)
    for host in named:
        endpoint = decisions.endpoints[host]
        if isinstance(endpoint, EndpointProblem):
            problems.append(endpoint_finding(host, endpoint))
    for host, local in named.items():
        dialled, outgoing = decisions.dialled[host], made.outgoing[host]
        for peer_host, trust in decisions.trust[host].items():
            peer, endpoint = named.get(peer_host), dialled[peer_host]
            if peer is None or isinstance(endpoint, EndpointProblem):
                continue
            if isinstance(trust, Trust):
                link = Link(local, peer, endpoint, trust)
                outgoing.append(link)
                made.incoming[peer_host].append(link)
            else:
                problems.append(_blocking("CM-TRUST-01", host, peer_host, trust.summary, trust.evidence, trust.fix))
    return made


def _misnamed(decisions: LinkDecisions) -> list[Finding]:
    """Return a finding for each member whose cluster name cannot be a key, those of one name together."""
    refused = [c for host, c in decisions.mesh.members_in(decisions.facts).items() if host not in decisions.members]
    by_name: dict[str, list[ClusterFacts]] = {}
    for cluster in refused:
        by_name.setdefault(cluster.name, []).append(cluster)
    problems = []
    for name, clusters in by_name.items():
        code, why = ("CM-ID-04", "is another cluster's too") if valid_cluster_name(name) else ("CM-ID-02", "is not valid")
        problems += [
            _blocking(
                code if name else "CM-ID-01",
                cluster.host,
                summary=f"the cluster-name of {cluster.host} {why}, so no link to it can be planned",
                evidence=f"ConfigMap {cluster.namespace}/cilium-config: cluster-name={name!r}",
                fix="set the Helm value cluster.name to a unique name of up to 32 lower-case letters, digits and dashes",
            )
            for cluster in clusters
        ]
    return problems


def _unplanned_peers(mesh: Mesh, host: str, made: LinksByCluster, remembered: Mapping[str, str]) -> dict[str, str]:
    """Return inventory name -> cluster name of recorded peers for which no link could be planned.

    They did not answer or, with their address still pending, cannot be dialled just now; the entries for them stay.
    """
    planned = {link.peer.host for link in made.outgoing[host]}
    waiting = [peer for peer in mesh.peers(host) if peer not in planned]
    return {peer: remembered[peer] for peer in waiting if valid_cluster_name(remembered.get(peer, ""))}


def _users(mesh: Mesh, cluster: ClusterFacts, made: LinksByCluster, kept: Mapping[str, str]) -> list[Step | Finding]:
    ours = own_users(cluster, mesh.binding)
    # A peer that does not answer may log in by its own user, or by this cluster's if it holds a copy of this cluster's certificate.
    stay = {user_for_name(name) for name in (*kept.values(), *([cluster.name] if kept else []))} & ours
    desired = desired_users(cluster, made.incoming[cluster.host]) | stay
    problems: list[Step | Finding] = list(users_problems(cluster, desired, mesh.binding))
    if problems:
        return problems
    why = "peers log in to this cluster's mesh etcd by name"
    step = users_step(cluster, desired, mesh.binding, wave=WAVE_USERS, why=why, create=True)
    return [step] if step else []


def _links(
    decisions: LinkDecisions, cluster: ClusterFacts, links: list[Link], kept: Mapping[str, str], options: PlanOptions
) -> list[Step | Finding]:
    """Return the writes of host aliases before Secrets, except aliases that are only removed, which have a later wave."""
    binding, repair = decisions.mesh.binding, decisions.policy.repair
    manager = binding.manager
    found: list[Step | Finding | None] = []
    moves = decisions.moves.get(cluster.host, {})
    moved = {link.peer.name for link in links if link.peer.host in moves and link.endpoint == moves[link.peer.host].new}
    peers = {link.peer.name for link in links} | set(kept.values())
    reader = cluster.apiserver if cluster.runs_kvstoremesh else cluster.agent
    for aliases in desired_aliases(cluster, links, kept.values(), manager):
        found.extend(alias_problems(cluster, aliases))
        wave = WAVE_LEFTOVERS if only_removes(aliases, manager) else WAVE_LINKS
        why = "the peers' names resolve to their addresses"
        reads = aliases.workload is reader
        names = {"peers": peers if reads else (), "moved": moved if reads else ()}
        found.append(alias_step(cluster, aliases, binding=binding, wave=wave, why=why, **names))
    by_host = {link.peer.host: link for link in links}
    for secret in desired_secrets(cluster, links, kept, manager, options, decisions.now):
        found.extend(oversized(cluster, secret, manager))
        found.extend(p for p in foreign_keys(cluster, secret, manager) if not (repair and p.code == "CM-DRIFT-02"))
        if repair:
            found.append(repair_step(cluster, secret.facts, secret.data, secret.peers, manager, wave=WAVE_LINKS))
        reason = partial(_reason, by_host, cluster.runs_kvstoremesh and secret.facts is cluster.clustermesh)
        found.append(secret_step(cluster, secret, binding, wave=WAVE_LINKS, why=reason))
    return [item for item in found if item is not None]


def _reason(links: Mapping[str, Link], through_kvstoremesh: bool, change: PeerChanges) -> str:
    written, withdrawn = [links[host] for host in change.written if host in links], change.withdrawn
    parts = []
    if through_kvstoremesh and written:
        parts.append(f"agents read {_join_names([link.peer.host for link in written])} from their own kvstoremesh")
    elif written:
        named = [f"{link.peer.host} at {link.endpoint.url} ({link.trust.reason})" for link in written[:NAMED_IN_WHY]]
        more = len(written) - len(named)
        parts.append("connect to " + ", ".join(named) + (f" and {more} more" if more else ""))
    if withdrawn:
        parts.append(f"take out {_join_names(list(withdrawn))}")
    return "; ".join(parts) or "record which peers this binding wrote"


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:NAMED_IN_WHY]) + (f" and {len(names) - NAMED_IN_WHY} more" if len(names) > NAMED_IN_WHY else "")


def _link_plan(link: Link) -> LinkPlan:
    return LinkPlan(
        cluster=link.local.host, peer=link.peer.host, endpoint=link.endpoint.url, trust=link.trust.mode.value, reason=link.trust.reason
    )


def _blocking(code: str, cluster: str, peer: str = "", summary: str = "", evidence: str = "", fix: str = "") -> Finding:
    return finding(code, cluster=cluster, peer=peer, summary=summary, evidence=evidence, fix=fix)
