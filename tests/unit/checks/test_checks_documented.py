# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/verify.md says what the code does: the requests, the rights, the cures."""

from __future__ import annotations

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Cure, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import further_reads, other_reads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.sizes import COUNTED
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.circumstances import names_in
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.rules import RULES
from tests.lab.options import LabOptions
from tests.testing.code_table import DOCUMENT
from tests.testing.profile_facts import answers_of


def test_the_number_of_requests_is_the_documented_one() -> None:
    requests = 1 + len(other_reads("kube-system", "leases"))
    assert f"{requests + len(COUNTED)} requests per cluster" in DOCUMENT.read_text(encoding="utf-8")
    assert 1 + len(other_reads("kube-system")) == requests - 1 < 20


@pytest.mark.parametrize("version", ["1.16", "1.18", "1.20"])
def test_a_usual_cluster_needs_no_further_request(version: str) -> None:
    (cluster, *_others) = LabOptions(cilium=version).cluster_options()
    answers, reads = answers_of(cluster, None), other_reads("kube-system")
    found = {name: answers[reads[name].path] for name in ("config", "agent", "apiserver")}
    assert further_reads("kube-system", found) == {}


def test_every_optional_read_has_its_finding_and_its_rule() -> None:
    found = {"config": {"data": {"enable-ipsec": "true", "ipam": "multi-pool"}}, "agent": None}
    reads = other_reads("kube-system") | further_reads("kube-system", found)
    named = {path.rpartition("/")[2] for path in (read.path for read in reads.values() if read.optional)} - {"version"}
    assert named == {"cilium-ca", "deployments", "cilium-ipsec-keys", "ciliumpodippools"}
    optional = {name.format_map(names_in(None)) for rule in RULES if rule.lost for name in (rule.names or rule.resources)}
    assert named <= optional and "cilium-root-ca.crt" in optional


def test_only_what_blocks_can_make_a_cluster_ineligible() -> None:
    assert {c.severity for c in registered().values() if c.cure is Cure.REINSTALL} == {Severity.BLOCKING}
