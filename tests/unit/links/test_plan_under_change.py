# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Random meshes under random change: whatever happened on the way, the next whole runs end in the empty plan, and only our own is touched.

What happens: clusters join, leave, fall silent and answer again; the topology changes; runs break off after some writes in some clusters;
others write into the same objects; CAs are renewed, addresses change, kvstoremesh is switched on or off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.users import edit_users, own_users
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, PeerSecretFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import former_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions, WriteUsers
from tests.testing.facts_builders import NOW, apiserver_workload, cluster_facts, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples
from tests.testing.simulated_apply import SimulatedClusters
from tests.unit.links.test_plan_converges import any_meshes

ROUNDS = 2  # whole runs that are enough, however much went wrong before
MANAGER = mesh_of().binding.manager


@st.composite
def topologies(draw: st.DrawFn, members: Sequence[str]) -> Topology:
    mode = draw(st.sampled_from(Mode))
    if mode is Mode.HUB_AND_SPOKE:
        return Topology(mode=mode, hubs=tuple(sorted(draw(st.sets(st.sampled_from(sorted(members)), min_size=1, max_size=2)))))
    if mode is Mode.PAIRS:
        every = [(a, b) for i, a in enumerate(members) for b in members[i + 1 :]]
        return Topology(mode=mode, pairs=tuple(draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique=True))))
    return Topology()


@dataclass
class World:
    """The clusters, what the user wants of them, and what is in the way at the moment."""

    clusters: SimulatedClusters
    hosts: tuple[str, ...]
    mesh: Mesh
    silent: frozenset[str] = frozenset()
    left: Mapping[str, ClusterFacts] = field(default_factory=dict)  # of the last plan: no members any more, and they answered
    stranded: set[str] = field(default_factory=set)  # left, hold what was written, and no member remembers them: see docs/topologies.md
    edits: int = 0

    def plan(self) -> Plan:
        """As the action does it: members that answer, and those who left and answer."""
        facts = self.clusters.facts(self.mesh)
        members = {host: facts[host] for host in self.mesh.clusters if host not in self.silent}
        self.left = {host: facts[host] for host in former_members(self.mesh, members) if host not in self.silent}
        plan = plan_links(self.mesh, members, PlanOptions(), NOW, former=self.left)
        assert {step.cluster for step in plan.steps} <= {*members, *self.left}
        return plan

    def run(self, *, steps: Mapping[str, int] | None = None) -> None:
        plan, before = self.plan(), self.foreign()
        assert not plan.blocked, plan.problems
        objects = [(step.cluster, step.object) for step in plan.steps]
        assert len(objects) == len(set(objects)), "an object is written more than once"
        self.clusters.run(plan, steps=steps)
        assert self.foreign() == before
        for host in self.left if steps is None else ():
            assert not _holds(self.clusters.facts(self.mesh)[host]), f"{host} left, answered, and still holds links"
        self.note_stranded()

    def note_stranded(self) -> None:
        """Who left and holds links, and is remembered by no member: it was silent or failed in that run, or all of them are new."""
        facts = self.clusters.facts(self.mesh)
        known = former_members(self.mesh, {host: facts[host] for host in self.mesh.clusters})
        outside = (host for host in self.hosts if host not in self.mesh.clusters and host not in known)
        self.stranded = {host for host in outside if _holds(facts[host])}

    def foreign(self) -> dict[str, Any]:
        return {host: _foreign(cluster) for host, cluster in self.clusters.facts(self.mesh).items()}


def _foreign(cluster: ClusterFacts) -> list[Any]:
    """Everything in what we write to that has another owner."""
    ours = own_users(cluster, mesh_of().binding)
    workloads = [w for w in (cluster.apiserver, cluster.agent) if w is not None]
    return [
        *(_foreign_keys(secret) for secret in (cluster.clustermesh, cluster.kvstoremesh)),
        {user: role for user, role in cluster.users.users.items() if user not in ours},
        [(a.ip, a.hostnames) for w in workloads for a in w.host_aliases if a.managers != (MANAGER,)],
    ]


def _foreign_keys(secret: PeerSecretFacts) -> dict[str, str]:
    return {key: facts.digest for key, facts in secret.keys.items() if MANAGER not in facts.managers}


def _ours(cluster: ClusterFacts) -> dict[str, set[str]]:
    """Cluster names of the peers whose configuration this binding wrote, by Secret."""
    return {
        secret.name: {key for key, facts in secret.keys.items() if MANAGER in facts.managers and facts.config}
        for secret in (cluster.clustermesh, cluster.kvstoremesh)
    }


