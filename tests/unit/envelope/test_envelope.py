# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The envelope as users read it: what is used of each limit, what one more cluster takes, how many fit, and the gate of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.envelope.cluster_size import ClusterSize, size_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.envelope.envelope import (
    NEWCOMER,
    Envelope,
    EnvelopeRow,
    Newcomer,
    envelope_of,
    newcomer_of,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.envelope.limits import LIMITS, Bound
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.envelope.usage import usages
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.sizes import ServiceNumbers, SizeFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.load_balancer_entries import service_numbers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.mesh_view import MeshView
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.envelope_lines import envelope_lines
from tests.testing.facts_builders import cluster_facts
from tests.testing.traffic_builders import scene, service, slice_facts, traffic

SMALL = Newcomer(nodes=10, identities=100, endpoints=500, services=5, backends=20)


def size(host: str, **numbers: Any) -> ClusterSize:
    """A cluster of 10 nodes and 500 endpoints."""
    values: dict[str, Any] = {"nodes": 10, "identities": 100, "endpoints": 500, "services": 5, "lb_own": 600, "lb_peers": 40}
    secrets = {"cilium-clustermesh": 900, "cilium-kvstoremesh": 9_000}
    return ClusterSize(**{"host": host, "secrets": secrets, "configured": 2, **values, **numbers})


def mesh(*hosts: str, topology: Topology | None = None) -> Mesh:
    return Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=hosts, topology=topology or Topology()))


def envelope(*sizes: ClusterSize, newcomer: Newcomer | None = SMALL, topology: Topology | None = None, **more: Any) -> Envelope:
    return envelope_of(mesh(*(s.host for s in sizes), topology=topology), {s.host: s for s in sizes}, newcomer, **more)


def row(found: Envelope, bound: Bound, cluster: str, detail: str = "") -> EnvelopeRow:
    return next(r for r in found.rows if (r.now.bound, r.now.cluster) == (bound, cluster) and detail in r.now.detail)


def test_what_is_used_is_counted_over_a_cluster_and_its_peers() -> None:
    found = envelope(size("c1"), size("c2", endpoints=1_500), size("c3", ipsec=True))
    assert (row(found, Bound.CLUSTERS, "c1").now.used, row(found, Bound.CLUSTERS, "c1").now.most) == (3, 255)
    assert row(found, Bound.IDENTITIES, "c2").now.used == 100
    assert row(found, Bound.IPCACHE, "c1").now.used == (500 + 1_500 + 500) + 3 * 30
    assert row(found, Bound.IPSEC_NODES, "c3").now.used == 30
    assert row(found, Bound.LOAD_BALANCER, "c1").now.used == 640
    assert not any(r.now.bound is Bound.IPSEC_NODES and r.now.cluster == "c1" for r in found.rows), "c1 has no IPsec"


def test_with_511_clusters_a_cluster_has_half_the_identities() -> None:
    found = envelope(size("c1", max_clusters=511), size("c2", max_clusters=511))
    assert row(found, Bound.IDENTITIES, "c1").now.most == 32_767
    assert row(found, Bound.CLUSTERS, "c1").now.most == 511


def test_one_more_cluster_takes_its_share_in_every_peer_and_as_many_fit_as_the_tightest_limit_has_room_for() -> None:
    found = envelope(size("c1"), size("c2"))
    ipcache, secret = row(found, Bound.IPCACHE, "c1"), row(found, Bound.SECRET, "c1", "kvstoremesh")
    assert ipcache.after == (ipcache.now.used or 0) + 500 + 3 * 10
    assert secret.after == 9_000 + 4_500, "as much as each of the two peers takes now"
    assert row(found, Bound.LOAD_BALANCER, "c1").after == 660
    assert row(found, Bound.IDENTITIES, "c1").after == 100, "its identities are its own"
    assert secret.fits == (1024 * 1024 - 9_000) // 4_500 == 231
    assert found.more == 231, "the Secret with its certificates is full before 255 clusters are"
    shared = envelope(*(size(h, secrets={"cilium-clustermesh": 400, "cilium-kvstoremesh": 600}) for h in ("c1", "c2")))
    assert shared.more == 253, "with one CA it is the number of clusters"


def test_a_newcomer_that_exceeds_a_limit_itself_does_not_fit() -> None:
    found = envelope(size("c1"), size("c2"), newcomer=replace(SMALL, identities=70_000))
    assert found.more == 0
    assert "one more cluster: identities 106 %" in found.gate(100)


