# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is said about a failover contract: how long Cilium keeps the dead, who may still be sent there, and which promise cannot be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import GlobalService, ServiceSelector
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.failover_findings import (
    cache_ttl,
    failover_findings,
    go_duration,
)
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import one_test
from tests.testing.texts import mentions
from tests.testing.traffic_builders import NAMESPACE
from tests.unit.services.failover_worlds import item, world

OVER = {"cilium-mesh.edge-portal.eu/failed-over": "true"}


def found(wanted: GlobalService, scene: Scene) -> dict[str, Finding]:
    findings = failover_findings(wanted, scene)
    codes = [finding.code for finding in findings]
    assert len(codes) == len(set(codes)), codes
    assert all(finding.item == "globalServices/nginx" for finding in findings)
    assert all(code.startswith("CM-GS-3") for code in codes)
    return {finding.code: finding for finding in findings}


def with_ttl(host: str, value: str | None, *, version: str = "1.19.5", argument: str | None = None, **options: Any) -> ClusterFacts:
    """A cluster with that value of clustermesh-cache-ttl in cilium-config, and perhaps an argument of kvstoremesh."""
    facts = cluster_facts(host, version=version, **options)
    config = {**(facts.config or {}), **({} if value is None else {"clustermesh-cache-ttl": value})}
    apiserver = facts.apiserver
    if argument is not None and apiserver is not None:
        given = ("kvstoremesh", f"--clustermesh-cache-ttl={argument}")
        apiserver = replace(apiserver, arguments={**apiserver.arguments, "kvstoremesh": given})
    return replace(facts, config=config, apiserver=apiserver)


@one_test(
    "text seconds",
    *(
        [("0", 0), ("0s", 0), ("15m", 900), ("1m30s", 90), ("1.5h", 5400), ("500ms", 0.5), ("+90s", 90), ("1h0m0s", 3600)]
        + [(text, None) for text in ("", "90", "-5s", "m", "1d", "1 m", "5s;", "1e3s", ".s")]
    ),
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float | None) -> None:
    assert go_duration(text) == seconds


def test_with_kvstoremesh_its_own_argument_counts_and_else_cilium_config() -> None:
    assert cache_ttl(with_ttl("c1", "60s", argument="15m")).seconds == 900
    assert 'container kvstoremesh: --clustermesh-cache-ttl="15m"' in cache_ttl(with_ttl("c1", "60s", argument="15m")).evidence
    assert cache_ttl(with_ttl("c1", "60s")).seconds == 60
    alone = cache_ttl(with_ttl("c1", "60s", argument="15m", kvstoremesh=False))
    assert (alone.seconds, alone.evidence) == (60, 'ConfigMap kube-system/cilium-config: clustermesh-cache-ttl = "60s"')
    assert cache_ttl(with_ttl("c1", None)).seconds == 0


@one_test(
    "value detect text",
    (None, 60, "keeps its backends for ever"),
    ("0s", 60, "keeps its backends for ever"),
    ("nonsense", 60, "keeps its backends for ever"),
    ("15m", 60, "keeps its backends for 900 s"),
    ("61s", 30, "keeps its backends for 61 s"),
    ("60s", 60, ""),
    ("60s", 30, ""),  # shorter than 60 s would drop healthy peers when clustermesh-apiserver is rolled out
    ("15m", 900, ""),
)
def test_backends_of_the_dead_that_stay_too_long_are_reported_with_the_helm_value(value: str | None, detect: int, text: str) -> None:
    here = world({"c1": 3, "c2": 3}, facts={"c1": with_ttl("c1", value), "c2": with_ttl("c2", "30s")})
    finding = found(item("c1", "c2", detect=detect), here).get("CM-GS-30")
    assert bool(finding) == bool(text)
    if finding:
        assert finding.severity is Severity.REMEDIABLE
        assert text in finding.summary and (finding.cluster, finding.others) == ("c1", ())
        assert f"--set clustermesh.cacheTTL={max(detect, 60)}s" in finding.fix and "daemonset/cilium" in finding.fix


def test_the_helm_value_makes_the_finding_go_away() -> None:
    fixed = world({"c1": 3, "c2": 3}, facts={host: with_ttl(host, "60s", argument="60s") for host in ("c1", "c2")})
    assert "CM-GS-30" not in found(item("c1", "c2", detect=45), fixed)


def test_before_1_19_it_is_said_that_there_is_no_such_setting() -> None:
    here = world({"c1": 3, "c2": 3}, version="1.18.11", facts={"c2": with_ttl("c2", "60s")})
    findings = found(item("c1", "c2"), here)
    assert set(findings) == {"CM-GS-31"}
    assert (findings["CM-GS-31"].severity, findings["CM-GS-31"].cluster) == (Severity.ADVISORY, "c1")
    assert found(item("c1"), world({"c1": 3}, version="1.18.11")) == {}, "a Service of one cluster has no peers"