def _holds(cluster: ClusterFacts) -> bool:
    marks = (secret for secret in (cluster.clustermesh, cluster.kvstoremesh) if MANAGER in secret.managers)
    return any(marks) or bool(own_users(cluster, mesh_of().binding))


# What may happen


def members_change(world: World, draw: Any) -> None:
    chosen = draw(st.lists(st.sampled_from(world.hosts), min_size=2, unique=True))
    world.mesh = mesh_of(*chosen, topology=draw(topologies(chosen)))
    world.note_stranded()


def topology_changes(world: World, draw: Any) -> None:
    world.mesh = mesh_of(*world.mesh.clusters, topology=draw(topologies(world.mesh.clusters)))


def some_fall_silent(world: World, draw: Any) -> None:
    world.silent = frozenset(draw(st.sets(st.sampled_from(world.hosts), max_size=3)))


def a_run(world: World, draw: Any) -> None:
    world.run()


def a_run_that_breaks_off(world: World, draw: Any) -> None:
    world.run(steps=draw(st.dictionaries(st.sampled_from(world.hosts), st.integers(0, 3), max_size=3)))


def others_write(world: World, draw: Any) -> None:
    """Helm's keys come, change and go; a person adds a user."""
    host, name = draw(st.sampled_from(world.hosts)), draw(st.sampled_from(("cilium-clustermesh", "cilium-kvstoremesh")))
    world.edits += 1
    text = f"endpoints:\n- https://foreign-{world.edits}.example.com:2379\n"
    value = draw(st.sampled_from((key_facts(text, config=text), None)))
    world.clusters.edit(host, "Secret", name, "helm", {("data", draw(st.sampled_from(("foreign", "other")))): value})
    users = world.clusters.facts(world.mesh)[host].users
    if users.present and not users.problem:
        user = f"remote-by-hand-{world.edits}"
        world.clusters.edit(
            host,
            "ConfigMap",
            "clustermesh-remote-users",
            "kubectl-edit",
            {("data", "users.yaml"): edit_users(users.text, add=[user], remove=[])},
        )


def a_ca_is_renewed(world: World, draw: Any) -> None:
    host = draw(st.sampled_from(world.hosts))
    world.edits += 1

    def renewed(cluster: ClusterFacts) -> ClusterFacts:
        new = cluster_facts(host, ca=f"CA number {world.edits}")
        ca = new.ca if cluster.ca.present else cluster.ca
        return replace(cluster, ca=ca, server_cert=new.server_cert, remote_cert=new.remote_cert)

    world.clusters.change(host, renewed)


def an_address_changes(world: World, draw: Any) -> None:
    host = draw(st.sampled_from(world.hosts))
    world.edits += 1
    service = ServiceFacts(type="LoadBalancer", cluster_ip="10.96.0.10", ingress_ips=(f"192.0.2.{100 + world.edits}",), node_port=30100)
    world.clusters.change(host, lambda cluster: replace(cluster, service=service, endpoint_override=""))


def kvstoremesh_is_switched(world: World, draw: Any) -> None:
    def switched(cluster: ClusterFacts) -> ClusterFacts:
        assert cluster.apiserver is not None
        image = cluster.apiserver.containers["apiserver"]
        containers = apiserver_workload("1.18.11", kvstoremesh=not cluster.runs_kvstoremesh).containers
        return replace(cluster, apiserver=replace(cluster.apiserver, containers=dict.fromkeys(containers, image)))

    world.clusters.change(draw(st.sampled_from(world.hosts)), switched)


EVENTS: tuple[Callable[[World, Any], None], ...] = (
    *(members_change, topology_changes, some_fall_silent, a_run, a_run_that_breaks_off, others_write, a_ca_is_renewed),
    *(an_address_changes, kvstoremesh_is_switched),
)


def _started(facts: Mapping[str, ClusterFacts], data: st.DataObject) -> World:
    hosts = tuple(facts)
    world = World(clusters=SimulatedClusters(facts, NOW), hosts=hosts, mesh=mesh_of(*hosts))
    for event in data.draw(st.lists(st.sampled_from(EVENTS), max_size=9)):
        event(world, data.draw)
    return world


def _settle(world: World) -> None:
    """Every cluster answers, and nothing else happens any more."""
    world.silent = frozenset()
    for _ in range(ROUNDS):
        if world.plan().empty:
            break
        world.run()
    assert world.plan().empty, [step.to_dict() for step in world.plan().steps]


