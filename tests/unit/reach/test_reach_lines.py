# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a reach, and what its files hold."""

from __future__ import annotations

import csv
import io
import json

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.matrix import Grain
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.report import flows_csv, matrix_csv, reach_json
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.reach_lines import COLUMNS_SHOWN, reach_lines
from tests.testing.traffic_builders import namespace_facts, pod, scene, traffic
from tests.unit.reach.test_reach import CLOSED, report, two_clusters


def lines(*args: object, **ends: object) -> list[str]:
    return [line.text for line in reach_lines(report(*args, **ends))]  # type: ignore[arg-type]  # arguments of report()


def test_the_matrix_has_a_letter_for_each_cell_and_below_it_what_is_neither_all_nor_none() -> None:
    shown = lines(two_clusters(CLOSED))
    assert shown[0].startswith("Who reaches which destination")
    row = next(text for text in shown if text.startswith("  c1/shop"))
    assert row.split() == ["c1/shop", "A", "s", "A", "A", "A"]
    assert "  shop in c1 (ReplicaSet web) -> shop in c2 (ReplicaSet db): TCP 5432 allowed (CiliumNetworkPolicy shop/db in c2)" in shown
    assert not any("-> shop in c1" in text and "allowed" in text for text in shown if text.startswith("  shop in"))
    assert shown[-1].startswith("3 workloads; pairs: ")


def test_a_plan_that_changes_nothing_says_so_and_without_a_plan_nothing_is_said() -> None:
    assert "The plan changes nothing of this." in lines(two_clusters(CLOSED), two_clusters(CLOSED))
    assert not any("plan" in text for text in lines(two_clusters(CLOSED)))
    changed = lines(two_clusters(), two_clusters(CLOSED))
    assert any(text.startswith("  lost    shop in c1 (ReplicaSet cron) -> ") and text.endswith("; now allowed") for text in changed)


def test_hundreds_of_namespaces_are_cut_and_counted() -> None:
    names = [f"ns{number:03}" for number in range(100)]
    crowded = traffic(
        "c1", namespaces=[namespace_facts(name) for name in names], pods=tuple(pod("web-0", namespace=n, app="web") for n in names)
    )
    shown = lines(scene(crowded))
    assert len(shown) < 3 * COLUMNS_SHOWN
    every = len(report(scene(crowded)).matrix.rows) ** 2
    assert f"  and {every - COLUMNS_SHOWN**2} more cells; a file has all of them" in shown


def test_files_have_every_flow_and_the_matrix() -> None:
    found = report(two_clusters(), two_clusters(CLOSED))
    rows = list(csv.DictReader(io.StringIO(flows_csv(found).decode())))
    assert {row["change"] for row in rows} == {"", "lost"}
    (row,) = [r for r in rows if r["change"] and r["source_workloads"] == "ReplicaSet cron"]
    assert (row["before"], row["verdict"], row["ports"]) == ("allowed", "denied", "all ports")
    assert row["policies"] == "CiliumNetworkPolicy shop/db in c2"

    closed = report(two_clusters(CLOSED))
    (head, *body) = csv.reader(io.StringIO(matrix_csv(closed, Grain.WORKLOAD).decode()))
    cells = {line[0]: dict(zip(head, line, strict=True)) for line in body}
    assert cells["c1/shop/ReplicaSet web"]["c2/shop/ReplicaSet db"] == "TCP 5432"
    assert cells["c1/shop/ReplicaSet cron"]["c2/shop/ReplicaSet db"] == "none"
    (head, *body) = csv.reader(io.StringIO(matrix_csv(closed, Grain.NAMESPACE).decode()))
    assert {line[0]: dict(zip(head, line, strict=True)) for line in body}["c1/shop"]["c2/shop"] == "1 of 2 pairs: TCP 5432"

    data = json.loads(reach_json(closed))
    covered = {(source, flow["destination"]) for flow in data["flows"] for source in flow["sources"]}
    assert covered == {(one["number"], other["number"]) for one in data["sets"] for other in data["sets"]}
    assert data["leftOut"] == {"matrix": 0, "flows": False, "outsiders": 0, "changes": 0}


def test_denied_flows_are_listed_where_the_question_names_an_end() -> None:
    everything = csv.DictReader(io.StringIO(flows_csv(report(two_clusters(CLOSED))).decode()))
    assert "denied" not in {row["verdict"] for row in everything}
    named = csv.DictReader(io.StringIO(flows_csv(report(two_clusters(CLOSED), destination={"cluster": "c2"})).decode()))
    assert "denied" in {row["verdict"] for row in named}
