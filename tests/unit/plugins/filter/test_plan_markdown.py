# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Filter plan_markdown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.plan_markdown import FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links

filter_plan = FilterModule().filters()["plan_markdown"]


def steps_in(text: str) -> list[tuple[str, ...]]:
    """Wave, cluster and verb of each row of the table of steps."""
    return re.findall(r"(?m)^\| (\d+) \| (\w+) \| (\w+) \| ", text)


def test_a_plan_and_a_mesh_result_render_the_same_steps() -> None:
    plan = plan_links(mesh_of("c1", "c2"), {h: cluster_facts(h) for h in ("c1", "c2")}, PlanOptions(), NOW).to_dict()
    whole = filter_plan(plan, title="Berlin")
    published = filter_plan({"plan": {"hash": plan["hash"], "steps": plan["steps"]}})  # what mesh_result holds
    wanted = [(str(step["wave"]), step["cluster"], step["verb"]) for step in plan["steps"]]
    assert wanted and steps_in(whole) == steps_in(published) == wanted
    assert [text.splitlines()[0] for text in (whole, published)] == ["## Berlin", "## Cluster mesh plan"]
    assert plan["hash"] in whole and plan["hash"] in published


@pytest.mark.parametrize("value", [None, "text", {}, {"hash": "x"}, {"hash": "x", "steps": [{"wave": 1}]}])
def test_what_is_no_plan_is_refused(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="not a plan"):
        filter_plan(value)
