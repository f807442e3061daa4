# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a user may write in ``cilium_mesh``, and what he reads when he wrote something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from tests.testing.rows import in_one_test, one_test

HOSTS = ["c1", "c2", "c3"]


class Tagged(str):
    """Like Ansible's strings, which carry their origin."""

    __slots__ = ("origin",)


def refused(raw: Any, inventory: list[str] | None = None) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse(raw, HOSTS if inventory is None else inventory)
    return caught.value.message


def test_no_variable_means_the_whole_inventory() -> None:
    mesh = parse(None, HOSTS)
    assert mesh.binding.name == "cilium-mesh"
    assert mesh.clusters == ("c1", "c2", "c3")


def test_the_spec_of_a_custom_resource_is_taken_as_it_is() -> None:
    raw: dict[str, Any] = {
        "binding": {
            "name": "edge-mesh-eu",
            "clusterRefs": [{"name": "c2"}, "c1"],
            "meshConfig": {"serviceType": "NodePort", "enableKvStoreMesh": False, "hubble": {"enabled": True, "ui": False}},
        },
        "globalServices": [],
        "connectivityIntents": None,
    }
    binding = parse({**raw, "binding": {**raw["binding"], "workspace": "root:a", "namespace": "default"}}, HOSTS).binding
    assert (binding.name, binding.cluster_refs) == ("edge-mesh-eu", ("c2", "c1"))
    assert (binding.service_type, binding.enable_kvstoremesh, binding.hubble_enabled, binding.hubble_ui) == ("NodePort", False, True, False)
    assert (binding.workspace, binding.namespace) == ("root:a", "default")


@pytest.mark.parametrize(("given", "read"), [(None, 0), (0, 0), (7, 7)])
def test_a_custom_resource_has_a_generation(given: Any, read: int) -> None:
    assert parse({"binding": {"generation": given}}, HOSTS).binding.generation == read


@pytest.mark.parametrize("given", ["7", -1, 1.5, True, []])
def test_a_generation_is_a_whole_number(given: Any) -> None:
    assert "binding.generation: must be a whole number, not " in refused({"binding": {"generation": given}})


def test_bindings_of_one_name_in_two_places_have_two_owners() -> None:
    places = [{}, {"workspace": "1a2b"}, {"workspace": "3c4d"}, {"workspace": "1a2b", "namespace": "prod"}, {"namespace": "1a2b"}]
    owners = [parse({"binding": {"name": "edge", **place}}, HOSTS).binding.owner for place in places]
    assert len(set(owners)) == len(places)
    assert parse({"binding": {"name": "edge", "workspace": "", "namespace": None}}, HOSTS).binding.owner == owners[0]


@in_one_test
@pytest.mark.parametrize("key", ["workspace", "namespace"])
@pytest.mark.parametrize("given", [7, True, ["1a2b"], {"name": "1a2b"}])
def test_the_place_of_a_binding_is_a_text(key: str, given: Any) -> None:
    assert f"binding.{key}: must be a text, not " in refused({"binding": {key: given}})


def test_a_topology_is_read_as_it_is_written() -> None:
    hubs = parse({"binding": {"topology": {"mode": "HubAndSpoke", "hubs": ["c2"]}}}, HOSTS)
    assert hubs.links == (("c1", "c2"), ("c2", "c1"), ("c2", "c3"), ("c3", "c2"))
    pairs = parse({"binding": {"topology": {"mode": "Pairs", "pairs": [[Tagged("c3"), "c1"]]}}}, HOSTS)
    assert pairs.links == (("c1", "c3"), ("c3", "c1"))
    assert {type(name) for pair in pairs.binding.topology.pairs for name in pair} == {str}
    for same in (None, {}, {"mode": None}, {"mode": "FullMesh"}):
        assert parse({"binding": {"topology": same}}, HOSTS) == parse({"binding": {}}, HOSTS)


def test_tagged_strings_become_plain_ones() -> None:
    raw = {
        Tagged("binding"): {
            Tagged("name"): Tagged("m"),
            "clusterRefs": [{"name": Tagged("c1")}, Tagged("c2")],
            "meshConfig": {"serviceType": Tagged("NodePort")},
        }
    }
    binding = parse(raw, [Tagged("c1"), Tagged("c2")]).binding
    assert {type(t) for t in (binding.name, *binding.cluster_refs, binding.service_type)} == {str}
    assert type(parse(None, [Tagged("c1"), Tagged("c2")]).clusters[0]) is str


def test_ansible_tagged_strings_become_plain_ones() -> None:
    tags = pytest.importorskip("ansible._internal._datatag._tags", reason="ansible-core below 2.19 has no tagged strings")
    tagged = tags.Origin(description="test").tag("c1")
    assert type(tagged) is not str
    names = parse({"binding": {"clusterRefs": [tagged, "c2"]}}, ["c1", "c2"]).clusters
    assert [type(n) for n in names] == [str, str]


