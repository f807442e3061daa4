# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a person reads in the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.connect import disconnected_sentence
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import failure_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.sentences import verdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.fitted import Line
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.report import (
    brief_lines,
    findings_lines,
    plan_lines,
    status_lines,
)
from tests.testing.facts_builders import NOW, cluster_facts, failure, link_facts, mesh_of, not_ready, reader_facts
from tests.testing.link_plans import plan_links
from tests.testing.texts import mentions

C1, C2 = cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0")
FACTS = {"c1": C1, "c2": C2}
MESH = mesh_of("c1", "c2")


def texts(lines: Iterable[Line]) -> list[str]:
    return [line.text for line in lines]


def finding(**fields: object) -> Finding:
    return Finding(**{"code": "CM-CIDR-01", "severity": Severity.BLOCKING, "cluster": "c1", "summary": "Pod networks overlap", **fields})  # type: ignore[arg-type]  # fields of a finding by their names


def test_findings_are_counted_by_severity_and_each_has_its_fix() -> None:
    advisory = finding(code="CM-VER-02", severity=Severity.ADVISORY, cluster="", summary="Versions differ")
    lines = findings_lines([finding(peer="c2", evidence="10.1.0.0/24 in both", fix="helm upgrade\n--set a=b"), advisory])
    assert texts(lines) == [
        "Findings: 1 blocking, 1 advisory",
        "  blocking  CM-CIDR-01  c1 -> c2  Pod networks overlap",
        "      read: 10.1.0.0/24 in both",
        "      fix: helm upgrade",
        "           --set a=b",
        "  advisory  CM-VER-02   mesh      Versions differ",
    ]
    assert [line.colour for line in lines] == ["", "red", "", "", "", "cyan"]


def test_what_was_read_and_the_fix_are_shown_whole_and_a_command_stays_on_its_line() -> None:
    evidence = "; ".join(f"c{n} 10.{n}.0.0/16 (cluster-pool-ipv4-cidr)" for n in range(44))[:2000]
    command = "kubectl patch secret " + " ".join(f"key-{n}" for n in range(250))
    assert len(evidence) > 1500 and len(command) > 1500
    assert texts(findings_lines([finding(evidence=evidence, fix=f"Do:\n{command}")]))[2:] == [
        f"      read: {evidence}",
        "      fix: Do:",
        f"           {command}",
    ]


def test_an_accepted_finding_is_distinguished_from_one_that_blocks() -> None:
    assert texts(findings_lines([finding(accepted=True)]))[:1] == ["Findings: 1 accepted"]


def test_no_findings_are_no_lines() -> None:
    assert findings_lines([]) == []


def test_a_heading_says_that_one_more_finding_stands_elsewhere() -> None:
    which = "beside CM-A-01 at the end"
    for lines in (findings_lines([finding()], which=which), brief_lines([finding()], which=which)):
        assert texts(lines)[0] == "Findings beside CM-A-01 at the end: 1 blocking"


def test_text_of_others_cannot_drive_the_terminal_or_forge_lines() -> None:
    (_, line) = texts(findings_lines([finding(cluster="c1\x1b[2J\nforged", summary="a\x1b[31mb\r\nforged\u202e")]))
    assert line == "  blocking  CM-CIDR-01  c1[2J forged  a[31mb forged"


def test_a_plan_names_links_and_steps_in_order_and_each_disruption_once() -> None:
    plan = plan_links(MESH, FACTS, PlanOptions(), NOW).to_dict()
    lines = texts(plan_lines(plan))
    assert mentions(lines[0], f"{len(plan['steps'])} steps", plan["hash"][:12])
    assert any(mentions(line, "c1 -> c2", "https://c2.mesh.cilium.io:2379", "minted") for line in lines)
    steps = [line for line in lines if line.startswith("  wave ")]
    leases, rest = steps[0], steps[1:]
    assert mentions(leases, "c1, c2", "create", "record the leases"), "what is the same in two clusters shares a line"
    others = [step for step in plan["steps"] if step["verb"] != "create"]
    assert [mentions(line, step["cluster"], step["verb"]) for line, step in zip(rest, others, strict=True)] == [True] * len(others)
    assert "  sum: 2 create, 6 change; in c1 4, c2 4" in lines and "  disruption: none" in lines
    assert not any("undo:" in line for line in lines) and any("undo:" in line for line in texts(plan_lines(plan, whole=True)))


def test_an_empty_plan_says_so() -> None:
    assert texts(plan_lines({"hash": "", "steps": []})) == ["Plan: nothing to do"]


def test_a_connected_mesh_ends_in_its_verdict() -> None:
    readers = {"c1": reader_facts("c1", ["c2"]), "c2": reader_facts("c2", ["c1"])}
    status = build_status(MESH, FACTS, {}, readers, now=NOW)
    lines = status_lines("edge-mesh-eu", status)
    assert lines[-1] == Line("edge-mesh-eu: Connected (2/2 clusters, 2/2 links ready)", "green")
    assert verdict("edge-mesh-eu", status) == lines[-1].text


def test_a_link_that_is_not_ready_shows_its_stage_and_the_last_error() -> None:
    late = not_ready(link_facts("c1", "c2"), connected=False, error="dial tcp 192.0.2.2:2379: connection refused", stage_hint="dialling")
    readers = {"c1": reader_facts("c1", ["c2"], links=(late,)), "c2": reader_facts("c2", ["c1"])}
    status = build_status(MESH, FACTS, {}, readers, now=NOW)
    lines = texts(status_lines("edge-mesh-eu", status))
    assert any("c1 -> c2" in line and "dialling" in line for line in lines)
    assert "      error: dial tcp 192.0.2.2:2379: connection refused" in lines


