# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pages that list playbooks list all that they are about: a new playbook, or a new option of one, fails here until the page says so."""

from __future__ import annotations

import re

from tests.collection_path import CHECKOUT

PLAYBOOKS = {path.stem for path in (CHECKOUT / "playbooks").glob("*.yml")}


def page(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def with_variable(variable: str) -> set[str]:
    """The playbooks that read a variable, by the table of docs/variables.md, which a test of its own holds."""
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.*)$", page("docs/variables.md"))
    return {name for name, cells in rows if name in PLAYBOOKS and f"`{variable}`" in cells}


def named(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text)) & PLAYBOOKS


def test_fail_on_changes_works_with_the_playbooks_that_the_page_says() -> None:
    sentence = page("docs/exit-statuses.md").partition("The variable works with every playbook")[2].partition("\n\n")[0]
    assert {"kcp_setup", "label_clusters", "plan", "fleet_status"} == named(sentence)
    of_fleets = {"fleet", "fleet_clusters", "fleet_rollout", "fleet_status"}
    assert with_variable("cilium_mesh_fail_on_changes") == with_variable("cilium_mesh_lock_timeout") | {"plan"} | of_fleets


def test_every_playbook_of_a_mesh_says_what_a_limit_means_for_it() -> None:
    table = page("docs/topologies.md").partition("\n## Limit\n")[2].partition("\nTo remove a site")[0]
    of_no_mesh = {"kcp_setup", "label_clusters", "fleet", "fleet_clusters", "fleet_rollout", "fleet_status"}
    assert {name for first in re.findall(r"(?m)^\| (`[^|]+) \|", table) for name in named(first)} == PLAYBOOKS - of_no_mesh


def test_every_playbook_leaves_its_result_and_a_report_where_a_variable_says() -> None:
    assert with_variable("cilium_mesh_result_file") == with_variable("cilium_mesh_junit_file") == PLAYBOOKS


def test_pages_name_the_playbooks_that_read_a_variable() -> None:
    row = re.search(r"(?m)^\| `cilium_mesh_proof` \(playbooks ([^)]*)\)", page("docs/dead-peers.md"))
    assert row is not None and named(row[1]) == with_variable("cilium_mesh_proof")
    sentence = re.search(r"`cilium_mesh_previous_status` of ([^;]*?), `mesh_connect_previous_status`", page("docs/results.md"))
    assert sentence is not None and named(sentence[1]) == with_variable("cilium_mesh_previous_status")
    metrics = page("docs/metrics.md").partition("Without the operator, the playbooks")[2].partition("write theirs")[0]
    assert named(metrics) == with_variable("cilium_mesh_metrics_file")


def test_every_playbook_has_its_rights() -> None:
    table = page("docs/rbac.md").partition("\n## Rights by playbook\n")[2].partition("\n## ")[0]
    assert {name for first in re.findall(r"(?m)^\| (`[^|]+) \|", table) for name in named(first)} == PLAYBOOKS


def test_the_playbooks_that_take_the_lock_are_those_of_the_page() -> None:
    first = page("docs/locking.md").partition("takes the lock of that mesh first:")[2].partition("All other playbooks")[0]
    assert named(first) == with_variable("cilium_mesh_lock_timeout")