MISTAKES: list[tuple[Any, str]] = [
    ({"clusterrefs": []}, "binding.clusterrefs: unknown key; did you mean clusterRefs?"),
    ({"meshConfig": {"servicetype": "NodePort"}}, "binding.meshConfig.servicetype: unknown key; did you mean serviceType?"),
    ({"meshConfig": {"hubble": {"enable": True}}}, "binding.meshConfig.hubble.enable: unknown key; did you mean enabled?"),
    ({"clusterRefs": [{"name": "c1", "weight": 1}, "c2"]}, "binding.clusterRefs[0].weight: unknown key; the keys here are name"),
    ({1: 2}, "binding.1: unknown key"),
    ([], "binding: must be a mapping"),
    ({"name": 5}, "binding.name: must be a text, not a number"),
    ({"name": "Edge_Mesh"}, 'binding.name: "Edge_Mesh" is not a DNS-1123 name'),
    ({"name": "a\n"}, 'binding.name: "a?" is not a DNS-1123 name'),
    ({"clusterRefs": "c1"}, "binding.clusterRefs: must be a list, not a text; write a list of {name: HOST}"),
    (
        {"clusterRefs": ["c1", 7]},
        "binding.clusterRefs[1]: must be a mapping with the keys name, not a number; write {name: HOST}, or the name alone",
    ),
    ({"clusterRefs": ["c1", {}]}, "binding.clusterRefs[1].name: is missing"),
    ({"clusterRefs": ["c1", "c2", "c1"]}, 'binding.clusterRefs[2]: "c1" is named twice; the first is binding.clusterRefs[0]'),
    ({"clusterRefs": ["c1", "paris"]}, 'binding.clusterRefs[1]: "paris" is not in the inventory; it has c1, c2, c3'),
    ({"clusterRefs": ["c1", {"name": "C2"}]}, 'binding.clusterRefs[1].name: "C2" is not in the inventory; did you mean c2?'),
    ({"clusterRefs": ["c1"]}, "binding.clusterRefs: a mesh needs at least two clusters, and there is one"),
    ({"clusterRefs": []}, "binding.clusterRefs: a mesh needs at least two clusters, and there are none"),
    ({"meshConfig": {"serviceType": "Loadbalancer"}}, 'serviceType: "Loadbalancer" is not known; did you mean LoadBalancer?'),
    ({"meshConfig": {"serviceType": 3}}, "binding.meshConfig.serviceType: must be a text, not a number"),
    ({"meshConfig": {"enableKvStoreMesh": "yes"}}, 'binding.meshConfig.enableKvStoreMesh: must be true or false, not "yes"'),
    ({"meshConfig": {"hubble": {"ui": 1}}}, "binding.meshConfig.hubble.ui: must be true or false, not a number"),
    ({"topology": "ring"}, "binding.topology: must be a mapping with the keys mode, hubs, pairs, not a text"),
    ({"topology": {"mode": "fullmesh"}}, 'binding.topology.mode: "fullmesh" is not known; did you mean FullMesh?'),
    ({"topology": {"mode": "Ring"}}, "use one of FullMesh, HubAndSpoke, Pairs"),
    ({"topology": {"mode": 1}}, "binding.topology.mode: must be a text, not a number"),
    ({"topology": {"hub": ["c1"]}}, "binding.topology.hub: unknown key; did you mean hubs?"),
    ({"topology": {"hubs": ["c1"]}}, "binding.topology.hubs: belongs to mode HubAndSpoke, and the mode is FullMesh"),
    ({"topology": {"mode": "Pairs", "hubs": ["c1"]}}, "binding.topology.hubs: belongs to mode HubAndSpoke, and the mode is"),
    ({"topology": {"mode": "HubAndSpoke"}}, "binding.topology.hubs: is missing; mode HubAndSpoke needs it"),
    ({"topology": {"mode": "Pairs", "pairs": []}}, "binding.topology.pairs: is missing; mode Pairs needs it"),
    ({"topology": {"mode": "HubAndSpoke", "hubs": "c1"}}, "binding.topology.hubs: must be a list, not a text; write a list of members"),
    ({"topology": {"mode": "HubAndSpoke", "hubs": ["c9"]}}, 'binding.topology.hubs[0]: "c9" is no member of the mesh'),
    (
        {"clusterRefs": ["c1", "c2"], "topology": {"mode": "HubAndSpoke", "hubs": ["c3"]}},
        'binding.topology.hubs[0]: "c3" is no member of the mesh; its members are c1, c2',
    ),
    ({"topology": {"mode": "HubAndSpoke", "hubs": ["c1", "c1"]}}, 'hubs[1]: "c1" is named twice; the first is binding'),
    ({"topology": {"mode": "HubAndSpoke", "hubs": [None]}}, "binding.topology.hubs[0]: must be a text, not nothing"),
    (
        {"topology": {"mode": "Pairs", "pairs": "c1"}},
        "binding.topology.pairs: must be a list, not a text; write a list of pairs [ONE, OTHER]",
    ),
    ({"topology": {"mode": "Pairs", "pairs": [["c1"]]}}, "pairs[0]: must have 2 entries, not 1; write a pair [ONE, OTHER]"),
    ({"topology": {"mode": "Pairs", "pairs": [["c1", "c2", "c3"]]}}, "pairs[0]: must have 2 entries, not 3; write a pair [ONE, OTHER]"),
    ({"topology": {"mode": "Pairs", "pairs": ["c1,c2"]}}, "pairs[0]: must be a list, not a text; write a pair [ONE, OTHER]"),
    ({"topology": {"mode": "Pairs", "pairs": [["c1", "c1"]]}}, 'pairs[0]: "c1" cannot be linked with itself'),
    ({"topology": {"mode": "Pairs", "pairs": [["c1", "C2"]]}}, 'pairs[0][1]: "C2" is no member of the mesh; did you mean c2?'),
    (
        {"topology": {"mode": "Pairs", "pairs": [["c1", "c2"], ["c2", "c1"]]}},
        'pairs[1]: "c2" and "c1" are a pair already; the first is binding.topology.pairs[0]',
    ),
]
"""What a binding may not be, and what is said of it."""


