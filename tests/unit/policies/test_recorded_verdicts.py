# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The evaluator against Cilium 1.20.2's own policy engine, whose verdicts were recorded.

``recorded/policy-verdicts-cilium-1.20.2.jsonl`` holds 80 random worlds of two clusters, one per line, with one letter per query and
direction: a (allowed), d (denied), m (more than addresses and ports decides, such as authentication). The judge was ``pkg/policy``
of v1.20.2: policies parsed, distilled for each endpoint, and looked up in its map.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import (
    EndpointKind,
    FirstPacket,
    PolicyEndpoint,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome, verdict
from tests.testing.policy_worlds import policy_facts, world

RECORDED = Path(__file__).parent / "recorded" / "policy-verdicts-cilium-1.20.2.jsonl"
LETTERS = {"a": PolicyOutcome.ALLOWED, "d": PolicyOutcome.DENIED, "m": PolicyOutcome.UNKNOWN}
SETTINGS = {
    "mode": "enable-policy",
    "localByDefault": "policy-default-local-cluster",
    "nonDefaultDeny": "enable-non-default-deny-policies",
    "allowLocalhost": "allow-localhost",
}

Row = tuple[str, PolicyOutcome, PolicyOutcome, str]
"""(Direction, what the engine said, what the evaluator says, the query as text)."""


def endpoint(given: Mapping[str, Any]) -> PolicyEndpoint:
    named = given.get("namedPorts")
    return PolicyEndpoint(
        kind=EndpointKind(given["kind"]),
        cluster=given.get("cluster", ""),
        namespace=given.get("namespace", ""),
        labels=given.get("labels", {}),
        namespace_labels=given.get("namespaceLabels"),
        service_account=given.get("serviceAccount"),
        named_ports=None if named is None else {name: (port["protocol"], port["port"]) for name, port in named.items()},
        address=given.get("address", ""),
    )


def replayed(number: int, recorded: Mapping[str, Any]) -> Iterator[Row]:
    config = {key: str(recorded[name]).lower() for name, key in SETTINGS.items() if name in recorded}
    policies = {host: [policy_facts(body) for body in bodies] for host, bodies in recorded["policies"].items()}
    policy_world = world(policies, version="1.20.2", config=config, clusters=recorded["clusters"])
    ends = [endpoint(given) for given in recorded["endpoints"]]
    for query, egress, ingress in zip(recorded["queries"], recorded["egress"], recorded["ingress"], strict=True):
        source, destination, protocol, port = query
        found = verdict(policy_world, FirstPacket(source=ends[source], destination=ends[destination], protocol=protocol, port=port))
        for direction, letter, decision in (("egress", egress, found.egress), ("ingress", ingress, found.ingress)):
            yield direction, LETTERS[letter], decision.outcome, f"world {number}, {query}: {direction} {decision.shown}"


def worlds(step: int = 1) -> list[Row]:
    with RECORDED.open(encoding="utf-8") as lines:
        return [row for number, line in enumerate(lines) if number % step == 0 for row in replayed(number, json.loads(line))]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return worlds()


def contradictions(rows: list[Row]) -> list[str]:
    return [text for _direction, engine, ours, text in rows if ours not in (engine, PolicyOutcome.UNKNOWN)]


def test_no_verdict_of_every_eighth_world_contradicts_the_engine_of_cilium() -> None:
    some = worlds(8)
    assert len({engine for _direction, engine, _ours, _text in some}) > 1
    assert contradictions(some) == []


@pytest.mark.slow
def test_no_verdict_contradicts_the_engine_of_cilium(rows: list[Row]) -> None:
    assert Counter(engine for _direction, engine, _ours, _text in rows) == {
        PolicyOutcome.ALLOWED: 41510,
        PolicyOutcome.DENIED: 9784,
        PolicyOutcome.UNKNOWN: 42,
    }
    assert contradictions(rows) == []


@pytest.mark.slow
def test_what_the_engine_decides_is_hardly_ever_unknown_here(rows: list[Row]) -> None:
    """What is left: named ports of pods that only the node knows, and which node runs the API server."""
    doubtful = [text for _direction, engine, ours, text in rows if ours is PolicyOutcome.UNKNOWN is not engine]

    assert len(doubtful) <= 70, doubtful[:10]
