# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that makes the links of a mesh exist: observed facts in, steps out. Pure.

Waves: the lease registry; then users, so that no peer dials before it may log in; then per cluster the host aliases and the Secrets, so
that the pods that the aliases restart find the Secrets at their start; last the host aliases that are only removed, so that no name
vanishes while it is dialled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from ..base.gc_pause import collector_paused
from ..findings.finding import Finding
from ..findings.wording import finding
from ..leases.plan import CONNECT_WAVE, copies_after, leased_names, registry_after_connect, registry_step, registry_steps
from ..leases.plan_tombstones import take_back_reason
from ..leases.tombstones import returning_members
from ..mesh.binding.model import Mesh
from ..mesh.endpoints.dialled import DialledEndpoints
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
WAVE_FAREWELL = 5  # in former members: Secrets with the links, host aliases and users in the two waves after them
NAMED_IN_WHY = 5  # peers whose reason a step names; all reasons are in Plan.links


@dataclass(frozen=True, kw_only=True)
class LinksByCluster:
    """Every link that can be made, by the cluster that dials, and the problems of the others."""

    members: Mapping[str, ClusterFacts]
    outgoing: Mapping[str, list[Link]] = field(default_factory=dict)
    incoming: Mapping[str, list[Link]] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)


@collector_paused()
def plan_connect(decisions: LinkDecisions, options: PlanOptions, *, former: Mapping[str, ClusterFacts] | None = None) -> Plan:
    """Plan the writes with which every member reaches every peer that it is linked to, and no other cluster by way of this binding.

    Members without facts are left as they are, and so are the entries for them. Facts of clusters outside the mesh are ignored.
    Links that the mesh no longer has are withdrawn: those to former members, and those that the topology no longer has.

    :param former: former members that answered: what was written in them is withdrawn.
    """
    mesh, facts = decisions.mesh, decisions.facts
    made = _links_by_cluster(decisions)
    # The leases are read too: another writer may have removed the annotations, and a member that does not answer must lose nothing by that.
    remembered = leased_names(mesh, made.members) | remembered_by_members(mesh, made.members)
    why = take_back_reason(returning_members(mesh, facts))
    leases = copies_after(mesh, mesh.members_in(facts), registry_after_connect(mesh, facts, former))
    steps = registry_steps(mesh, made.members.values(), leases, wave=CONNECT_WAVE, why=why)
    steps.extend(elb_steps(mesh.binding, made.members.values()))
    problems = list(made.problems)
    for host, cluster in made.members.items():
        kept = _unplanned_peers(mesh, host, made, remembered)
        for found in (_users(mesh, cluster, made, kept), _links(decisions, cluster, made.outgoing[host], kept, options)):
            steps.extend(item for item in found if isinstance(item, Step))
            problems.extend(item for item in found if isinstance(item, Finding))
    going = _departing(mesh, facts, former or {})
    for cluster in going.values():
        steps.extend(_withdraw_all(mesh, cluster))
        problems.extend(users_problems(cluster, frozenset(), mesh.binding))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),  # stable: by cluster within a wave, in order within a cluster
        problems=tuple(problems),
        links=tuple(_link_plan(link) for links in made.outgoing.values() for link in links),
        relied_on={host: facts_fingerprint(cluster) for host, cluster in {**made.members, **going}.items()},
    )


def _departing(mesh: Mesh, facts: Mapping[str, ClusterFacts], former: Mapping[str, ClusterFacts]) -> dict[str, ClusterFacts]:
    """Return the former members, without any that is a member under another inventory name: what is written there is in use."""
    members = {facts[host].uid for host in mesh.clusters if host in facts}
    return {host: cluster for host, cluster in former.items() if host not in mesh.clusters and cluster.uid not in members}


def _withdraw_all(mesh: Mesh, cluster: ClusterFacts) -> list[Step]:
    """Return the steps that withdraw everything of the binding from a former member: the links, and last its copy of the registry."""
    steps = withdrawal(mesh, cluster, kept={}, gone=(), wave=WAVE_LINKS)
    step = registry_step(mesh, cluster, None, wave=WAVE_FAREWELL)
    return [*steps, step] if step else steps


def _links_by_cluster(decisions: LinkDecisions) -> LinksByCluster:
    named, problems = _usable(decisions.mesh, decisions.facts)
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


def _usable(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> tuple[dict[str, ClusterFacts], list[Finding]]:
    """Return the members whose cluster name can be a key, since it is a Secret key, a file name and a host name in every other cluster."""
    members = mesh.members_in(facts)
    by_name: dict[str, list[str]] = {}
    for host, cluster in members.items():
        by_name.setdefault(cluster.name, []).append(host)
    problems = []
    for name, hosts in by_name.items():
        for host in hosts:
            if valid_cluster_name(name) and not _shares_a_peer(mesh, host, hosts):
                continue
            code, why = ("CM-ID-04", "is another cluster's too") if valid_cluster_name(name) else ("CM-ID-02", "is not valid")
            problems.append(
                _blocking(
                    code if name else "CM-ID-01",
                    host,
                    summary=f"the cluster-name of {host} {why}, so no link to it can be planned",
                    evidence=f"ConfigMap {members[host].namespace}/cilium-config: cluster-name={name!r}",
                    fix="set the Helm value cluster.name to a unique name of up to 32 lower-case letters, digits and dashes",
                )
            )
    refused = {problem.cluster for problem in problems}
    return {host: cluster for host, cluster in members.items() if host not in refused}, problems


def _shares_a_peer(mesh: Mesh, host: str, hosts: Collection[str]) -> bool:
    """Return whether another of ``hosts`` is linked with this one, or with one of its peers: one cluster would hold both under one key."""
    if len(hosts) < 2:
        return False
    peers = mesh.peers(host)
    return any(other != host and (mesh.linked(host, other) or any(mesh.linked(peer, other) for peer in peers)) for other in hosts)


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
    dialled = DialledEndpoints(cluster, manager)
    moved = {link.peer.name for link in links if dialled.changed_by(link.peer.name, link.endpoint)} if dialled else set()
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
