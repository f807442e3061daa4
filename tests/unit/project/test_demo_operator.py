# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the operator's demo says what was seen, nothing better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.demo_operator.follow import GONE, Change
from tests.demo_operator.leftovers import left, workspaces
from tests.demo_operator.scene import DOCUMENTS, TENANTS, WANTED
from tests.demo_operator.verdict import HURT, OTHER, Seen, judge
from tests.testing.rows import one_test

BINDING = "ClusterMeshBinding"


def change(at: float, tenant: str, kind: str, phase: str) -> Change:
    return Change(at=at, tenant=tenant, kind=kind, phase=phase)


def all_of(at: float, phases: dict[str, str]) -> list[Change]:
    return [change(at, tenant, kind, phase) for tenant in TENANTS for kind, phase in phases.items()]


HISTORY = [
    *all_of(1, dict.fromkeys(WANTED, "Pending")),
    *all_of(5, WANTED),
    change(12, HURT, BINDING, "Degraded"),
    change(25, HURT, BINDING, "Connected"),
    *all_of(35, dict.fromkeys(WANTED, GONE)),
]
WHOLE = Seen(history=HISTORY, links={"shop": (2, 2), "bank": (2, 2)}, strangers=0, cut=10, healed=20, deleted=30, left=[])


def without(*gone: Change) -> list[Change]:
    return [entry for entry in HISTORY if entry not in gone]


def test_all_that_the_demo_is_to_show() -> None:
    verdict = judge(WHOLE)
    assert verdict.good
    assert verdict.text == (
        "shop: Connected, Exported, Applied (2/2 links ready); bank: Connected, Exported, Applied (2/2 links ready); "
        "link of shop cut: shop Degraded, bank unchanged; healed: Connected; deleted: nothing left"
    )


@one_test(
    "seen told",
    (Seen(), "shop: no ClusterMeshBinding, no GlobalService, no ConnectivityIntent (0/0 links ready)"),
    (replace(WHOLE, links={"shop": (1, 2), "bank": (2, 2)}), "(1/2 links ready)"),
    (replace(WHOLE, links={"shop": (2, 2)}), "bank: Connected, Exported, Applied (0/0 links ready)"),
    (replace(WHOLE, history=without(change(5, OTHER, "GlobalService", "Exported"))), "bank: Connected, Pending, Applied"),
    (replace(WHOLE, strangers=1), "1 objects in the other's clusters"),
    (replace(WHOLE, strangers=None), "deleted: nothing left"),
    (replace(WHOLE, history=without(HISTORY[12])), "link of shop cut: shop unchanged, bank unchanged"),
    (replace(WHOLE, history=[*HISTORY, change(15, OTHER, "GlobalService", "Degraded")]), "shop Degraded, bank Degraded"),
    (replace(WHOLE, history=without(HISTORY[13])), "healed: Degraded"),
    (replace(WHOLE, left=["shop: a Secret is new"]), "deleted: 1 things left"),
    (replace(WHOLE, left=None), "healed: Connected"),
    (replace(WHOLE, history=without(HISTORY[14])), "deleted: 1 things left"),
)
def test_whatever_is_missing_is_reported_and_fails(seen: Seen, told: str) -> None:
    verdict = judge(seen)
    assert not verdict.good
    assert told in verdict.text


def test_what_is_left_in_clusters_is_named_without_values() -> None:
    before: dict[str, Any] = {
        "c1/secrets/ns/a": {"metadata": {"labels": {"x": "1"}}, "data": {"k": "old"}},
        "c1/secrets/ns/b": {"metadata": {}},
        "c1/secrets/ns/same": {"metadata": {}},
    }
    after: dict[str, Any] = {
        "c1/secrets/ns/a": {"metadata": {"labels": {"x": "1", "y": "2"}}, "data": {"k": "top secret"}},
        "c1/services/ns/new": {"metadata": {}},
        "c1/secrets/ns/same": {"metadata": {}},
    }
    assert left(before, after) == [
        "c1/secrets/ns/a differs in data.k, metadata.labels.y",
        "c1/secrets/ns/b is gone",
        "c1/services/ns/new is new",
    ]
    assert left(before, before) == []


def test_objects_are_counted_by_the_workspace_on_their_label() -> None:
    mine = {"metadata": {"labels": {"edge-connect.eu/source-workspace": "w1"}}}
    assert workspaces({"a": mine, "b": mine, "c": {"metadata": {"labels": {"app": "x"}}}, "d": {"metadata": {}}}) == {"w1": 2}


def test_the_resources_of_the_demo_are_those_whose_phases_it_waits_for() -> None:
    assert [document["kind"] for document in DOCUMENTS] == list(WANTED)
