# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What was checked and passed, in a sentence."""

from __future__ import annotations

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.wording import finding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.passed import passed_sentence


def test_checks_with_a_finding_have_not_passed_and_of_silent_clusters_nothing_is_said() -> None:
    codes = ["CM-EP-01", "CM-EP-02", "CM-VER-01"]
    met = [finding("CM-EP-02", cluster="c1", summary="No address"), finding("CM-API-01", cluster="c2", summary="Silent")]
    assert passed_sentence(codes, met, ["c1"]) == "2 of 3 checks of c1 passed: Versions of Cilium 1, Mesh endpoints 1 of 2"
    assert passed_sentence(codes, (), ["c1", "c2"]) == "All 3 checks of c1 and c2 passed: Versions of Cilium 1, Mesh endpoints 2"
    assert passed_sentence(codes, met, []) == "" == passed_sentence([], met, ["c1"])


def test_every_check_has_a_subject() -> None:
    assert passed_sentence(registered(), (), ["c1"]).startswith(f"All {len(registered())} checks of c1 passed: ")
