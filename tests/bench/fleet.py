# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Workloads of a fleet on a real Karmada: one at a time into two clusters, and 200 over five clusters, beside the same objects sent bare.

All servers share the machine's processors with what is measured: Karmada's six and three of each cluster. So what a run takes is compared
with what Karmada and the clusters alone take for the same objects in the same minutes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.bench import fleet_run
from tests.bench.child import measured
from tests.bench.fleet_lab import FleetLab, Watched
from tests.bench.fleet_run import HOST
from tests.bench.table import Target, columns
from tests.demo.play import Desk, Run
from tests.lab.lab import Lab
from tests.lab.options import LabOptions
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.waiting import wait_for

CILIUM: Final = "1.20"
CLUSTERS, PAIR, WORKLOADS, ONE_BY_ONE, CHECKS = 5, 2, 200, 15, 5
NODES: Final = 3  # of a cluster: each takes 110 pods
FEW: Final = (10, 40)  # workloads whose requests are counted
READY_SECONDS, SETTLED_SECONDS, NO_OP_SECONDS = 4.0, 180.0, 5.0
WRITES: Final = 5.0  # of a workload: revision, policy, Deployment, Service, and the end of the rollout in the policy
WAIT: Final = 1800  # seconds that a run may wait, on a machine that has much else to do

EMPTY, TEMPLATE, READY, ENDED = "empty play", "until Karmada has the template", "until ready in both clusters", "until the run has ended"
KARMADAS, COLD = "of that, from the template until ready", "in a process of its own, until ready in both"
BARE: Final = "the same objects bare, until ready"
CREATED, CHECK, AGAIN, AWAY = "created, until all are ready", "check, nothing to do", "second run", "removed, until gone"

