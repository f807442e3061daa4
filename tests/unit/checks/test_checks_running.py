# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Running the checks: for which purpose, in what order, over clusters that did not answer or that lie."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import timedelta

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import RemoteUsersFacts, ServiceFacts
from tests.testing.facts_builders import (
    NOW,
    agent_workload,
    apiserver_workload,
    cluster_facts,
    context_of,
    failure,
    key_facts,
    peer_secret,
)
from tests.testing.rows import one_test

BROKEN = cluster_facts(
    "c1",
    config={"cluster-id": "0", "cluster-name": None, "cluster-pool-ipv4-cidr": "10.0.0.0/8"},
    service=None,
    users=RemoteUsersFacts(present=True, problem="not YAML"),
    kvstoremesh=True,
)


def test_a_cluster_that_did_not_answer_blocks_a_connect_under_the_code_of_its_failure() -> None:
    findings = run_checks(context_of(cluster_facts("c1"), failures=[failure("c2", "CM-API-03", "list secrets: 403", "Extend the role.")]))
    assert [(f.code, f.cluster, f.blocks, f.summary, f.fix) for f in findings] == [
        ("CM-API-03", "c2", True, "list secrets: 403", "Extend the role.")
    ]


def test_a_dead_cluster_does_not_stop_a_disconnect() -> None:
    findings = run_checks(context_of(cluster_facts("c1"), failures=[failure("c2")]), "disconnect")
    assert [(f.code, f.severity) for f in findings] == [("CM-API-01", Severity.REMEDIABLE)]


def test_a_disconnect_without_any_cluster_that_answers_is_refused() -> None:
    findings = run_checks(context_of(failures=[failure("c1"), failure("c2")]), "disconnect")
    assert [(f.code, f.cluster, f.blocks) for f in findings] == [("CM-API-01", "c1", True), ("CM-API-01", "c2", True)]


def test_a_mistake_in_the_inventory_stops_a_disconnect_too() -> None:
    findings = run_checks(context_of(cluster_facts("c1"), failures=[failure("c2", "CM-INPUT-01")]), "disconnect")
    assert [f.blocks for f in findings] == [True]


def test_a_disconnect_checks_only_what_could_spoil_it() -> None:
    foreign = replace(BROKEN, kvstoremesh=peer_secret("cilium-kvstoremesh", {"c2": key_facts("x", managers=["helm"])}))
    findings = run_checks(context_of(foreign, cluster_facts("c2")), "disconnect")
    assert [(f.code, f.severity) for f in findings] == [("CM-USER-02", Severity.BLOCKING), ("CM-OWN-02", Severity.ADVISORY)]


def test_blocking_findings_come_first() -> None:
    expiring = cluster_facts("c2", config={"cluster-pool-ipv4-cidr": "10.0.0.0/8"})
    assert expiring.server_cert.certificate is not None
    soon = replace(expiring.server_cert.certificate, not_after=NOW + timedelta(days=9))
    findings = run_checks(context_of(BROKEN, replace(expiring, server_cert=replace(expiring.server_cert, certificate=soon))))
    blocking = {"CM-CIDR-02", "CM-EP-01", "CM-ID-01", "CM-ID-03", "CM-USER-02"}
    assert ({f.code for f in findings[:-1]}, findings[-1].code) == (blocking, "CM-CERT-04"), "its code alone would make it the first"
    assert [f.blocks for f in findings] == [True] * 5 + [False]


def test_what_the_user_accepts_no_longer_blocks_but_is_still_reported() -> None:
    pools = [cluster_facts(h, config={"cluster-pool-ipv4-cidr": "10.0.0.0/8"}) for h in ("c1", "c2")]
    (finding,) = run_checks(context_of(*pools, accept=["CM-CIDR-02"]))
    assert (finding.code, finding.accepted, finding.blocks) == ("CM-CIDR-02", True, False)


def test_what_cannot_be_accepted_goes_on_blocking() -> None:
    findings = run_checks(context_of(BROKEN, cluster_facts("c2"), accept=["CM-ID-03"]))
    assert [f.blocks for f in findings if f.code == "CM-ID-03"] == [True]


def test_one_cause_is_one_finding_where_the_mesh_is_off() -> None:
    off = replace(
        cluster_facts("c1"),
        apiserver=None,
        service=None,
        apiserver_pods=(),
        server_cert=cluster_facts("c1").server_cert.__class__(name="x"),
    )
    assert [f.code for f in run_checks(context_of(off, cluster_facts("c2")))] == ["CM-INST-02"]


def test_one_cause_is_one_finding_where_cilium_is_not_installed() -> None:
    none = replace(cluster_facts("c1"), config=None, agent=None, apiserver=None, service=None, agent_pods=(), apiserver_pods=())
    assert [f.code for f in run_checks(context_of(none, cluster_facts("c2")))] == ["CM-INST-01"]


def test_one_cause_is_one_finding_where_two_hosts_are_one_cluster() -> None:
    same = replace(cluster_facts("c1"), host="c2")
    assert [f.code for f in run_checks(context_of(cluster_facts("c1"), same))] == ["CM-MESH-01"]


def test_many_clusters_with_the_default_pool_are_one_finding() -> None:
    clusters = [cluster_facts(f"c{i}", config={"cluster-pool-ipv4-cidr": "10.0.0.0/8"}) for i in range(1, 31)]
    (finding,) = run_checks(context_of(*clusters))
    assert finding.code == "CM-CIDR-02"
    assert finding.summary.startswith("The pod address pools of clusters c1, c10,")
    assert "and 22 more" in finding.summary
    assert "chart's defaults" in finding.evidence


@one_test("poison", "\x1b[31mred", "a\nb", "$(reboot)", "';reboot;'", "\u202e", "x" * 5000)
def test_text_of_a_hostile_cluster_stays_on_one_line_and_out_of_the_shell(poison: str) -> None:
    hostile = cluster_facts(
        "c1",
        config={"cluster-name": poison, "cluster-id": poison, "identity-allocation-mode": poison, "ipam": poison, "routing-mode": poison},
        agent=agent_workload("x", containers={"cilium-agent": poison}, ready=0),
        apiserver=apiserver_workload("x", containers={"apiserver": poison}, ready=0),
        service=ServiceFacts(type=poison, ingress_hostnames=(poison,)),
        users=RemoteUsersFacts(present=True, problem=poison),
        clustermesh=peer_secret("cilium-clustermesh", {poison: key_facts("x", managers=[poison])}),
    )
    findings = run_checks(context_of(hostile, cluster_facts("c2", config={"cluster-name": poison})))
    assert findings
    for finding in findings:
        for text in (finding.summary, finding.evidence):
            assert text.isprintable(), finding.code
            assert len(text) < 2500
        for line in finding.fix.splitlines():
            assert line.isprintable(), finding.code
            if line.startswith(("kubectl ", "helm ", "cmctl ")):
                assert shlex.join(shlex.split(line)) == line, finding.code


def test_a_large_healthy_mesh_is_checked_without_findings() -> None:
    clusters = [cluster_facts(f"c{i}", version="1.20.0") for i in range(1, 61)]
    clusters = [replace(c, service=ServiceFacts(type="LoadBalancer", ingress_ips=(f"192.0.2.{i}",))) for i, c in enumerate(clusters)]
    assert run_checks(context_of(*clusters)) == ()