@examples(60)
@given(any_meshes(6), st.data())
def test_whatever_happened_whole_runs_end_in_the_empty_plan_with_exactly_the_links_asked_for(
    facts: dict[str, ClusterFacts], data: st.DataObject
) -> None:
    world = _started(facts, data)
    _settle(world)
    after = world.clusters.facts(world.mesh)
    for host in world.hosts:
        wanted = {after[peer].name for peer in world.mesh.peers(host)}
        found = _ours(after[host])
        if host in world.mesh.clusters:
            assert found["cilium-clustermesh"] == wanted
            assert found["cilium-kvstoremesh"] == (wanted if after[host].runs_kvstoremesh else set())
        else:
            assert host in world.stranded or not _holds(after[host])


@examples(25)
@given(any_meshes(6), st.data())
def test_whatever_happened_disconnect_leaves_nothing_of_ours_and_everything_of_others(
    facts: dict[str, ClusterFacts], data: st.DataObject
) -> None:
    world = _started(facts, data)
    _settle(world)
    before = world.foreign()
    world.clusters.run(plan_disconnect(world.mesh, {h: world.clusters.facts(world.mesh)[h] for h in world.mesh.clusters}, None))
    for host in sorted(world.stranded):  # disconnect --limit, once it answers again
        world.clusters.run(plan_disconnect(mesh_of(*world.hosts), {host: world.clusters.facts(world.mesh)[host]}, None))
    after = world.clusters.facts(world.mesh)
    assert world.foreign() == before
    for host, cluster in after.items():
        assert not _holds(cluster) and not (host in world.mesh.clusters and cluster.registry.present), host


@examples(25)
@given(any_meshes(6), st.data())
def test_a_limit_ends_the_links_that_cross_it_on_the_inside_and_no_other(facts: dict[str, ClusterFacts], data: st.DataObject) -> None:
    world = _started(facts, data)
    _settle(world)
    members = world.mesh.clusters
    inside = frozenset(data.draw(st.sets(st.sampled_from(sorted(members)), min_size=1)))
    leaving = frozenset(members) - inside
    everything = world.clusters.facts(world.mesh)
    limited = {host: everything[host] for host in members if host in inside}
    plan = plan_disconnect(world.mesh, limited, leaving if len(inside) > 1 else None)
    world.clusters.run(plan)
    after = world.clusters.facts(world.mesh)
    for host in members:
        kept = {everything[peer].name for peer in world.mesh.peers(host) if host not in inside or (peer in inside and len(inside) > 1)}
        assert _ours(after[host])["cilium-clustermesh"] == kept


def _forgetful(clusters: SimulatedClusters, host: str) -> ClusterFacts:
    """The cluster after a user deleted its two Secrets of peers: it does not remember which peers it dials."""
    facts = clusters.facts()[host]
    return replace(facts, clustermesh=peer_secret("cilium-clustermesh"), kvstoremesh=peer_secret("cilium-kvstoremesh"))


def _three() -> SimulatedClusters:
    clusters = SimulatedClusters({h: cluster_facts(h, version="1.20.0", auth_mode="cluster") for h in ("c1", "c2", "c3")}, NOW)
    clusters.run(plan_links(mesh_of("c1", "c2", "c3"), clusters.facts(), PlanOptions(), NOW))
    return clusters


def _users_after(plan: Plan, host: str, facts: ClusterFacts) -> set[str]:
    texts = [step.action.text for step in plan.steps if step.cluster == host and isinstance(step.action, WriteUsers)]
    text = texts[-1] if texts else facts.users.text
    return {user for user in ("remote-c2", "remote-c3") if user in text}


def test_who_stays_may_log_in_also_where_the_memory_of_peers_was_lost() -> None:
    clusters = _three()
    c1 = _forgetful(clusters, "c1")
    plan = plan_disconnect(mesh_of("c1", "c2", "c3"), {**clusters.facts(), "c1": c1}, frozenset({"c3"}))
    assert _users_after(plan, "c1", c1) == {"remote-c2"}


def test_a_cluster_that_is_not_asked_may_log_in_also_where_only_the_leases_know_it() -> None:
    clusters = _three()
    c1, c2 = _forgetful(clusters, "c1"), _forgetful(clusters, "c2")
    plan = plan_links(mesh_of("c1", "c2", "c3"), {"c1": c1, "c2": c2}, PlanOptions(), NOW)
    assert _users_after(plan, "c1", c1) == {"remote-c2", "remote-c3"}
