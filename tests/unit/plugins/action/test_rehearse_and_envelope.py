# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Input of rehearse and envelope that is not valid is refused in words, before any cluster is contacted."""

from __future__ import annotations

from typing import Any

import pytest

BOTH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}


@pytest.mark.parametrize(
    ("action", "options", "said"),
    [
        ("mesh_rehearse", {"each": []}, "There is nothing to rehearse"),
        ("mesh_rehearse", {"each": ["cables"]}, "value of each must be one or more of"),
        ("mesh_rehearse", {"fail_on": ["outage"]}, "the harms are service-without-backend"),
        ("mesh_rehearse", {"losses": [{"members": ["c9"]}]}, '"c9" is no member of the mesh'),
        ("mesh_rehearse", {"losses": [{"members": ["c1", "c2"]}]}, "are all members of the mesh"),
        ("mesh_envelope", {"one_more": {"nodes": -1}}, "nodes: must be a whole number from 0"),
        ("mesh_envelope", {"one_more": {"pods": 1}}, "pods"),
        ("mesh_envelope", {"fail_at": 101}, "fail_at is 101; use 1 to 100"),
    ],
)
def test_input_that_is_not_valid_is_refused_before_a_cluster_is_contacted(
    make_world: Any, action: str, options: dict[str, Any], said: str
) -> None:
    world = make_world()
    result = world.run(action, mesh=BOTH, **options)
    assert result["failed"] is True and said in result["msg"], result["msg"]
    assert world.contacted == set()
