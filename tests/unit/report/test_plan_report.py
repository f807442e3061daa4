# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan as text, JSON and Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.plan import plan_json, plan_markdown, plan_rows, plan_text
from tests.testing.facts_builders import NOW, agent_workload, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.rows import one_test


def plan_of(version: str, hosts: int = 2, **overrides: Any) -> dict[str, Any]:
    names = [f"c{n}" for n in range(1, hosts + 1)]
    facts = {name: cluster_facts(name, version=version, **overrides) for name in names}
    return plan_links(mesh_of(*names), facts, PlanOptions(), NOW).to_dict()


def test_every_step_stands_in_the_text_with_its_reason_and_each_undo_once() -> None:
    plan = plan_of("1.20.0")
    rows = plan_rows(plan)
    assert rows[0].text == f"Plan: {len(plan['steps'])} steps, hash {plan['hash'][:12]}"
    steps = [row.text for row in rows if row.step]
    assert len(steps) == len(plan["steps"])
    assert all(step["why"] in text for text, step in zip(steps, plan["steps"], strict=True))
    undo = [row.text for row in rows if row.text.startswith("  undo: ")]
    assert len(undo) == len({step["undo"] for step in plan["steps"]} - {""})
    assert any(text.endswith("(c1, c2)") for text in undo)
    assert plan_text(plan) == "".join(f"{row.text}\n" for row in rows)


@pytest.mark.parametrize(
    ("kvstoremesh", "restart"),
    [(True, "rolling restart of Deployment clustermesh-apiserver (1 pod)"), (False, "rolling restart of DaemonSet cilium (40 pods)")],
)
def test_before_1_20_the_text_says_which_workload_restarts_and_how_many_pods(kvstoremesh: bool, restart: str) -> None:
    text = plan_text(plan_of("1.18.11", kvstoremesh=kvstoremesh, agent=agent_workload("1.18.11", nodes=40)))
    assert f"disruption: {restart}" in text
    assert "rolling restart" not in plan_text(plan_of("1.20.0"))


def test_of_many_links_some_are_shown_and_the_rest_counted() -> None:
    plan = plan_of("1.20.0", hosts=6)
    links = [row.text for row in plan_rows(plan) if row.text.startswith("  link ")]
    assert len(links) == 20
    assert "  and 10 more links" in plan_text(plan).splitlines()
    assert "and 10 more links" in plan_markdown(plan)
    assert len(json.loads(plan_json(plan))["links"]) == 30


def test_json_is_the_whole_plan_and_equal_for_equal_plans() -> None:
    plan = plan_of("1.20.0")
    assert json.loads(plan_json(plan)) == plan
    assert plan_json(plan) == plan_json(dict(reversed(list(plan.items()))))


def test_markdown_holds_a_row_per_step_and_the_whole_hash() -> None:
    plan = plan_of("1.18.11")
    text = plan_markdown(plan, title="Mesh of Berlin")
    assert text.startswith("## Mesh of Berlin\n")
    assert plan["hash"] in text
    table = text.split("| --- | --- | --- | --- | --- |\n", 1)[1].split("\n\n", 1)[0].splitlines()
    assert len(table) == len(plan["steps"])
    assert all(row.count(" | ") == 4 for row in table)


def test_nothing_to_do_is_said_with_the_hash() -> None:
    plan: dict[str, Any] = {"hash": "ab" * 32, "steps": []}
    assert plan_text(plan) == "Plan: nothing to do, hash abababababab\n"
    assert f"Nothing to do. Hash `{'ab' * 32}`" in plan_markdown(plan)


def test_names_are_asked_for_only_where_an_option_takes_them() -> None:
    """approve_refused is for items of a mesh. A plan of clusters or workloads of a fleet is approved by its hash."""
    plan: dict[str, Any] = {"hash": "ab" * 32, "steps": []}
    items = plan_text({**plan, "notCarriedOut": ["globalServices/web"]})
    assert "approve_refused: [globalServices/web]" in items and "do, hash" not in items
    for left_out in ("fleetWorkloads/web", "clusters/ffm"):
        of_fleet = {**plan, "notCarriedOut": [left_out]}
        assert plan_text(of_fleet) == f"Plan: nothing to do, hash abababababab\n  not carried out, because refused or waiting: {left_out}\n"
        assert f"Hash `{'ab' * 32}`" in plan_markdown(of_fleet) and "approve_refused" not in plan_markdown(of_fleet)


@one_test("left_out", (), ("globalServices/web",), ("clusters/ffm",))
def test_half_of_a_plan_asks_for_no_approval(left_out: tuple[str, ...]) -> None:
    """Where a finding blocks the links, the plan of the items has no hash."""
    plan: dict[str, Any] = {"hash": "", "steps": [], "notCarriedOut": left_out}
    for said in (plan_text(plan), plan_markdown(plan)):
        assert "hash" not in said.lower() and "approve" not in said and all(item in said for item in left_out)


def test_no_text_of_a_cluster_becomes_markup_or_another_line() -> None:
    plan = plan_of("1.20.0")
    hostile = "x | y `z` <img src=a onerror=b> [l](http://h) @team\n# forged \x1b[2J"
    plan["steps"][0] = {**plan["steps"][0], "why": hostile, "cluster": hostile, "object": hostile}
    text = plan_markdown(plan, title=hostile)
    for bad in ("<img", "`z`", " | y", "](http", "\x1b", "\n# forged", "http://"):
        assert bad not in text
    assert len(plan_text(plan).splitlines()) == len(plan_text(plan_of("1.20.0")).splitlines())
    assert "\x1b" not in plan_text(plan)


def test_the_hash_covers_options_and_is_the_same_in_any_order_of_a_section() -> None:
    names = ("c1", "c2")
    facts = {name: cluster_facts(name, version="1.20.0") for name in names}
    plan = plan_links(mesh_of(*names), facts, PlanOptions(), NOW)
    same = replace(plan, relied_on={host: dict(reversed(list(plan.relied_on[host].items()))) for host in reversed(names)})
    assert same.hash == plan.hash
    assert replace(plan, options={"trust": "minted"}).hash != plan.hash


def test_a_bare_host_of_the_web_is_no_link_in_markdown() -> None:
    text = plan_markdown({"hash": "ab" * 32, "steps": []}, title="see www.example.com and https://example.com")
    assert "www." not in text and "://" not in text


def test_the_hash_of_links_and_items_stays_whole_in_markdown() -> None:
    digest = f"{'ab' * 32}.{'cd' * 32}"
    assert f"`{digest}`" in plan_markdown({"hash": digest, "steps": []})