Say = Callable[[str], None]
_EMPTY: Final = [{"hosts": "all", "gather_facts": False, "tasks": []}]
_PAUSE: Final = 1.0  # seconds between two runs that do not wait


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured. ``pace``: of Karmada, one of `tests.lab.options.KARMADA_PACES`."""

    workloads: int = WORKLOADS
    rounds: int = 3
    services: bool = True  # a Service beside each Deployment, which makes twice as many copies
    pace: str = "wide"  # by its own defaults Karmada sends 40 requests a second, and each copy takes eight


def measure(size: Size, say: Say) -> dict[str, Any]:
    """Lists of seconds by what was measured, and counts of requests."""
    load = [os.getloadavg()[0]]
    say(f"fleet: a lab of {CLUSTERS} clusters and a Karmada with pace {size.pace}")
    options = LabOptions(name="bench-fleet", clusters=CLUSTERS, nodes=NODES, cilium=CILIUM, karmada=True, karmada_pace=size.pace)
    with Lab(options) as lab, tempfile.TemporaryDirectory() as folder:
        fleet = FleetLab(lab, Path(folder))
        alone = _one_by_one(fleet, say)
        load.append(os.getloadavg()[0])
        counts = {count: _counts(fleet, count, say) for count in FEW}
        many, engine = _many(fleet, size, say, load)
    return {"alone": alone, "counts": counts, "many": many, "engine": engine, "load": load, "size": vars(size)}


def targets(found: dict[str, Any]) -> list[Target]:
    """What the project promises."""
    alone, many, counts, number = found["alone"], found["many"], found["counts"], found["size"]["workloads"]
    few, more = FEW
    return [
        Target(f"fleet: a workload ready in {PAIR} clusters, p50 s of a warm run", median(alone[READY]), READY_SECONDS),
        Target(
            f"fleet: {number} workloads ready in {CLUSTERS} clusters by pace {found['size']['pace']}, p50 s",
            _wall(many[CREATED]),
            SETTLED_SECONDS,
        ),
        Target(f"fleet: check of {number} workloads, nothing to do, p50 s", _wall(many[CHECK]), NO_OP_SECONDS),
        Target(f"fleet: reads of a check that {more} workloads need more than {few}", counts[more]["reads"] - counts[few]["reads"], 0),
        Target("fleet: writes of a workload from its creation to its end", counts[more]["writes"] / more, WRITES),
    ]


def as_text(found: dict[str, Any]) -> str:
    """The tables for people."""
    alone, many, engine, size = found["alone"], found["many"], found["engine"], found["size"]
    head = (f"one workload at a time, {len(alone[READY])} of them, in {PAIR} clusters", "min s", "median s", "max s", "to bare")
    body = [(title, *_spread(row), f"{median(row) / median(alone[BARE]):.2f}x") for title, row in alone.items()]
    lines = [columns([head, *body]), ""]
    what = "Deployment and Service" if size["services"] else "Deployment"
    head = (f"{size['workloads']} workloads, a {what} each, in {CLUSTERS} clusters", "min s", "median s", "max s", "to bare")
    rows = []
    for title, runs in many.items():
        cost = (
            (f"{median(run['cpu'] for run in runs):.1f}", f"{max(run['peak'] for run in runs) / 1e6:.0f}") if "cpu" in runs[0] else ("", "")
        )
        rows.append((title, *_spread([run["wall"] for run in runs]), f"{_wall(runs) / _wall(many[BARE]):.2f}x", *cost))
    lines.append(columns([(*head, "CPU s", "peak MB"), *rows]))
    parts = ", ".join(f"{name} {phase['wall']:.2f} s" for name, phase in engine["phases"].items())
    lines.append(f"one round by the engine alone: {parts}; {engine['reads']} reads; statuses of {engine['bytes'] / 1e6:.1f} MB")
    for count, requests in found["counts"].items():
        lines.append(f"requests for {count} workloads: {requests['reads']} reads of a check, {requests['writes']} writes of a creation")
    loads = ", ".join(f"{load:.1f}" for load in found["load"])
    lines.append(
        f"{os.cpu_count()} processors; load average before, then after each part and round: {loads}; Karmada's pace: {size['pace']}"
    )
    return "\n".join(lines)


def _wall(runs: Sequence[Mapping[str, float]]) -> float:
    return median(run["wall"] for run in runs)


def _spread(row: Sequence[float]) -> tuple[str, str, str]:
    return f"{min(row):.2f}", f"{median(row):.2f}", f"{max(row):.2f}"


def _one_by_one(fleet: FleetLab, say: Say) -> dict[str, list[float]]:
    """One workload more with each run, and in turns with it the same objects bare, and an empty play."""

    def variable(*names: str) -> dict[str, Any]:
        return fleet.variable(names, PAIR, services=True)

    fleet.play(variable())
    karmada, members = Watched(fleet.karmada), [Watched(api) for api in list(fleet.clusters.values())[:PAIR]]

    def ready(name: str) -> float:
        wait_for(lambda: [name in member.ready for member in members], all, what=f"{name} is ready in both clusters", every=0.05)
        return max(member.ready[name] for member in members)

    rows: list[dict[str, float]] = []
    names: list[str] = []
    access = ClusterAccess(host=HOST, kubeconfig=str(fleet.deployer), context=None)
    with Desk({}, {}) as desk, open_cluster(access) as client:
        desk.write("inventory.json", fleet.inventory())
        empty = desk.write("empty.yml", _EMPTY)
        for number in range(ONE_BY_ONE + 1):
            row, bare = {}, f"bare-{number}"
            began = time.monotonic()
            fleet_run.send(client, fleet.request(variable(bare)), (bare,))
            row[BARE] = ready(bare) - began
            fleet_run.remove(client, fleet.request(variable(bare)), (bare,))
            began = time.monotonic()
            run_warm(str(empty), inventory=fleet.inventory())
            row[EMPTY] = time.monotonic() - began
            names.append(f"app-{number}")
            began = time.monotonic()
            fleet.play(variable(*names))
            row[ENDED] = time.monotonic() - began
            row[READY] = ready(names[-1]) - began
            row[TEMPLATE] = karmada.came[names[-1]] - began
            row[KARMADAS] = row[READY] - row[TEMPLATE]
            names.append(f"cold-{number}")
            began = time.monotonic()
            _run(desk, variable(*names))
            row[COLD] = ready(names[-1]) - began
            say(f"fleet, workload {number} of {ONE_BY_ONE}: ready after {row[READY]:.2f} s, bare after {row[BARE]:.2f} s")
            rows.append(row)
    order = (BARE, EMPTY, TEMPLATE, KARMADAS, READY, ENDED, COLD)
    return {title: [row[title] for row in rows[1:]] for title in order}  # the first one warms up


def _counts(fleet: FleetLab, count: int, say: Say) -> dict[str, int]:
    """Requests to Karmada's API for so many workloads: reads of a check that finds nothing to do, and writes of their creation."""
    fleet.play(fleet.variable((), CLUSTERS, services=True))
    say(f"fleet: requests for {count} workloads")
    variable = fleet.variable([f"app-{number}" for number in range(count)], CLUSTERS, services=True)
    runs: list[PlaybookRun] = []
    while not runs or runs[-1].changed or any(row["status"]["phase"] != "Available" for row in runs[-1].result["workloads"]):
        time.sleep(_PAUSE)
        runs.append(fleet.play(variable, fleet_workload_wait=False))  # one observation, and if it writes one more after that
    reads = fleet.play(variable, "--check").requests[HOST]
    return {"reads": reads, "writes": sum(run.requests[HOST] - 2 * reads for run in runs if run.changed)}


