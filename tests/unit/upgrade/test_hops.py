# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The order of hops: every member arrives, one minor at a time, and no two linked members are ever further apart than allowed."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.hop import hops_of, skewed
from tests.testing.facts_builders import mesh_of
from tests.testing.properties import examples

MINORS = st.lists(st.integers(14, 20), min_size=1, max_size=6)


@given(given_minors=MINORS, further=st.integers(0, 3))
@examples(200)
def test_every_member_arrives_and_none_is_left_behind_on_the_way(given_minors: list[int], further: int) -> None:
    minors = {f"c{number}": Minor(1, minor) for number, minor in enumerate(given_minors, 1)}
    target = Minor(1, max(given_minors) + further)
    hops = hops_of(minors, target)
    state = dict(minors)
    allowed = max(1, max(given_minors) - min(given_minors))  # all members are linked
    for hop in hops:
        assert hop.before == state[hop.host] and hop.after == Minor(1, hop.before.minor + 1)
        assert hop.before == min(state.values())
        state[hop.host] = hop.after
        assert max(state.values()).minor - min(state.values()).minor <= allowed
    assert set(state.values()) == {target}
    assert [hop.round for hop in hops] == sorted(hop.round for hop in hops)


def test_members_that_are_too_far_apart_now_are_named() -> None:
    minors = {"c1": Minor(1, 17), "c2": Minor(1, 18), "c3": Minor(1, 19)}
    assert skewed(mesh_of(*minors), minors) == (("c1", "c3"),)
    assert [str(hop) for hop in hops_of(minors, Minor(1, 19))] == ["c1: 1.17 to 1.18", "c1: 1.18 to 1.19", "c2: 1.18 to 1.19"]
