# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reach against Cilium 1.20.2's own policy engine, whose verdicts on 80 random worlds were recorded (test_recorded_verdicts.py)."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, PodMeta
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.workload_index import WorkloadIndex
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.outside import regions_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.reach import Reach
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.workload_set import SetKind, workload_sets
from tests.testing.facts_builders import cluster_facts
from tests.testing.policy_worlds import policy_facts
from tests.testing.traffic_builders import namespace_facts, scene, traffic
from tests.unit.policies.test_recorded_verdicts import LETTERS, RECORDED, SETTINGS


def outcomes(recorded: Mapping[str, Any]) -> Iterator[tuple[PolicyOutcome, PolicyOutcome, str]]:
    """(What the engine said of both directions, what reach says, the query) for every query between ends that reach has."""
    config = {key: str(recorded[name]).lower() for name, key in SETTINGS.items() if name in recorded}
    ends: list[dict[str, Any]] = recorded["endpoints"]
    hosts = recorded["clusters"]
    policies = {host: tuple(map(policy_facts, recorded["policies"].get(host, ()))) for host in hosts}
    observed = scene(
        *(traffic(host, namespaces=namespaces(host, ends), pods=pods(host, ends), policies=policies[host]) for host in hosts),
        facts={host: cluster_facts(host, version="1.20.2", config={**config, "enable-ipv6": "true"}) for host in hosts},
    )
    found = Reach.of(workload_sets(WorkloadIndex(observed)))
    numbers = {place: number_of(found, place, end) for place, end in enumerate(ends)}
    for (source, destination, protocol, port), egress, ingress in zip(
        recorded["queries"], recorded["egress"], recorded["ingress"], strict=True
    ):
        one, other = numbers[source], numbers[destination]
        if one is None or other is None or port == 0:
            continue
        both = {LETTERS[egress], LETTERS[ingress]}
        engine = next((outcome for outcome in (PolicyOutcome.DENIED, PolicyOutcome.UNKNOWN) if outcome in both), PolicyOutcome.ALLOWED)
        (cell,) = [cell for cell in found.cells[other] if cell.sources >> one & 1]
        (said,) = [outcome for outcome, ports in cell.ports.each() if ports.covers(protocol.upper(), port)]
        yield engine, said, f"{ends[source]} -> {ends[destination]} {protocol} {port}"


def namespaces(host: str, ends: list[dict[str, Any]]) -> list[ObjectFacts]:
    labels = {end["namespace"]: end.get("namespaceLabels") or {} for end in ends if end.get("cluster") == host and end["kind"] == "pod"}
    return [ObjectFacts(**{**vars(namespace_facts(name)), "labels": of_it}) for name, of_it in labels.items()]


def pods(host: str, ends: list[dict[str, Any]]) -> tuple[PodMeta, ...]:
    return tuple(
        PodMeta(namespace=end["namespace"], name=f"pod-{place}", labels=end["labels"])
        for place, end in enumerate(ends)
        if end["kind"] == "pod" and end["cluster"] == host
    )


def number_of(found: Reach, place: int, end: Mapping[str, Any]) -> int | None:
    """The set that an end of a query belongs to; None for the host, which has no row."""
    sets = found.sets
    if end["kind"] == "pod":
        group = next(g for g in sets.index.groups if g.host == end["cluster"] and any(pod.name == f"pod-{place}" for pod in g.pods))
        return sets.sets_of_group[group.number].bit_length() - 1
    if end["kind"] == "remote-node":
        return next(entry.number for entry in sets if entry.kind is SetKind.NODES and entry.host == end["cluster"])
    if end["kind"] == "world":
        rules = [rule for view in sets.index.world.clusters.values() for rule in view.rules]
        regions = zip(regions_of(rules, (4, 6)), (entry for entry in sets if entry.kind is SetKind.WORLD), strict=True)
        address = ipaddress.ip_address(end["address"])
        holding = [(region.network.prefixlen, entry.number) for region, entry in regions if region.network and address in region.network]
        return max(holding)[1]
    return None


@pytest.mark.slow
def test_no_flow_of_a_reach_contradicts_the_engine_of_cilium() -> None:
    with RECORDED.open(encoding="utf-8") as lines:
        rows = [row for line in lines for row in outcomes(json.loads(line))]
    said = Counter(ours for _engine, ours, _text in rows)
    assert said[PolicyOutcome.ALLOWED] > 8000 and said[PolicyOutcome.DENIED] > 3000, said
    assert said[PolicyOutcome.UNKNOWN] < len(rows) / 5, said
    assert [text for engine, ours, text in rows if ours not in (engine, PolicyOutcome.UNKNOWN)] == []
