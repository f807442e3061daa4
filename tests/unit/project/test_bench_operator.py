# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator's benchmark tells, from figures that were measured."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

import pytest

from tests.bench import fleet, operator_latency, operator_scale, operator_workloads
from tests.bench.__main__ import add_fleet_arguments
from tests.bench.fleet_lab import workload_spec
from tests.bench.operator_cost import Meter
from tests.testing.crd_schema import misfits, schemas

# After a first line of input its child burns a tenth of a second of CPU time, and holds 50 MB until a second one.
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import time\\ninput()\\nheld = bytearray(50_000_000)\\n"
    "while time.process_time() < 0.1: pass\\nprint('burnt', flush=True)\\ninput()"], check=True)
"""


def row(what: str, resources: int, seconds: float, cpu: float, peak: float) -> dict[str, Any]:
    figures = {"what": what, "resources": resources, "seconds": seconds, "cpu": cpu, "peak": peak, "own": peak}
    return {**figures, "reconciles": 20, "runs": 0}


def test_cpu_time_and_memory_of_children_count_while_they_run() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        with Meter(parent.pid) as meter:
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "burnt\n"
            while meter.peak < 50_000_000:
                assert parent.poll() is None
        assert meter.cpu >= 0.08  # the kernel counts it in ticks of a hundredth
        assert 0 < meter.own_peak < 50_000_000 <= meter.peak
        parent.communicate("\n")
        assert parent.returncode == 0


def test_half_of_the_resources_may_take_longer_than_the_target() -> None:
    found = {operator_latency.WRITTEN: [1.0, 2.0, 2.9, 9.0, 9.5], operator_latency.TOLD: [2.0, 3.0, 4.0, 10.0, 11.0]}
    (target,) = operator_latency.targets(found)
    assert (target.value, target.met) == (2.9, True)
    table = operator_latency.as_text(found).splitlines()
    assert table[0].startswith("one resource at a time, 5 of them")
    assert table[1].split()[-3:] == ["2.90", "9.40", "9.50"]


def test_what_nothing_costs_is_reported_as_part_of_a_core() -> None:
    rows = [row("restart to quiet", 500, 61.0, 9.0, 100e6), row("nothing changes", 1000, 300.0, 60.0, 251e6)]
    restart, core, memory = operator_scale.targets({"meshes": 20, "rows": rows})
    assert [restart.value, core.value, memory.value] == [61.0, 20.0, 251.0]
    assert [restart.met, core.met, memory.met] == [False, True, False]
    assert "251" in operator_scale.as_text({"meshes": 20, "rows": rows}).splitlines()[2]


def workloads(**size: Any) -> dict[str, Any]:
    parts = {title: [100.0, 179.0, 400.0] for title in operator_workloads.PARTS} | {operator_workloads.CHECK: [1.0, 5.5, 6.0]}
    counted = {"turns": [30.0, 31.0, 40.0], "runs": [20.0, 21.0, 30.0], "dry runs": [30.0, 31.0, 40.0], "runs s": [80.0, 90.0, 100.0]}
    cost = {"dry runs s": [30.0, 32.0, 40.0], operator_workloads.CPU: [60.0, 61.0, 62.0], operator_workloads.PEAK: [2e8, 3e8, 4e8]}
    return {"parts": parts, "operator": counted | cost, "load": [0.1, 4.25], "size": vars(operator_workloads.Size(**size))}


def test_half_of_the_rounds_may_take_longer_and_each_target_says_for_how_many_and_by_which_pace() -> None:
    settled, check = operator_workloads.targets(workloads())
    assert (settled.value, settled.met, check.value, check.met) == (179.0, True, 5.5, False)
    assert settled.title == "operator: 200 FleetWorkloads settled in 5 clusters by pace wide, p50 s"
    (slow, _) = operator_workloads.targets(workloads(workloads=20, clusters=2, pace="default"))
    assert slow.title == "operator: 20 FleetWorkloads settled in 2 clusters by pace default, p50 s"


def test_the_table_of_many_workloads_says_whose_the_time_is() -> None:
    lines = operator_workloads.as_text(workloads()).splitlines()
    assert lines[0].startswith("200 FleetWorkloads, a Deployment and Service each, in 5 clusters, Karmada's pace wide")
    (settled,) = (line for line in lines if line.startswith(operator_workloads.SETTLED))
    assert settled.split()[-3:] == ["100.00", "179.00", "400.00"]
    assert "31 turns, 21 runs of 90.0 s in all, 31 dry runs of 32.0 s in all; CPU 61.0 s, peak of all its processes 400 MB" in lines[-2]
    assert "a Deployment each" in operator_workloads.as_text(workloads(services=False))


@pytest.mark.parametrize("services", [True, False])
def test_the_workload_that_is_measured_is_one_that_is_accepted(services: bool) -> None:
    spec = workload_spec(service=services)
    assert misfits(spec, schemas("fleet")["FleetWorkload"]["properties"]["spec"]) == []
    assert ("service" in spec) is services


@pytest.mark.parametrize(
    ("given", "services", "paces"),
    [([], True, None), (["--no-services"], False, None), (["--pace", "wide", "--pace", "default"], True, ["wide", "default"])],
)
def test_by_default_the_benchmarks_of_fleets_have_a_service_beside_each_deployment(
    given: list[str], services: bool, paces: list[str] | None
) -> None:
    assert fleet.Size().services and operator_workloads.Size().services
    parser = argparse.ArgumentParser()
    add_fleet_arguments(parser, fleet.Size().services)
    options = parser.parse_args(given)
    assert (options.services, options.pace) == (services, paces)
