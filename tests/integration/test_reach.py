# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The playbook reach on real API servers: what it predicts of a plan is what it reads once the plan was carried out, flow by flow.

The lab has no datapath. So what is compared here is the prediction with the policies that API servers took, judged by the same evaluator;
that this judges as Cilium does is the subject of tests/unit/policies.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.labs import TWO_118
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.testing.waiting import equals, wait_for

SHOP: Final = "shop"
WORKLOADS: Final = {"c1": ("web", "cron"), "c2": ("store", "ledger")}
PORTS: Final = (("TCP", 5432), ("TCP", 80), ("UDP", 53))
INTENTS: Final = [
    {
        "name": "web-to-store",
        "action": "Allow",
        "source": {"namespace": SHOP, "name": "web", "clusters": ["c1"]},
        "destination": {"namespace": SHOP, "name": "store", "clusters": ["c2"]},
        "ports": [{"protocol": "TCP", "port": 5432}],
    },
    {
        "name": "no-cron",
        "action": "Deny",
        "source": {"namespace": SHOP, "name": "cron"},
        "destination": {"namespace": SHOP, "name": "ledger"},
    },
]

JOINED: Final = {"world": ["world IPv4, other addresses", "world 192.0.2.0/24"], "nodes of every cluster": ["nodes of c1", "nodes of c2"]}
"""What stands for several sets in a row."""

Flow = tuple[str, str, str, int]
"""Source, destination, protocol, port."""


def furnish(lab: MeshLab) -> None:
    """Two workloads in each cluster, and a policy that another author wrote."""
    for cluster, names in WORKLOADS.items():
        api = lab.api(cluster)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        for name in names:
            labels = {"app": name}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]}}
            spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
            api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": SHOP}, "spec": spec})
        wait_for(partial(pods, api), equals(len(names)), what=f"{cluster} has its pods")
    # The entity cluster would mean the own cluster alone; a selector that names no cluster means all of them before 1.19.
    shop = {"matchLabels": {"k8s:io.kubernetes.pod.namespace": SHOP}}
    rule = {"endpointSelector": {"matchLabels": {"app": "web"}}, "egress": [{"toEndpoints": [shop]}, {"toCIDR": ["192.0.2.0/24"]}]}
    metadata = {"name": "of-the-team", "namespace": SHOP}
    lab.api("c1").create({"apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy", "metadata": metadata, "spec": rule})


def pods(api: LabApi) -> int:
    return len(api.list(f"/api/v1/namespaces/{SHOP}/pods"))


def verdicts(file: Path) -> dict[Flow, str]:
    """Every flow of the JSON file, one by one: each is in exactly one row."""
    data = json.loads(file.read_text(encoding="utf-8"))
    names = {entry["number"]: end_names(entry) for entry in data["sets"]}
    found: dict[Flow, str] = {}
    for row in data["flows"]:
        for flow in flows([name for number in row["sources"] for name in names[number]], names[row["destination"]], row["ports"]):
            assert flow not in found, flow
            found[flow] = row["verdict"]
    return found


def changed(file: Path) -> dict[Flow, str]:
    """Every flow that the plan changes, with its verdict after it."""
    found: dict[Flow, str] = {}
    for row in json.loads(file.read_text(encoding="utf-8"))["changes"]:
        for flow in flows(end_names(row["source"]), end_names(row["destination"]), row["ranges"]):
            found[flow] = row["verdict"]
    return found


def end_names(end: Mapping[str, Any]) -> list[str]:
    """The workloads, each with its cluster; of the outside and of nodes the names that are joined."""
    if end["kind"] != "workloads":
        return JOINED.get(end["name"], [end["name"]])
    return [f"{end['cluster']}/{name}" for name in end["workloads"]]


def flows(sources: list[str], destinations: list[str], ranges: list[Mapping[str, Any]]) -> list[Flow]:
    return [
        (source, destination, protocol, port)
        for source in sources
        for destination in destinations
        for protocol, port in PORTS
        if any(entry["protocol"] == protocol and entry["first"] <= port <= entry["last"] for entry in ranges)
    ]


@pytest.mark.lab(TWO_118)
def test_what_a_plan_is_predicted_to_change_is_what_is_there_once_it_was_carried_out(lab: MeshLab, tmp_path: Path) -> None:
    furnish(lab)
    mesh = {**lab.mesh(), "connectivityIntents": INTENTS}
    before, after, lines, matrix = (tmp_path / name for name in ("before.json", "after.json", "flows.csv", "matrix.csv"))
    state = lab.snapshot(volatile=True)

    predicted = lab.play("reach", mesh=mesh, cilium_mesh_reach_json=str(before), own_process=True)
    assert predicted.rc == 0, predicted.output
    assert not predicted.changed and lab.snapshot(volatile=True) == state
    now, then = verdicts(before), changed(before)
    assert now["c1/web", "c2/store", "UDP", 53] == "allowed" and then["c1/web", "c2/store", "UDP", 53] == "denied"
    assert ("c1/web", "c2/store", "TCP", 5432) not in then
    assert then["c1/cron", "c2/ledger", "TCP", 80] == "denied" and ("c1/web", "c2/ledger", "TCP", 80) not in then
    gate = lab.play("reach", mesh=mesh, cilium_mesh_reach_fail_on=["lost"])
    assert gate.rc == 2 and "lost: lost: " in gate.output
    assert lab.play("reach", mesh=mesh, cilium_mesh_reach_fail_on=["gained"]).rc == 0

    assert lab.play("policies", mesh=mesh, network_policy_require_connected=False).rc == 0
    carried_out = lab.play(
        "reach",
        mesh=mesh,
        cilium_mesh_reach_json=str(after),
        cilium_mesh_reach_csv=str(lines),
        cilium_mesh_reach_matrix=str(matrix),
        cilium_mesh_reach_by="workload",
    )
    assert carried_out.rc == 0, carried_out.output
    assert verdicts(after) == {**now, **then}
    assert changed(after) == {} and carried_out.result["reach"]["planned"] is False

    rows = list(csv.DictReader(lines.open(encoding="utf-8")))
    (allowed,) = [r for r in rows if (r["source_workloads"], r["destination_workloads"], r["verdict"]) == ("web", "store", "allowed")]
    assert allowed["ports"] == "TCP 5432" and "of-the-team in c1" in allowed["policies"] and " in c2" in allowed["policies"]
    (head, *body) = csv.reader(matrix.open(encoding="utf-8"))
    cells = {row[0]: dict(zip(head, row, strict=True)) for row in body}
    assert cells[f"c1/{SHOP}/web"][f"c2/{SHOP}/store"] == "TCP 5432"
    assert cells[f"c1/{SHOP}/cron"][f"c2/{SHOP}/ledger"] == "none"

    outside = lab.play("reach", cilium_mesh_reach_to={"cluster": "c2", "workload": "ledger"}, cilium_mesh_reach_fail_on=["world"])
    assert outside.rc == 2 and "world: world -> " in outside.output, outside.output
