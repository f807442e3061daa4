# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which clusters could be meshed, and which could be meshed now."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, NodeFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.eligibility import Eligibility, ObservationState, eligibility
from tests.collection_path import CHECKOUT
from tests.testing.facts_builders import cluster_facts, context_of, failure
from tests.testing.rows import one_test

C1, C2, C3 = (cluster_facts(f"c{n}") for n in (1, 2, 3))
SOUND = Eligibility(eligible=True, ready=True)


def judged(context: CheckContext) -> dict[str, Eligibility]:
    hosts = context.mesh.clusters
    return eligibility(run_checks(context), hosts, observed=context.facts, asked=hosts)


def at(host: str, ip: str) -> ClusterFacts:
    return replace(cluster_facts(host), nodes=(NodeFacts(name="n", ready=True, internal_ips=(ip,), mesh_ips=(ip,)),))


def test_healthy_clusters_are_eligible_and_ready() -> None:
    assert judged(context_of(C1, C2, C3)) == {"c1": SOUND, "c2": SOUND, "c3": SOUND}


def test_what_a_value_and_a_restart_cure_leaves_a_cluster_eligible() -> None:
    unset = cluster_facts("c1", config={"cluster-id": "0"})
    rows = judged(context_of(unset, C2))
    assert (rows["c1"].eligible, rows["c1"].ready, rows["c1"].blocking) == (True, False, ("CM-ID-03",))
    assert rows["c2"] == SOUND


def test_what_takes_a_new_cluster_makes_it_not_eligible() -> None:
    bare = replace(C1, config=None, agent=None, apiserver=None, service=None, agent_pods=(), apiserver_pods=())
    rows = judged(context_of(bare, C2))
    assert (rows["c1"].eligible, rows["c1"].ready) == (False, False) and rows["c2"].eligible


def test_a_clash_of_several_clusters_counts_for_each_of_them_and_for_no_other() -> None:
    rows = judged(context_of(at("c1", "172.16.9.9"), at("c2", "172.16.9.9"), at("c3", "172.16.9.9"), cluster_facts("c4")))
    assert [rows[host].eligible for host in ("c1", "c2", "c3", "c4")] == [False, False, False, True]
    assert rows["c3"].blocking == ("CM-NODE-01",) and rows["c4"] == SOUND


def test_what_the_user_accepts_does_not_count() -> None:
    pools = [cluster_facts(h, config={"cluster-pool-ipv4-cidr": "10.0.0.0/8"}) for h in ("c1", "c2")]
    assert not judged(context_of(*pools))["c1"].ready
    assert judged(context_of(*pools, accept=["CM-CIDR-02"])) == {"c1": SOUND, "c2": SOUND}


def test_nothing_is_claimed_of_a_cluster_that_did_not_answer() -> None:
    rows = judged(context_of(C1, failures=[failure("c2", "CM-API-03")]))
    refused = Eligibility(eligible=False, ready=False, answer=ObservationState.REFUSED, blocking=("CM-API-03",))
    assert rows["c2"] == refused and rows["c1"] == SOUND


@one_test("error", ClusterError, *ClusterError.__subclasses__())
def test_a_cluster_that_answers_is_not_called_unreached(error: type[ClusterError]) -> None:
    """401, 403, 409 and 422 are answers, also to a cluster of which nothing else is known."""
    row = judged(context_of(C1, failures=[failure("c2", error.code)]))["c2"]
    refused = dict.fromkeys(("CM-API-03", "CM-API-04", "CM-API-05"), ObservationState.REFUSED)
    answers = {"CM-API-02": ObservationState.CREDENTIALS_INVALID, **refused}
    assert row.answer is answers.get(error.code, ObservationState.NOT_REACHED)
    assert (row.eligible, row.ready) == (False, False)


@pytest.mark.parametrize("severity", list(Severity))
def test_a_cluster_that_was_not_reached_is_never_eligible_however_grave_that_is_for_the_run(severity: Severity) -> None:
    silent = Finding(code="CM-API-01", severity=severity, cluster="c2", summary="x")
    row = eligibility([silent], ["c1", "c2"], observed=["c1"], asked=["c1", "c2"])["c2"]
    assert (row.eligible, row.ready, row.answer) == (False, False, ObservationState.NOT_REACHED)


def test_nothing_is_said_of_a_cluster_that_was_not_asked() -> None:
    row = eligibility([], ["c1", "c2"], observed=["c1"], asked=["c1"])["c2"]
    assert (row.eligible, row.ready, row.answer) == (False, False, ObservationState.NOT_ASKED)


def test_remedies_are_counted_and_do_not_stop_anything() -> None:
    weak = replace(
        C1, apiserver=replace(C1.apiserver, ready=0) if C1.apiserver else None, nodes=tuple(replace(n, ready=False) for n in C1.nodes)
    )
    row = judged(context_of(weak, C2))["c1"]
    assert (row.eligible, row.ready, row.remedies) == (True, True, 2)


@pytest.mark.parametrize("host", ["c1", "c2"])
def test_a_finding_without_a_cluster_counts_for_all(host: str) -> None:
    finding = Finding(code="CM-INPUT-01", severity=Severity.BLOCKING, summary="x")
    both = ["c1", "c2"]
    assert eligibility([finding], both, observed=both, asked=both)[host] == Eligibility(
        eligible=True, ready=False, blocking=("CM-INPUT-01",)
    )


def test_a_row_is_shown_as_the_documentation_shows_it() -> None:
    (shown,) = re.findall(r"^c1: (\{eligible.*\})$", (CHECKOUT / "docs" / "verify.md").read_text(encoding="utf-8"), re.MULTILINE)
    unset = cluster_facts("c1", config={"cluster-id": "0"})
    row = judged(context_of(replace(unset, nodes=tuple(replace(node, ready=False) for node in unset.nodes)), C2))["c1"].to_dict()
    assert list(row.items()) == list(yaml.safe_load(shown).items())
