# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The figures of a cluster: what Karmada reports, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.models import Member
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.status import metrics
from tests.testing.crd_schema import nodes, paths_of, schemas
from tests.testing.members_world import NOW

MEMBER = Member(tenant=Tenant("shop", "default"), name="c1", host="c1")
STATUS = schemas("fleet")["ClusterMetrics"]["properties"]["status"]


def found(summary: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "ClusterReady"}
    return {"status": {"conditions": [ready], "nodeSummary": {"totalNum": 3, "readyNum": 2}, "resourceSummary": summary}}


def test_what_karmada_sums_up_is_what_a_tenant_reads_and_every_field_of_the_kind_is_written() -> None:
    summary = {
        "allocatable": {"cpu": "12", "memory": "48Gi", "pods": "330", "hugepages-2Mi": "0"},
        "allocated": {"cpu": "2500m", "memory": "6Gi", "pods": "41"},
        "allocating": {"cpu": "500m", "pods": 2},
        "allocatableModelings": [{"grade": 0, "count": 3}],
    }
    row = metrics(MEMBER, found(summary), NOW)
    assert row["cpu"] == {"allocatable": "12", "requested": "2500m", "pending": "500m"}
    assert row["memory"] == {"allocatable": "48Gi", "requested": "6Gi", "pending": "0"}
    assert row["pods"] == {"allocatable": "330", "requested": "41", "pending": "2"}
    written = set(paths_of({key: value for key, value in row.items() if key != "name"}, STATUS))
    assert written == {path for path, _ in nodes(STATUS)}


@pytest.mark.parametrize("summary", [None, {}, [], "x", {"allocatable": None}, {"allocatable": {"cpu": True}, "allocated": {"cpu": ["1"]}}])
def test_what_karmada_does_not_report_is_left_out_and_never_called_zero(summary: Any) -> None:
    row = metrics(MEMBER, found(summary), NOW)
    assert row.keys() == {"name", "time", "memberReady", "nodes"}
    assert metrics(MEMBER, None, NOW)["memberReady"] is False


def test_a_sum_that_karmada_leaves_out_is_zero_only_beside_what_the_nodes_have() -> None:
    row = metrics(MEMBER, found({"allocatable": {"cpu": "8"}, "allocating": {"pods": "1"}}), NOW)
    assert row["cpu"] == {"allocatable": "8", "requested": "0", "pending": "0"}
    assert (row["pods"], "memory" in row) == ({"pending": "1"}, False)