def test_in_hub_and_spoke_a_newcomer_is_a_spoke() -> None:
    hubs = Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c1",))
    found = envelope(size("c1"), size("c2"), size("c3"), topology=hubs)
    assert (row(found, Bound.CLUSTERS, "c1").after, row(found, Bound.CLUSTERS, "c2").after) == (4, 2)
    own = {usage.bound: usage.used for usage in found.newcomer_rows}
    assert own[Bound.CLUSTERS] == 2


def test_without_kvstoremesh_every_agent_is_a_reader_of_every_peer() -> None:
    found = envelope(size("c1", nodes=50, kvstoremesh=False), size("c2", replicas=2))
    here = {now.cluster: (now, after) for now, after in found.loads}
    assert here["c2"][0].connections == 50 + 10, "50 agents of c1, and 10 of its own"
    assert here["c2"][0].watches_of_peers == 50 * 5
    assert (here["c1"][0].cached, here["c1"][0].watches_of_agents, here["c1"][0].connections) == (0, 0, 2)
    assert here["c2"][0].cached == 50 + 100 + 500 + 5


def test_what_is_not_known_is_said_and_holds_no_gate() -> None:
    found = envelope(size("c1"), size("c2", endpoints=None), newcomer=None, unread={"c2": ("RBAC forbids it",)})
    ipcache = row(found, Bound.IPCACHE, "c1")
    assert (ipcache.now.used, ipcache.now.unknown) == (None, ("c2",))
    assert found.gate(90) == "fail_at cannot be answered: numbers of c2 are not known."
    assert found.gate(None) == ""
    texts = [line.text for line in envelope_lines("edge-mesh-eu", found)]
    assert "  c2: numbers that could not be read: RBAC forbids it" in texts
    assert texts[-1] == "edge-mesh-eu: fullest limit clusters of c1, 0 %; what one more cluster takes is not known"


def test_a_mesh_of_which_nothing_is_known_is_not_called_empty_and_not_said_to_have_room() -> None:
    found = envelope_of(mesh("c1", "c2"), {}, SMALL, silent={"c1": "no answer", "c2": "no answer"})
    assert envelope_lines("edge-mesh-eu", found)[-1].text == "edge-mesh-eu: nothing is known, since no member answered"
    part = envelope_of(mesh("c1", "c2"), {"c1": size("c1")}, SMALL, silent={"c2": "no answer"})
    assert ", as far as is known; one more cluster of" in envelope_lines("edge-mesh-eu", part)[-1].text


def test_the_gate_judges_the_mesh_with_one_more_cluster() -> None:
    full = [size("c1", endpoints=250_000), size("c2", endpoints=200_000)]
    assert envelope(*full, newcomer=None).gate(90) == ""
    with_it = envelope(*full, newcomer=replace(SMALL, endpoints=60_000)).gate(95)
    assert with_it.startswith("3 limits are used to 95 % or more with one more cluster: c1: ipcache 99 %; c2: ipcache 99 %")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": -1}, "nodes: must be a whole number"),
        ({"nodes": True}, "nodes: must be a whole number"),
        ({"pods": 3}, "pods: unknown key"),
        ({"endpoints": 10**9}, "endpoints: must be a whole number from 0 to 10000000"),
    ],
)
def test_a_size_that_is_not_valid_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        newcomer_of(given, {})
    assert said in str(error.value)


def test_what_the_user_leaves_out_is_as_in_the_largest_member() -> None:
    sizes = {"c1": size("c1"), "c2": size("c2", endpoints=900, nodes=30, identities=7)}
    assert newcomer_of({"nodes": 5}, sizes) == Newcomer(nodes=5, identities=7, endpoints=900, services=5, backends=40)
    assert newcomer_of({"nodes": 5}, {"c1": size("c1", endpoints=None)}) is None


def test_sizes_come_from_the_facts() -> None:
    facts = cluster_facts("c1", version="1.20.2", node_count=3)
    facts = replace(facts, config={**(facts.config or {}), "bpf-lb-map-max": "131072", "enable-ipsec": "true", "enable-ipv6": "true"})
    found = size_of(facts, SizeFacts(host="c1", identities=4, endpoints=5), ServiceNumbers(exported=1, lb_own=2, lb_peers=3))
    assert (found.nodes, found.identities, found.endpoints, found.services) == (3, 4, 5, 1)
    assert (found.lb_most, found.ipsec, found.families, found.max_clusters) == (131_072, True, 2, 255)
    unset = size_of(cluster_facts("c1"), None, None)
    assert (unset.lb_most, unset.identities, unset.keys, unset.addresses) == (65_536, None, None, None)


