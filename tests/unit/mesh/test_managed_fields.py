# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Editing the ledger moves exactly the fields that are meant, and leaves every other claim as it is."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import WriterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.managed_fields import (
    APPLY,
    UPDATE,
    Owner,
    add_owner,
    annotation,
    data_key,
    entries_of,
    fields_of_manager,
    owners,
    remove_owners,
    summary,
    without_manager,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.ownership import all_writers, writers

HELM, OURS = Owner("helm", UPDATE), Owner("ours", APPLY)
KEYS = ("c1", "c2", "c2.etcd-client.key")


def entry(owner: Owner, *keys: str, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"f:data": {".": {}, **{f"f:{key}": {} for key in keys}}} if keys else {}
    return {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": "v1",
        "time": "2026-09-01T12:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def test_keys_go_from_one_owner_to_another_and_the_rest_stays() -> None:
    ledger = [entry(HELM, "c1", "c2"), entry(Owner("person", UPDATE), "c2")]
    before = copy.deepcopy(ledger)
    moved = add_owner(remove_owners(ledger, [data_key("c2")], but=OURS), OURS, [data_key("c2")], time="now")
    assert ledger == before, "what was observed is not changed"
    assert owners(moved, data_key("c2")) == (OURS,)
    assert owners(moved, data_key("c1")) == (HELM,)
    assert [e["manager"] for e in moved] == ["helm", "person", "ours"]
    assert moved[-1]["time"] == "now" and moved[-1]["fieldsType"] == "FieldsV1"


def test_an_entry_that_holds_nothing_any_more_goes_and_an_existing_one_is_extended() -> None:
    single = {**entry(Owner("person", UPDATE)), "fieldsV1": {"f:data": {"f:c2": {}}}}
    moved = add_owner(remove_owners([single, entry(OURS, "c1")], [data_key("c2")], but=OURS), OURS, [data_key("c2")], time="now")
    assert [e["manager"] for e in moved] == ["ours"]
    assert set(fields_of_manager(moved, "ours")) == {data_key("c1"), data_key("c2")}


def test_entries_of_subresources_and_of_other_versions_are_left_alone() -> None:
    status = entry(HELM, "c2", subresource="status")
    old = entry(OURS, "c1", apiVersion="v1beta1")
    ledger = [status, old]
    assert owners(ledger, data_key("c2")) == ()
    assert remove_owners(ledger, [data_key("c2")]) == ledger
    assert without_manager([{**status, "manager": "ours"}, old], "ours") == [{**status, "manager": "ours"}]
    assert len(add_owner(ledger, OURS, [data_key("c2")], time="now")) == 3


def test_the_ledger_in_words_names_fields_and_no_map() -> None:
    ledger = [{**entry(HELM, "c2"), "fieldsV1": {"f:data": {".": {}, "f:c2": {}}, "f:metadata": {"f:annotations": {"f:a/b": {}}}}}]
    assert summary(ledger) == {"helm (Update)": ["data.c2", "metadata.annotations.a/b"]}
    assert owners(ledger, annotation("a/b")) == (HELM,)


def test_entries_are_kept_whole_where_a_plan_may_edit_them() -> None:
    secret = {"metadata": {"managedFields": [entry(HELM, "c2"), "spoiled"]}}
    found = all_writers({"clustermesh": secret, "server_cert": secret, "users": None})
    assert found["Secret cilium-clustermesh"][0].manager == "helm"
    assert entries_of(found["Secret cilium-clustermesh"]) == [entry(HELM, "c2")]
    assert entries_of(found["Secret clustermesh-apiserver-server-cert"]) == []
    assert "ConfigMap clustermesh-remote-users" not in found
    assert writers({}) == () and entries_of([WriterFacts(manager="x", operation="Update")]) == []


OWNERS = st.sampled_from((HELM, OURS, Owner("person", UPDATE), Owner("ours", UPDATE)))


@given(st.lists(st.tuples(OWNERS, st.sets(st.sampled_from(KEYS), min_size=1)), max_size=4), st.sets(st.sampled_from(KEYS)))
def test_moving_is_exact_and_idempotent(held: list[tuple[Owner, set[str]]], keys: set[str]) -> None:
    merged: dict[Owner, set[str]] = {}
    for owner, owned in held:
        merged.setdefault(owner, set()).update(owned)
    ledger = [entry(owner, *sorted(owned)) for owner, owned in merged.items()]
    paths = [data_key(key) for key in sorted(keys)]

    def move(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return add_owner(remove_owners(entries, paths, but=OURS), OURS, paths, time="now")

    moved = move(ledger)
    for key in KEYS:
        before, after = set(owners(ledger, data_key(key))), set(owners(moved, data_key(key)))
        assert after == ({OURS} if key in keys else before)
    assert move(moved) == moved
