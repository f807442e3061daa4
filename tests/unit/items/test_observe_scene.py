# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What planning items may know: of members that answer, of silent ones, and of those to which no link works."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import Lease, Registry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure, RegistryFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import labels_of_new_object
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.scene import (
    cluster_names_of,
    dead_members,
    link_rows,
    observe_again,
    observe_scene,
)
from tests.testing.facts_builders import NOW, cluster_facts, failure
from tests.testing.rows import one_test
from tests.testing.traffic_builders import traffic

MESH = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2", "c3")))
Link = tuple[str, str]


def row(cluster: str, peer: str, *, ready: bool = False, stage: str = "dialling", **more: Any) -> dict[str, Any]:
    return {"cluster": cluster, "peer": peer, "ready": ready, "stage": "ready" if ready else stage, "error": "", **more}


def facts(*hosts: str) -> dict[str, Any]:
    return {host: cluster_facts(host, version="1.20.0") for host in hosts}


def dead(*rows: dict[str, Any]) -> frozenset[str]:
    return dead_members(link_rows({"links": list(rows)}), {"c3": failure("c3")}, facts("c1", "c2"))


@one_test(
    "rows is_dead",
    ([], False),  # no reader reports on it
    ([row("c1", "c3"), row("c2", "c3", stage="tls")], True),
    ([row("c1", "c3"), row("c2", "c3", ready=True)], False),
    ([row("c1", "c3"), row("c2", "c3", stage="unknown")], False),
    ([row("c1", "c3"), row("c2", "c3", stage="unknown", proof="refuted")], True),
    ([row("c3", "c1"), row("c3", "c2")], False),  # what a silent member says of others does not count
    ([row("c1", "c2")], False),  # c2 answers: a broken link to it does not make it dead
    ([row("c1", "c3")], True),  # in a topology where only c1 is linked with it
)
def test_dead_is_a_silent_member_to_which_no_link_works(rows: list[dict[str, Any]], is_dead: bool) -> None:
    assert dead(*rows) == (frozenset({"c3"}) if is_dead else frozenset())


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["links", "cluster", "peer", "phase"]), inner, max_size=3),
)


@given(json_like.filter(lambda value: not isinstance(value, list)))
def test_links_from_outside_that_are_no_list_are_none(links: Any) -> None:
    assert link_rows({"links": links}) == link_rows({}) == link_rows(None) == {}


MEMBERS = st.sampled_from(["c1", "c2", "c3"])


@given(st.data(), st.sets(st.tuples(MEMBERS, MEMBERS)), st.lists(json_like.filter(lambda value: not isinstance(value, dict))))
def test_of_links_from_outside_the_rows_are_taken_and_all_else_is_left_out(data: st.DataObject, links: set[Link], junk: list[Any]) -> None:
    rows = {link: row(*link) for link in links}
    assert link_rows({"links": data.draw(st.permutations([*rows.values(), *junk]))}) == rows


def registry_of(*leases: Lease) -> RegistryFacts:
    text = Registry(mesh=MESH.binding.owner, leases=leases).text
    return RegistryFacts(present=True, text=text, labels=labels_of_new_object(MESH.binding))


def test_a_silent_members_name_is_what_the_registry_or_its_peers_hold_and_an_unknown_one_has_none() -> None:
    known = facts("c1")
    assert cluster_names_of(MESH, known) == {"c1": "c1"}
    leases = registry_of(Lease(host="c2", name="cilium-two", id=2))
    assert cluster_names_of(MESH, {"c1": replace(known["c1"], registry=leases)}) == {"c1": "c1", "c2": "cilium-two"}


class Played:
    """Traffic that changes with every reading."""

    def __init__(self) -> None:
        self.readings: list[tuple[str, ...]] = []
        self.broken: dict[str, ObserveFailure] = {}

    def read(
        self, clusters: Mapping[str, Cluster], kinds: Collection[ItemKind], *, parallel: int = 10
    ) -> tuple[dict[str, TrafficFacts], dict[str, ObserveFailure]]:
        self.readings.append(tuple(clusters))
        served = [f"reading/{len(self.readings)}"]
        return {host: traffic(host, served=served) for host in clusters if host not in self.broken}, self.broken


def observed(*hosts: str, failures: Mapping[str, ObserveFailure] | None = None) -> Observation:
    clusters = cast("dict[str, Cluster]", dict.fromkeys(hosts))
    return Observation(facts=facts(*hosts), clusters=clusters, failures=dict(failures or {}))


def test_a_scene_names_who_is_silent_and_why() -> None:
    played = Played()
    played.broken = {"c2": failure("c2")}
    status = {"phase": "Degraded", "links": [row("c1", "c2", error="refused"), row("c2", "c1", ready=True)]}
    scene = observe_scene(played.read, observed("c1", "c2"), MESH, [ItemKind.INTENT], now=NOW, binding_status=status)
    assert (scene.phase, scene.hosts, scene.silent) == ("Degraded", ("c1",), ("c2", "c3"))
    assert {host: entry.code for host, entry in scene.failures.items()} == {"c2": failure("c2").code, "c3": "CM-TOPO-02"}
    assert scene.link_errors == {("c1", "c2"): "dialling: refused"}
    assert scene.dead == frozenset()


def test_what_was_not_written_is_not_read_again() -> None:
    played = Played()
    observation = observed("c1", "c2", "c3")
    first = observe_scene(played.read, observation, MESH, [ItemKind.INTENT], now=NOW)
    assert (first.phase, first.failures) == ("", {})
    played.broken = {"c2": failure("c2")}
    again = observe_again(played.read, first, observation, [ItemKind.INTENT], {"c1", "c2"}, parallel=4)
    assert played.readings == [("c1", "c2", "c3"), ("c1", "c2")]
    assert {host: set(entry.served) for host, entry in again.traffic.items()} == {"c1": {"reading/2"}, "c3": {"reading/1"}}
    assert (again.silent, again.failures["c2"].host) == (("c2",), "c2")