def test_with_v_each_link_shows_what_of_the_peer_has_arrived_if_that_is_known() -> None:
    counts = {"nodes": 3, "services": 2, "endpoints": 41, "identities": 17}
    counted = reader_facts("c1", ["c2"])
    counted = replace(counted, links=tuple(replace(link, arrived=counts) for link in counted.links))
    status = build_status(MESH, FACTS, {}, {"c1": counted, "c2": reader_facts("c2", ["c1"])}, now=NOW)
    whole = texts(status_lines("m", status, whole=True))
    place = next(number for number, line in enumerate(whole) if "c1 -> c2" in line)
    assert whole[place + 1] == "      has: 3 nodes, 2 services, 41 endpoints, 17 identities"
    assert [line for line in whole if "has:" in line] == [whole[place + 1]]
    assert not any("has:" in line for line in texts(status_lines("m", status)))


def test_of_many_links_only_those_behind_are_shown_and_the_clusters_count_the_rest() -> None:
    hosts = [f"c{n}" for n in range(1, 51)]
    readers = {host: reader_facts(host, [peer for peer in hosts if peer != host]) for host in hosts}
    late = tuple(not_ready(link) if link.peer == "c9" else link for link in readers["c7"].links)
    readers["c7"] = reader_facts("c7", [], links=late)
    status = build_status(mesh_of(*hosts), {host: cluster_facts(host) for host in hosts}, {}, readers, now=NOW)
    lines = texts(status_lines("edge-mesh-eu", status))
    assert len(lines) < 60
    assert [line.split()[-1] for line in lines if line.startswith(("  c7  ", "  c8  "))] == ["48/49", "49/49"]
    assert len([line for line in lines if " -> " in line]) == 1 and any("c7 -> c9" in line for line in lines)
    assert lines[-1] == "edge-mesh-eu: Degraded (49/50 clusters, 2449/2450 links ready)"
    nothing = texts(status_lines("edge-mesh-eu", build_status(mesh_of(*hosts), {}, {}, {}, now=NOW)))
    assert nothing[-2] == "  and 2430 more links not ready: 2430 unknown"


HUB = ["hub", *(f"s{n}" for n in range(1, 201))]
SPOKES = Topology(mode=Mode.HUB_AND_SPOKE, hubs=("hub",))


def hub_status(down: Collection[str], silent: Collection[str]) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """The status of a hub with 200 spokes, and its findings: links to some are down, others do not answer."""
    mesh = mesh_of(*HUB, topology=SPOKES)
    facts = {host: cluster_facts(host) for host in HUB if host not in silent}
    readers = {}
    for host in facts:
        reader = reader_facts(host, mesh.peers(host))
        readers[host] = replace(
            reader, links=tuple(not_ready(x, error="refused") if {host, x.peer} & set(down) else x for x in reader.links)
        )
    failures = {host: failure(host) for host in silent}
    return build_status(mesh, facts, failures, readers, now=NOW), failure_findings(failures.values(), Severity.BLOCKING)


@pytest.mark.parametrize(("down", "silent"), [((), ()), (HUB[1:], ()), ((), HUB), (HUB[1:90], HUB[90:])])
def test_of_a_hub_with_200_peers_what_is_wrong_comes_first_and_the_rest_in_sums(down: Collection[str], silent: Collection[str]) -> None:
    status, findings = hub_status(down, silent)
    lines = texts([*brief_lines(findings), *status_lines("m", status)])
    assert len(lines) <= 80, "with what Ansible prints around them at most 100"
    assert lines[-1] == verdict("m", status)
    rest = next(line for line in lines if "more cluster" in line or "clusters:" in line)
    assert "nodes ready" in rest and "-v shows each" in rest
    assert all("connected" in line or "no" in line.split() for line in lines if line.startswith("  s") and "->" not in line)
    if silent:
        assert any(line.startswith("  and ") and "more findings" in line for line in lines)
    whole = texts(status_lines("m", status, whole=True))
    assert all(any(line.split()[:3] == [link["cluster"], "->", link["peer"]] for line in whole) for link in status["links"])
    assert {line.split()[0] for line in whole if "->" not in line} >= set(HUB)


def test_the_links_that_are_furthest_behind_come_first() -> None:
    status, _ = hub_status(HUB[1:3], HUB[150:])
    stages = [line.split()[3] for line in texts(status_lines("m", status)) if " -> " in line]
    assert stages == ["dialling"] * 4 + ["unknown"] * 11


def test_of_many_steps_those_alike_share_a_line() -> None:
    facts = {f"c{n}": cluster_facts(f"c{n}") for n in range(1, 51)}
    plan = plan_links(mesh_of(*facts), facts, PlanOptions(), NOW).to_dict()
    lines = texts(plan_lines(plan))
    assert len(plan["steps"]) > 100 and len(lines) < 60
    leases, *agents = [line for line in lines if " more  create  " in line or "Secret kube-system/cilium-clustermesh" in line]
    assert leases.startswith("  wave 0  c1, c2, c3 and 47 more  create  ")
    assert [line.split("  apply")[0].strip() for line in agents][-1] == "wave 2  c6, c7, c8 and 42 more", "their reasons are equal"


def test_a_disconnect_names_the_clusters_it_could_not_reach() -> None:
    assert disconnected_sentence("edge", ("c1", "c2"), ()).text == "edge: disconnected (2/2 clusters)"
    assert (
        disconnected_sentence("edge", ("c1", "c2"), ("c2",)).text
        == "edge: disconnected (1/2 clusters); not observed, and left as it was: c2"
    )
