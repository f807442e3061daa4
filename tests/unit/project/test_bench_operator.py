# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator's benchmark tells, from figures that were measured."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.bench import operator_latency, operator_scale
from tests.bench.operator_cost import Meter

# When it is told to, its child burns a tenth of a second of CPU time, and holds 50 MB until it is told to end.
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
