# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What workspaces get of the memory for all: never more than there is; none loses what it has; small ones have room beside large ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.source.memory_shares import FIRST_BYTES, MemoryShares

TOTAL = 1 << 20
NAMES = st.integers(0, 40).map("w{}".format)
CLAIMS = st.lists(st.tuples(NAMES, st.integers(0, TOTAL), st.sampled_from((0, 0, 0, 1, TOTAL // 20))), max_size=60)


@given(CLAIMS)
def test_workspaces_never_get_more_than_there_is_and_a_claim_takes_nothing_from_others(claims: list[tuple[str, int, int]]) -> None:
    shares, had = MemoryShares(TOTAL), dict[str, int]()
    for workspace, needed, deleted in claims:
        had[workspace] = shares.claim(workspace, needed, deleted)
        assert had[workspace] <= needed and sum(had.values()) <= TOTAL
        assert {name: shares.of(name) for name in had} == had


@given(CLAIMS)
def test_a_workspace_keeps_what_it_has_as_long_as_it_needs_it(claims: list[tuple[str, int, int]]) -> None:
    shares = MemoryShares(TOTAL)
    for workspace, needed, _deleted in claims:
        before = shares.of(workspace)
        assert shares.claim(workspace, needed) >= min(needed, before)


@given(st.lists(st.integers(0, TOTAL), max_size=FIRST_BYTES // 4 - 1))
def test_a_small_workspace_has_room_beside_any_large_ones(large: list[int]) -> None:
    shares = MemoryShares(TOTAL)
    for number, needed in enumerate(large):
        shares.claim(f"large-{number}", needed)
    assert shares.claim("small", TOTAL // FIRST_BYTES) == TOTAL // FIRST_BYTES


def test_what_is_given_back_can_be_given_again() -> None:
    shares = MemoryShares(TOTAL)
    most = shares.claim("one", 2 * TOTAL)
    assert shares.claim("two", TOTAL) == TOTAL // FIRST_BYTES, "its first bytes, and nothing of what all share"
    assert shares.claim("one", 1000) == 1000 and shares.claim("two", TOTAL) == most


def test_a_deletion_has_room_when_all_is_taken() -> None:
    shares = MemoryShares(TOTAL)
    for number in range(200):
        shares.claim(f"w{number}", TOTAL)
    assert shares.claim("new", 5000) == 0 and shares.claim("new", 5000, deleted=2000) == 2000