def _many(fleet: FleetLab, size: Size, say: Say, load: list[float]) -> tuple[dict[str, list[dict[str, float]]], dict[str, Any]]:
    """Rounds of the same objects bare and of whole ansible-playbook runs, each from a fleet in which there is only the seed.

    :param load: gets the load average of each round.
    """
    names = [f"app-{number}" for number in range(size.workloads)]
    variable, nothing = (fleet.variable(some, CLUSTERS, services=size.services) for some in (names, ()))
    found: dict[str, list[dict[str, float]]] = {title: [] for title in (BARE, CREATED, EMPTY, CHECK, AGAIN, AWAY)}
    asked = {"kubeconfig": str(fleet.deployer), "fleet": variable}
    engine: dict[str, Any] = {}

    def keep(title: str, run: Run, changed: bool | None) -> None:
        said = (run.mesh_result or {}).get("changed")
        if said is not changed:
            raise SystemExit(f"fleet, {title}: changed is {said}, not {changed}: the figure would mean nothing.")
        found[title].append({"wall": run.wall, "cpu": run.cpu, "peak": run.peak})

    with Desk({}, {}) as desk:
        desk.write("inventory.json", fleet.inventory())
        desk.write("empty.json", _EMPTY)
        _run(desk, nothing)
        for number in range(1, size.rounds + 1):
            say(f"fleet, round {number} of {size.rounds}: {size.workloads} workloads bare")
            bare = measured("fleet_run", "bare", asked=asked)
            found[BARE].append({"wall": bare["settled"]})
            say(f"fleet, round {number}: bare, written after {bare['written']:.0f} s, ready after {bare['settled']:.0f} s")
            measured("fleet_run", "away", asked=asked)
            keep(CREATED, _run(desk, variable), True)
            say(f"fleet, round {number}: as a playbook, ready after {found[CREATED][-1]['wall']:.0f} s")
            load.append(os.getloadavg()[1])
            for _ in range(CHECKS):
                keep(EMPTY, desk.run("empty.json", quiet=True), None)
                keep(CHECK, _run(desk, variable, "--check"), False)
            keep(AGAIN, _run(desk, variable), False)
            engine = measured("fleet_run", "check", asked=asked)
            keep(AWAY, _run(desk, nothing), True)
            say(f"fleet, round {number}: check {_wall(found[CHECK]):.2f} s, removed after {found[AWAY][-1]['wall']:.0f} s")
    return found, engine


def _run(desk: Desk, variable: Mapping[str, Any], *arguments: str) -> Run:
    """One run in a process of its own, which has to succeed."""
    desk.write("mesh.json", {"fleet": variable, "fleet_workload_wait_timeout": WAIT})
    run = desk.run("fleet", *arguments, quiet=True)
    if run.status != 0:
        desk.run("fleet", *arguments)  # once more, to be seen
        raise SystemExit(f"fleet: the playbook ended with status {run.status}; its output is above.")
    return run
