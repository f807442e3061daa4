# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab's hubble filters as Hubble does, and refuses what Hubble refuses. Skipped where it is not built yet."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.flows import parse_flows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.hubble import observe_command
from tests.lab.patience import scaled
from tests.lab.tools.provide import Tools, at_hand
from tests.testing.facts_builders import cluster_facts
from tests.testing.flow_builders import BACKEND, flow, side
from tests.testing.probe_world import intent

SINCE = datetime(2026, 8, 20, 9, 58, tzinfo=UTC)
SELECT = ["--from-label", "k8s:app=frontend,k8s:io.cilium.k8s.policy.cluster=c1", "--to-label", "k8s:app=backend"]


@pytest.fixture(scope="module")
def program() -> Path:
    tools = Tools(at_hand(("lab-hubble",), print))
    if "lab-hubble" not in tools:
        pytest.skip("not built yet: lab-hubble (python -m tests.lab.tools build)")
    return tools["lab-hubble"]


def ask(program: Path, folder: Path, lines: list[str] | None, arguments: list[str], node: str = "c2-node1") -> tuple[int, list[str], str]:
    file = folder / "flows.jsonl"
    if lines is not None:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    env = {**os.environ, "LAB_HUBBLE_FLOWS": str(file), "LAB_NODE_NAME": node}
    found = subprocess.run([program, *arguments], env=env, capture_output=True, text=True, timeout=scaled(20), check=False)
    return found.returncode, found.stdout.splitlines(), found.stderr


def observed(program: Path, folder: Path, lines: list[str], *more: str, node: str = "c2-node1") -> list[int]:
    """Which of the lines are answered."""
    code, found, trouble = ask(program, folder, lines, ["observe", "-o", "jsonpb", "--last", "50", *more], node)
    assert code == 0, trouble
    return [lines.index(line) for line in found]


def test_the_command_of_a_probe_is_one_that_it_takes(program: Path, tmp_path: Path) -> None:
    facts = cluster_facts("c2", config={"enable-hubble": "true"})
    command = observe_command(intent(), facts, sources=["c1"], destination="c2", since=SINCE, last=10)
    code, found, trouble = ask(program, tmp_path, [flow(), flow(port=9090)], command[1:])
    assert (code, len(found)) == (0, 1), trouble
    assert parse_flows(found[0], limit=100_000).flows[0].delivered


def test_filters(program: Path, tmp_path: Path) -> None:
    lines = [
        flow(),
        flow(time="2026-08-20T09:00:00Z"),
        flow(source=side("c3", "frontend-1", app="frontend")),
        flow(destination={**BACKEND, "labels": ["k8s:app=other"]}),
        flow("DROPPED", kind="drop"),
        flow(kind="policy-verdict", port=9090),
        flow(trace_observation_point="TO_OVERLAY", event_type={"type": 4, "sub_type": 4}),
        flow(node="c2/other"),
        flow(node_name=None, node="c2/c2-node1"),
    ]
    assert observed(program, tmp_path, lines) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert observed(program, tmp_path, lines, "--since", "2026-08-20T09:30:00Z") == [0, 2, 3, 4, 5, 6, 8]
    assert observed(program, tmp_path, lines, *SELECT) == [0, 1, 4, 5, 6, 8]
    assert observed(program, tmp_path, lines, *SELECT, "--from-label", "k8s:io.cilium.k8s.policy.cluster=c3") == [0, 1, 2, 4, 5, 6, 8]
    assert observed(program, tmp_path, lines, "--type", "drop", "--type", "policy-verdict") == [4, 5]
    assert observed(program, tmp_path, lines, "--type", "trace:to-endpoint", "--to-port", "8080") == [0, 1, 2, 3, 8]
    assert observed(program, tmp_path, lines, "--last", "2") == [6, 8]
    assert observed(program, tmp_path, lines, node="other") == [7, 8]


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["observe", "-o", "compact"],
        ["observe", "-o", "jsonpb", "--such-an-option", "1"],
        ["observe", "-o", "jsonpb", "--since", "soon"],
        ["observe", "-o", "jsonpb", "--type", "nonsense"],
        ["observe", "-o", "jsonpb", "stray"],
    ],
)
def test_what_hubble_refuses(program: Path, tmp_path: Path, arguments: list[str]) -> None:
    code, found, trouble = ask(program, tmp_path, [flow()], arguments)
    assert (code, found) == (1, []) and trouble


def test_without_flows_no_server_answers(program: Path, tmp_path: Path) -> None:
    code, found, trouble = ask(program, tmp_path, None, ["observe", "-o", "jsonpb", "--server", "unix:///var/run/cilium/hubble.sock"])
    assert (code, found) == (1, []) and "dial unix /var/run/cilium/hubble.sock: no such file or directory" in trouble
