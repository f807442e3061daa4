# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lists of items: what is wrong with one refuses it alone, what has no name of its own refuses the variable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile import parse as items_parse
from tests.testing.rows import one_test
from tests.unit.items import fake_kind

MESH = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2")))


@pytest.fixture(autouse=True)
def _simple_intents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_parse, "ROWS", fake_kind.FAKE_ROWS)


def parsed(*entries: Any, **fields: Any) -> Desired:
    return items_parse.desired_of({"connectivityIntents": list(entries)}, MESH, **fields)


def test_items_keep_the_order_of_the_file_also_the_refused_ones() -> None:
    found = parsed({"name": "b"}, {"name": "x", "action": "Perhaps"}, {"name": "a", "action": "Deny"})
    assert [ref.name for ref in found.order] == ["b", "x", "a"]
    assert [item.name for item in found.of(ItemKind.INTENT)] == ["b", "a"]
    assert [(entry.ref, entry.problems) for entry in found.refused] == [(ItemRef(ItemKind.INTENT, "x"), ("action: is not known",))]
    assert found.kept(ItemKind.INTENT) == {"a", "b", "x"}


@one_test(
    "raw kinds",
    (None, set()),
    ({}, set()),
    ({"binding": {}}, set()),
    ({"connectivityIntents": None}, set()),
    ({"connectivityIntents": []}, {ItemKind.INTENT}),
    ({kind.value: [] for kind in ItemKind}, set(ItemKind)),
)
def test_a_list_that_is_absent_says_nothing_and_an_empty_one_that_there_is_none(raw: Any, kinds: set[ItemKind]) -> None:
    assert items_parse.desired_of(raw, MESH).kinds == kinds


def test_only_the_kinds_that_are_asked_for_are_read() -> None:
    raw = {"connectivityIntents": [{"name": "a"}], "globalServices": "nonsense"}
    assert items_parse.desired_of(raw, MESH, kinds=[ItemKind.INTENT]).kinds == {ItemKind.INTENT}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("x", "connectivityIntents[0]: must be a mapping with a name, not a text"),
        ({}, "connectivityIntents[0].name: is missing"),
        ({"name": "Not a name"}, 'connectivityIntents[0].name: "Not a name" is not a DNS-1123 name'),
        ({"name": 7}, "connectivityIntents[0].name:"),
        ({"name": "a\x1b[31m"}, "is not a DNS-1123 name"),
    ],
)
def test_an_item_without_a_name_of_its_own_is_an_error_of_the_variable(entry: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(entry)
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_names_are_unique_within_a_kind() -> None:
    with pytest.raises(InvalidInput, match=r'connectivityIntents\[1\].name: "a" is there twice'):
        parsed({"name": "a"}, {"name": "a"})


@pytest.mark.parametrize("value", ["x", 1, {"a": 1}])
def test_what_is_no_list_is_an_error_of_the_variable(value: Any) -> None:
    with pytest.raises(InvalidInput, match="connectivityIntents: must be a list of items"):
        items_parse.desired_of({"connectivityIntents": value}, MESH)


def test_the_generation_of_a_resource_is_no_part_of_its_spec() -> None:
    found = parsed({"name": "a", "generation": 4}, {"name": "b", "action": "?", "generation": 5})
    assert (found.of(ItemKind.INTENT)[0].generation, found.refused[0].generation) == (4, 5)


@pytest.mark.parametrize("value", ["4", -1, True, [1]])
def test_a_generation_that_is_no_number_refuses_the_item(value: Any) -> None:
    found = parsed({"name": "a", "generation": value})
    assert found.refused[0].problems[0].startswith("generation: must be a whole number")


@pytest.mark.parametrize(
    ("ref", "refused"),
    [({"name": "edge-mesh-eu"}, ()), ({"name": "other"}, ("meshRef.name",)), ({}, ("meshRef.name",)), ("x", ("meshRef",))],
)
def test_an_item_of_another_binding_is_refused(ref: Any, refused: tuple[str, ...]) -> None:
    found = parsed({"name": "a", "meshRef": ref})
    assert len(found.refused) == len(refused[:1])
    assert all(any(problem.startswith(path) for problem in found.refused[0].problems) for path in refused)


def test_a_parser_that_gives_no_item_and_no_reason_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = replace(fake_kind.ROW, parse=lambda problems, name, spec, members: None)
    monkeypatch.setattr(items_parse, "ROWS", {ItemKind.INTENT: silent})
    assert parsed({"name": "a"}).refused[0].problems == (items_parse.UNTOLD,)