def test_load_balancer_entries_are_frontends_with_their_backends() -> None:
    annotations = {"service.cilium.io/global": "true"}
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30081}]
    web = service("web", annotations=annotations, ports=ports, ingress=[{"ip": "203.0.113.1"}])
    headless = service("quiet", clusterIP="None")
    current = scene(
        traffic("c1", services=[web, headless], slices=(slice_facts("web", ready=2), slice_facts("quiet", ready=9))),
        traffic("c2", services=[web], slices=(slice_facts("web", ready=3),)),
    )
    found = service_numbers(MeshView(scene=current), "c1")
    # Two ports on ClusterIP and load balancer, and two frontends of the node port: 6, each with itself and 2 backends; 3 of c2.
    assert found == ServiceNumbers(exported=1, lb_own=6 * 3, lb_peers=6 * 3)


def test_every_limit_has_a_source_and_says_what_happens_and_what_to_do() -> None:
    assert set(LIMITS) == set(Bound)
    assert all(limit.source and limit.consequence and limit.remedy for limit in LIMITS.values())


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 20_000), st.integers(0, 90_000)), min_size=1, max_size=6), st.booleans())
def test_as_many_clusters_fit_as_the_envelope_says(numbers: list[tuple[int, int, int]], kvstoremesh: bool) -> None:
    """Clusters are really added, one after the other, until a limit is exceeded."""
    sizes = [
        size(f"c{n}", nodes=nodes, endpoints=endpoints, identities=identities, kvstoremesh=kvstoremesh, secrets={})
        for n, (nodes, endpoints, identities) in enumerate(numbers)
    ]
    newcomer = Newcomer(nodes=200, identities=1_000, endpoints=60_000, services=0, backends=5_000)
    found = envelope(*sizes, newcomer=newcomer)
    more = found.more
    assert more is not None

    def exceeded(added: int) -> bool:
        """Whether a member exceeds a limit that newcomers fill."""
        grown = {s.host: replace(s, lb_peers=(s.lb_peers or 0) + added * newcomer.backends) for s in sizes}
        new = {f"n{n}": size(f"n{n}", nodes=200, identities=1_000, endpoints=60_000, services=0) for n in range(added)}
        every = grown | new
        names = list(every)
        judged = usages(every, lambda host: [name for name in names if name != host])
        mine = [u for u in judged if u.cluster in grown and u.bound not in (Bound.IDENTITIES, Bound.NODES, Bound.SECRET)]
        return any(u.used is not None and u.used > u.most for u in mine)

    if not exceeded(0):
        assert not exceeded(more)
        assert exceeded(more + 1)
    else:
        assert more == 0
    assert NEWCOMER not in {r.now.cluster for r in found.rows}


class Scripted(Cluster):
    """A client whose first page is given."""

    def __init__(self, answer: Mapping[str, Any] | None) -> None:
        self.answer, self.asked = answer, 0

    def _page(self, path: str, query: Mapping[str, str], *, most: int = 0, metadata_only: bool, **_limits: Any) -> Any:
        self.asked += 1
        return self.answer if most == 1 else {"items": [{}] * 7, "metadata": {}}


@pytest.mark.parametrize(
    ("answer", "number", "asked"),
    [
        (None, 0, 1),
        ({"items": [], "metadata": {}}, 0, 1),
        ({"items": [{}], "metadata": {}}, 1, 1),
        ({"items": [{}], "metadata": {"continue": "x", "remainingItemCount": 41}}, 42, 1),
        ({"items": [{}], "metadata": {"continue": "x"}}, 7, 2),
        ({"items": [{}], "metadata": {"continue": "x", "remainingItemCount": -3}}, 7, 2),
    ],
)
def test_objects_are_counted_in_one_request_where_the_server_says_how_many_follow(answer: Any, number: int, asked: int) -> None:
    cluster = Scripted(answer)
    assert (cluster.count("/apis/cilium.io/v2/ciliumidentities"), cluster.asked) == (number, asked)
