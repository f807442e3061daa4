# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.operator``: how soon the operator does what a resource says, how soon it is quiet after a restart, and what it
costs while nothing changes; and how long hundreds of FleetWorkloads take. More than half an hour, on real clusters; docs/benchmark.md says
how."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.__main__ import add_fleet_arguments, say
from tests.bench.table import Target, targets_text
from tests.collection_path import CHECKOUT, link

PARTS = ("latency", "scale", "fleet", "workloads")


def main() -> None:
    link()
    sys.path.insert(0, str(CHECKOUT / "operator"))
    from tests.bench import operator_fleet, operator_latency, operator_scale, operator_workloads
    from tests.bench.operator_world import open_bench

    parser = argparse.ArgumentParser(prog="python -m tests.bench.operator", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="this part alone")
    parser.add_argument("--meshes", type=int, default=operator_scale.MESHES, help="meshes of the part scale (default 20)")
    parser.add_argument("--window", type=float, default=operator_scale.WINDOW, help="seconds in which nothing changes (default 300)")
    size = operator_workloads.Size()
    parser.add_argument("--workloads", type=int, default=size.workloads, help="FleetWorkloads of the part workloads (default 200)")
    parser.add_argument("--clusters", type=int, default=size.clusters, help="clusters of the part workloads (default 5)")
    parser.add_argument("--rounds", type=int, default=size.rounds, help="rounds of the part workloads (default 3)")
    add_fleet_arguments(parser, size.services)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    promised: list[Target] = []
    if options.only in (None, "latency"):  # with a lab of its own: servers of further clusters would share the processors
        with tempfile.TemporaryDirectory() as folder, open_bench(Path(folder), 1, say) as bench:
            found = figures["latency"] = operator_latency.measure(bench, say)
        promised += operator_latency.targets(found)
        print(operator_latency.as_text(found), "", sep="\n", flush=True)
    if options.only in (None, "scale"):
        with tempfile.TemporaryDirectory() as folder, open_bench(Path(folder), options.meshes, say) as bench:
            found = figures["scale"] = operator_scale.measure(bench, say, options.window)
        promised += operator_scale.targets(found)
        print(operator_scale.as_text(found), "", sep="\n", flush=True)
    if options.only in (None, "fleet"):
        with tempfile.TemporaryDirectory() as folder:
            fleet = figures["fleet"] = operator_fleet.measure(Path(folder), say)
        promised += operator_fleet.targets(fleet)
        print(operator_fleet.as_text(fleet), "", sep="\n", flush=True)
    for pace in (options.pace or [size.pace]) if options.only in (None, "workloads") else ():
        size = operator_workloads.Size(
            workloads=options.workloads, clusters=options.clusters, rounds=options.rounds, services=options.services, pace=pace
        )
        with tempfile.TemporaryDirectory() as folder:
            many = figures[f"workloads, pace {pace}"] = operator_workloads.measure(Path(folder), size, say)
        promised += operator_workloads.targets(many)
        print(operator_workloads.as_text(many), "", sep="\n", flush=True)
    print(targets_text(promised))
    if options.json:
        figures["targets"] = [{**vars(target), "met": target.met} for target in promised]
        options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