@one_test(
    "raw told",
    ({"bindings": {}}, "bindings: unknown key; did you mean binding?"),
    ("edge", "cilium_mesh: must be a mapping with the keys binding"),
    ({"globalService": []}, "globalService: unknown key; did you mean globalServices?"),
    *(({"binding": binding}, told) for binding, told in MISTAKES),
)
def test_a_mistake_is_named_with_its_path(raw: Any, told: str) -> None:
    assert told in refused(raw)


def test_every_mistake_of_the_structure_is_reported_at_once_and_then_every_one_of_the_meaning() -> None:
    message = refused({"bindin": 1, "binding": {"clusterRefs": ["c9", 7], "meshConfig": {"x": 1}}})
    for path in ("bindin:", "binding.clusterRefs[1]:", "binding.meshConfig.x:"):
        assert path in message
    assert message.startswith("cilium_mesh has 3 problems")
    message = refused({"binding": {"name": "A b", "clusterRefs": ["c9"], "topology": {"mode": "Pairs"}}})
    for path in ("binding.name:", "binding.clusterRefs[0]:", "binding.clusterRefs:", "binding.topology.pairs:"):
        assert path in message
    assert message.startswith("cilium_mesh has 4 problems")


def test_lists_of_items_are_judged_by_who_carries_them_out() -> None:
    lists = {"globalServices": [1], "connectivityIntents": {"a": 1}, "exposedServices": "x"}
    found = parse(lists, ["c1", "c2"])
    assert [kind.value for kind in found.item_lists] == [*lists] and replace(found, item_lists=()) == parse(None, ["c1", "c2"])


@pytest.mark.parametrize(
    ("inventory", "told"), [([], "there are none"), (["c1"], "there is one"), (["c1", "C_2"], "rename the inventory host")]
)
def test_an_inventory_that_makes_no_mesh_is_refused(inventory: list[str], told: str) -> None:
    assert told in refused(None, inventory)


def test_a_long_inventory_is_not_listed_whole() -> None:
    hosts = [f"host-{i:03}" for i in range(255)]
    message = refused({"binding": {"clusterRefs": ["paris", "host-001"]}}, hosts)
    assert "host-019 and 235 more" in message
    assert "host-020" not in message


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["binding", "name", "clusterRefs", "topology", "mode", "hubs", "pairs", "meshConfig", "hubble", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_like)
def test_anything_is_either_a_mesh_of_inventory_hosts_or_refused(raw: Any) -> None:
    try:
        mesh = parse(raw, HOSTS)
    except InvalidInput as error:
        assert "cilium_mesh has" in error.message
        assert error.message.isprintable()
    else:
        assert len(mesh.clusters) >= 2
        assert set(mesh.clusters) <= set(HOSTS)


def test_a_mesh_that_is_taken_away_may_have_one_member_left_and_not_none() -> None:
    assert parse({"binding": {"clusterRefs": ["c1"]}}, ["c1", "c2"], leaving=True).clusters == ("c1",)
    with pytest.raises(InvalidInput, match="a mesh needs at least two clusters, and there are none"):
        parse({"binding": {"clusterRefs": []}}, ["c1", "c2"], leaving=True)
