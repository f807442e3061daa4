# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a result means for the one that asked for the run, whatever the findings in it are, and whatever shape they have."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import Meaning, meaning_of
from tests.testing.properties import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from(sorted(CATALOGUE)) | JSON,
        "severity": st.sampled_from(["blocking", "outage", "remediable", "advisory"]) | JSON,
        "item": st.sampled_from(["", "globalServices/shop"]) | JSON,
        "cluster": st.sampled_from(["", "c1"]) | JSON,
        "summary": st.text(max_size=20) | JSON,
        "accepted": st.booleans() | JSON,
    },
)


def row(code: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "severity": "blocking", "summary": f"{code} holds.", **more}


def test_a_run_without_a_result_or_without_findings_means_nothing_of_all_this() -> None:
    assert meaning_of(None) == meaning_of({}) == meaning_of({"findings": []}) == Meaning()


def test_every_code_says_of_itself_whether_to_wait_whether_objects_are_held_and_whether_something_is_left() -> None:
    """Each finding of the catalogue, as an advisory one: what it means, it means by its code."""
    meanings = {code: meaning_of({"findings": [row(code, severity="advisory", item="intents/a")]}) for code in CATALOGUE}
    assert [code for code, meaning in meanings.items() if meaning.waiting] == ["CM-LOCK-01", "CM-LOCK-02"]
    assert [code for code, meaning in meanings.items() if meaning.held] == ["CM-ITEM-05"]
    left = [code for code, meaning in meanings.items() if meaning.unclean]
    assert left == [code for code in CATALOGUE if code.startswith("CM-API-") or code == "CM-ITEM-05"]


def test_a_finding_that_blocks_leaves_its_item_or_the_mesh_undone_accepted_or_not() -> None:
    found = meaning_of({"findings": [row("CM-NET-01"), row("CM-GS-01", item="globalServices/shop", accepted=True)]})
    assert found.unclean == {"", "globalServices/shop"}


def test_findings_about_the_mesh_that_block_are_named_with_their_clusters_unless_they_are_accepted() -> None:
    rows = [row("CM-NET-01", cluster="c1"), row("CM-NET-02", accepted=True), row("CM-GS-01", item="globalServices/shop")]
    assert meaning_of({"findings": rows}).blocked == "CM-NET-01 c1: CM-NET-01 holds"
    assert meaning_of({"findings": rows[1:]}).blocked == ""


def test_a_run_that_failed_by_itself_says_so_only_where_nothing_else_blocks() -> None:
    assert meaning_of({"findings": [row("CM-ERR-00")]}).failed
    assert not meaning_of({"findings": [row("CM-ERR-00"), row("CM-NET-01")]}).failed
    assert not meaning_of({"findings": [row("CM-ERR-00", accepted=True)]}).failed


def test_an_assignment_goes_on_only_where_nothing_else_blocks() -> None:
    going = [row("CM-LEASE-15", cluster="c2"), row("CM-LEASE-15", cluster="c1")]
    assert meaning_of({"findings": going}).assigning == ("c2", "c1")
    assert meaning_of({"findings": [*going, row("CM-NET-01")]}).assigning == ()


@examples(300)
@given(st.lists(ROWS | JSON, max_size=6) | JSON)
def test_rows_of_any_shape_are_read_without_an_exception(rows: Any) -> None:
    found = meaning_of({"findings": rows})
    assert all(isinstance(text, str) for text in (found.waiting, found.blocked, *found.unclean, *found.held, *found.held.values()))
    assert set(found.held) <= found.unclean, "what is held is not clean"