def test_a_dead_cluster_is_named_with_what_is_lost_and_whose_clients_still_go_there() -> None:
    here = world({"c1": 3, "c2": 0}, members=("c3",), dead=frozenset({"c3"}), facts={h: with_ttl(h, "90s") for h in ("c1", "c2")})
    finding = found(item("c1", "c2", "c3", detect=90), here)["CM-GS-32"]
    assert mentions(finding.summary, f"{NAMESPACE}/nginx", "c3", "unknown number of backends", "clients of c2")
    assert mentions(finding.evidence, "c1: 90 s", "c2: 90 s")
    assert (finding.cluster, finding.severity) == ("c3", Severity.REMEDIABLE)
    assert "--limit '!c3'" in finding.fix


def test_a_peer_that_answers_and_has_no_working_link_is_reported_with_its_backends_and_the_reason() -> None:
    here = world({"c1": 3, "c2": 1}, version="1.18.11", link_errors={("c1", "c2"): "dialling: connection refused"})
    finding = found(item("c1", "c2"), here)["CM-GS-32"]
    assert (finding.cluster, finding.severity) == ("c2", Severity.REMEDIABLE)
    assert mentions(finding.summary, "c2", "c1", "1 backend", "clients of c1")
    assert mentions(finding.evidence, "c1 -> c2: dialling: connection refused", "c1: never")


def test_hostile_texts_are_printable() -> None:
    here = world({"c1": 3, "c2": 1}, link_errors={("c1", "c2"): "refused\x1b[31m\nALL IS WELL"})
    assert found(item("c1", "c2"), here)["CM-GS-32"].evidence.isprintable()


@pytest.mark.parametrize(("detect", "reported"), [(1, True), (19, True), (20, False), (60, False)])
def test_a_promise_shorter_than_two_observations_is_reported(detect: int, reported: bool) -> None:
    finding = found(item("c1", detect=detect), world({"c1": 3})).get("CM-GS-33")
    assert bool(finding) == reported
    if finding:
        assert "up to 100 s old" in finding.evidence and finding.severity is Severity.ADVISORY


def test_a_cluster_that_can_never_come_back_is_reported() -> None:
    wanted = item("c1", "c2", least=2, hysteresis=2)
    stuck = world({"c1": 3, "c2": 5}, marks={"c1": OVER})
    finding = found(wanted, stuck)["CM-GS-34"]
    assert "c1: 3 of 3 endpoints ready, back at 4" in finding.evidence and finding.cluster == "c1"
    assert "hysteresis to 1 at most" in finding.fix
    assert "CM-GS-34" not in found(wanted, world({"c1": 3, "c2": 5}, unready={"c1": 1}, marks={"c1": OVER})), "one more is on its way"
    assert "CM-GS-34" not in found(wanted, world({"c1": 3, "c2": 5})), "it has not failed over"
    assert "CM-GS-34" not in found(wanted, world({"c1": 1, "c2": 5}, marks={"c1": OVER})), "it has fewer than it needs anyway"


def test_it_is_reported_when_no_cluster_has_enough() -> None:
    finding = found(item("c1", "c2"), world({"c1": 1, "c2": 0}, unready={"c2": 2}))["CM-GS-35"]
    assert finding.severity is Severity.REMEDIABLE
    assert finding.evidence == "c1: 1 of 1 endpoints ready; c2: 0 of 2 endpoints ready"
    assert "CM-GS-35" not in found(item("c1", "c2"), world({"c1": 1, "c2": 2}))


def test_who_has_failed_over_is_reported_with_the_reason() -> None:
    finding = found(item("c1", "c2"), world({"c1": 1, "c2": 2}))["CM-GS-36"]
    assert (finding.severity, finding.cluster) == (Severity.ADVISORY, "c1")
    assert finding.summary == f"Service {NAMESPACE}/nginx: c1 has failed over"
    assert finding.evidence == "c1: 1 ready, fewer than 2; others are served by c2"
    assert "3 ready endpoints" in finding.fix
    assert "CM-GS-36" not in found(item("c1", "c2"), world({"c1": 2, "c2": 2}))


def test_targets_without_the_service_have_not_failed_over() -> None:
    here = world({"c1": 3, "c2": 3})
    without = replace(here, traffic={**here.traffic, "c2": replace(here.traffic["c2"], services={}, slices=())})
    assert not {"CM-GS-34", "CM-GS-35", "CM-GS-36"} & set(found(item("c1", "c2"), without))


def test_services_by_labels_are_reported_one_by_one() -> None:
    wanted = replace(item("c1", "c2"), selector=ServiceSelector(namespace=NAMESPACE, labels={"app": "nginx"}))
    assert "CM-GS-35" in found(wanted, world({"c1": 1, "c2": 0}))
    unmatched = replace(wanted, selector=ServiceSelector(namespace=NAMESPACE, labels={"app": "other"}))
    assert "CM-GS-35" not in found(unmatched, world({"c1": 1, "c2": 0}))


def test_without_a_contract_nothing_is_said() -> None:
    assert failover_findings(item("c1", "c2", failover=None), world({"c1": 0, "c2": 0})) == []
