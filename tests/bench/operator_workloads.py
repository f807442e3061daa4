# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Many FleetWorkloads of one tenant at once, by the operator over a real Karmada: until all are settled, checked, and removed.

The parts of the way tell whose the time is: until Karmada has the templates it is the operator's, from there until the copies are ready
that of Karmada and the clusters, and after that the operator's again. All servers share the machine's processors with what is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from mesh_operator.base.kinds import BY_KIND, VERSION, WORKLOAD
from tests.bench.fleet_lab import SEED, workload_spec
from tests.bench.operator_cost import Meter
from tests.bench.operator_fleet import furnish
from tests.bench.operator_scale import is_busy, turns_of
from tests.bench.table import Target, columns
from tests.integration.fleet_operator_lab import FleetOperatorLab, Object, Shop
from tests.integration.mesh_lab import MeshLab
from tests.lab.options import LabOptions
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

SETTLED_SECONDS, NO_OP_SECONDS = 180.0, 5.0
CHECKS: Final = 5
NODES: Final = 3  # of a cluster: each takes 110 pods
DEFAULTS: Final = ("--mesh-check-interval", "5m", "--reconcile-interval", "30s")  # in place of the short ones of tests
SENT, TEMPLATES = "all FleetWorkloads created", "until Karmada has all templates"
READY, SETTLED = "until all copies are ready", "until all statuses say so"
CHECK, AWAY = "nothing to do: until a new policy has its status", "removed, until gone"
PARTS: Final = (SENT, TEMPLATES, READY, SETTLED, CHECK, AWAY)
CPU, PEAK = "cpu", "peak"
TURNS: Final = "turns"
TIMED: Final = {"runs": "mesh_operator_run_seconds", "dry runs": "mesh_operator_dry_run_seconds"}
_STALL: Final = 180.0  # seconds without progress, on a machine that has much else to do
_EVERY: Final = 2.0  # seconds between two lists: each costs a server what it would else have for the work
_PAUSE: Final = 3.0  # seconds between two checks: the operator is idle again

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured. ``services``: a Service beside each Deployment. ``pace``: one of `tests.lab.options.KARMADA_PACES`."""

    workloads: int = 200
    clusters: int = 5
    rounds: int = 3
    services: bool = True
    pace: str = "wide"


def measure(folder: Path, size: Size, say: Say) -> dict[str, Any]:
    """Seconds since the first FleetWorkload was created, by part of the way, a list over the rounds; and what the operator did and cost."""
    load, rows = [os.getloadavg()[0]], list[dict[str, float]]()
    say(f"operator, workloads: a lab of {size.clusters} clusters and a Karmada with pace {size.pace}")
    options = LabOptions(
        name=f"bench-{os.getpid()}", clusters=size.clusters, nodes=NODES, cilium="1.20", karmada=True, karmada_pace=size.pace
    )
    with ExitStack() as stack:
        lab = stack.enter_context(MeshLab(options))
        fleet = FleetOperatorLab(stack, lab, folder)
        shop, operator = fleet.shop("shop"), stack.enter_context(fleet.operator("fleet", *DEFAULTS))
        furnish(shop, operator)
        checks = list[float]()
        for number in range(1, size.rounds + 1):
            say(f"operator, workloads, round {number} of {size.rounds}: {size.workloads} workloads")
            row = _created(shop, operator, size, say)
            load.append(os.getloadavg()[1])
            checks += _checks(shop, operator, number)
            row[AWAY] = _removed(shop, operator)
            say(f"operator, workloads, round {number}: check {median(checks):.2f} s, removed after {row[AWAY]:.0f} s")
            rows.append(row)
    parts = {title: [row[title] for row in rows] for title in PARTS if title != CHECK} | {CHECK: checks}
    counted = {name: [row[name] for row in rows] for name in (TURNS, *TIMED, *(f"{name} s" for name in TIMED), CPU, PEAK)}
    return {"parts": parts, "operator": counted, "load": load, "size": vars(size)}


def targets(found: dict[str, Any]) -> list[Target]:
    """What the project promises."""
    size, parts = found["size"], found["parts"]
    what = f"{size['workloads']} FleetWorkloads"
    with_pace = f"in {size['clusters']} clusters by pace {size['pace']}"
    return [
        Target(f"operator: {what} settled {with_pace}, p50 s", median(parts[SETTLED]), SETTLED_SECONDS),
        Target(f"operator: turn of {what} {with_pace}, nothing to do, p50 s", median(parts[CHECK]), NO_OP_SECONDS),
    ]


def as_text(found: dict[str, Any]) -> str:
    """The table for people."""
    size, counted = found["size"], found["operator"]
    what = "Deployment and Service" if size["services"] else "Deployment"
    title = f"{size['workloads']} FleetWorkloads, a {what} each, in {size['clusters']} clusters, Karmada's pace {size['pace']}"
    head = (title, "min s", "median s", "max s")
    body = [(part, *(f"{pick(found['parts'][part]):.2f}" for pick in (min, median, max))) for part in PARTS]
    did = ", ".join(f"{median(counted[name]):.0f} {name} of {median(counted[f'{name} s']):.1f} s in all" for name in TIMED)
    cost = f"CPU {median(counted[CPU]):.1f} s, peak of all its processes {max(counted[PEAK]) / 1e6:.0f} MB"
    loads = ", ".join(f"{load:.1f}" for load in found["load"])
    return "\n".join(
        [
            columns([head, *body]),
            f"the operator until they were settled: {median(counted[TURNS]):.0f} turns, {did}; {cost}",
            f"{os.cpu_count()} processors; load average before, then after each round: {loads}",
        ]
    )


def _created(shop: Shop, operator: OperatorProcess, size: Size, say: Say) -> dict[str, float]:
    """Create all, and wait until they are settled; return seconds by part, and what the operator did meanwhile."""
    names, row = [f"app-{number}" for number in range(size.workloads)], dict[str, float]()
    before, began = operator.metrics(), time.monotonic()

    def reached(title: str) -> None:
        row[title] = time.monotonic() - began
        say(f"operator, workloads: {title}, {row[title]:.1f} s")

    with Meter(operator.process.pid) as meter:
        for name in names:
            shop.put(WORKLOAD, name, **workload_spec(service=size.services))
        reached(SENT)
        path = f"/apis/apps/v1/namespaces/{shop.namespace}/deployments"
        _wait(operator, lambda: len({entry["metadata"]["name"] for entry in shop.karmada.list(path)} & {*names}), len(names), TEMPLATES)
        reached(TEMPLATES)
        for cluster in shop.lab.names:  # one after the other: what one list costs is missing elsewhere
            _wait(operator, partial(_whole, shop.lab.api(cluster).list, path, names), len(names), f"{READY} in {cluster}")
        reached(READY)
        _wait(operator, partial(_available, shop), len(names) + 1, SETTLED)  # the seed among them
        reached(SETTLED)
    after = operator.metrics()
    row[TURNS] = turns_of(after) - turns_of(before)
    for name, metric in TIMED.items():
        row[name] = after.get(f"{metric}_count", 0.0) - before.get(f"{metric}_count", 0.0)
        row[f"{name} s"] = after.get(f"{metric}_sum", 0.0) - before.get(f"{metric}_sum", 0.0)
    return row | {CPU: meter.cpu, PEAK: meter.peak}


def _checks(shop: Shop, operator: OperatorProcess, number: int) -> list[float]:
    """Seconds from a new PlacementPolicy, which no workload uses, to its status: a turn of the unit that finds nothing to write."""
    _wait(
        operator, lambda: len(shop.names("FleetWorkloadRevision").split()), len(shop.names(WORKLOAD).split()), "every revision is published"
    )
    found = []
    for check in range(CHECKS):
        operator.wait(lambda: not is_busy(operator.metrics()), "the operator is idle")
        time.sleep(_PAUSE)
        name, runs, began = f"check-{number}-{check}", _runs(operator), time.monotonic()
        shop.put("PlacementPolicy", name, strategy="FixedReplicas")
        operator.wait(partial(shop.phase, "PlacementPolicy", name), f"{name} has a status", until=equals("Accepted"), every=0.05)
        found.append(time.monotonic() - began)
        if _runs(operator) != runs:
            raise SystemExit("operator, workloads: a turn that was to find nothing had a run, so its figure would mean nothing.")
        shop.delete("PlacementPolicy", name)
    return found


def _removed(shop: Shop, operator: OperatorProcess) -> float:
    began = time.monotonic()
    for name in shop.names(WORKLOAD).split():
        if name != SEED:
            shop.delete(WORKLOAD, name)
    _wait(operator, lambda: len(shop.names(WORKLOAD).split()), 1, AWAY)
    gone = time.monotonic() - began
    _wait(operator, lambda: len(shop.names("FleetWorkloadRevision").split()), 1, "their revisions are gone")
    return gone


def _wait(operator: OperatorProcess, probe: Callable[[], int], wanted: int, what: str) -> None:
    operator.wait(probe, what, until=equals(wanted), every=_EVERY, stall=_STALL)


def _whole(listed: Callable[[str], list[Object]], path: str, names: Sequence[str]) -> int:
    ready = {entry["metadata"]["name"] for entry in listed(path) if (entry.get("status") or {}).get("readyReplicas")}
    return len(ready & {*names})


def _available(shop: Shop) -> int:
    row = BY_KIND[WORKLOAD]
    found = shop.workspace.client.list(f"/apis/{row.group}/{VERSION}/namespaces/{shop.workspace.home}/{row.plural}")
    return sum((entry.get("status") or {}).get("phase") == row.good for entry in found)


def _runs(operator: OperatorProcess) -> float:
    return operator.metrics().get(f"{TIMED['runs']}_count", 0.0)
