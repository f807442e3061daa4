# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From creating a custom resource to the objects in the clusters, and to its status: one resource at a time, on an idle operator.

After each an empty play is run, as no run of the operator can be quicker than that on the machine that measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from typing import Any, Final

import urllib3

from tests.bench.operator_world import PHASES, Bench, Site
from tests.bench.playbooks import run
from tests.bench.table import Target, columns
from tests.demo.play import Desk
from tests.lab.api import LabApi
from tests.testing.operator_process import OperatorProcess

RESOURCES: Final = 15
SECONDS: Final = 3.0
LIMIT: Final = 120.0
PAUSE: Final = 3.0  # seconds between two resources: the operator is idle again
STARTS, WRITTEN = "until the run starts", "until written in both clusters"
ENDED, TOLD = "until the run has ended", "until its status is there"
EMPTY: Final = "an empty play beside it"


def measure(bench: Bench, say: Callable[[str], None], resources: int = RESOURCES) -> dict[str, Any]:
    """Seconds since the resource was created, for each part of the way, a list over the resources."""
    site, rows = bench.sites[0], []
    with bench.operator() as operator, Desk({"c1": Path("none")}, {}) as desk:
        desk.write("empty.json", [{"hosts": "all", "gather_facts": False, "tasks": []}])
        site.bind()
        say(f"a mesh: connected after {bench.wait([site], operator):.0f} s")
        for _ in range(resources):
            time.sleep(PAUSE)
            rows.append(_one(site, operator, say) | {EMPTY: run(desk, "empty.json").wall})
    return {part: [row[part] for row in rows] for part in rows[0]}


def targets(found: dict[str, Any]) -> list[Target]:
    return [Target("from a resource to the objects written, p50 s", median(found[WRITTEN]), SECONDS)]


def as_text(found: dict[str, Any]) -> str:
    """The table for people."""
    head = (f"one resource at a time, {len(found[TOLD])} of them", "p50 s", "p95 s", "most s")
    body = [(part, f"{median(row):.2f}", f"{p95(row):.2f}", f"{max(row):.2f}") for part, row in found.items()]
    return columns([head, *body])


def p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _one(site: Site, operator: OperatorProcess, say: Callable[[str], None]) -> dict[str, float]:
    seen, runs = [_Written(site.workspace.lab.api(cluster), site.namespace) for cluster in site.clusters], len(_runs(operator))
    began, clock = time.time(), time.monotonic()
    kind, name = site.ask()
    operator.wait(lambda: site.workspace.phase(kind, name) == PHASES[kind], f"{kind} {name} is {PHASES[kind]}")
    reported = time.monotonic() - clock
    operator.wait(lambda: len(_runs(operator)) > runs and all(one.at for one in seen), "its run has ended")
    ran = _runs(operator)[runs]
    ended, written = datetime.fromisoformat(ran["time"]).timestamp() - began, max(one.at for one in seen) - clock
    say(f"{kind} {name}: written after {written:.2f} s, reported after {reported:.2f} s")
    return {STARTS: ended - ran["seconds"], WRITTEN: written, ENDED: ended, TOLD: reported}


def _runs(operator: OperatorProcess) -> list[dict[str, Any]]:
    return [event for event in operator.events() if event.get("event") == "run_ended"]


class _Written:
    """When a cluster gets the next policy, or the next annotation on a Service, in a namespace in which nothing else happens. ``at``:
    monotonic seconds, 0 before."""

    def __init__(self, api: LabApi, namespace: str) -> None:
        self.at = 0.0
        for path in (f"/api/v1/namespaces/{namespace}/services", f"/apis/cilium.io/v2/namespaces/{namespace}/ciliumnetworkpolicies"):
            version = str((api.get(path) or {})["metadata"]["resourceVersion"])
            Thread(target=self._watch, args=(api, path, version), daemon=True).start()

    def _watch(self, api: LabApi, path: str, version: str) -> None:
        with suppress(urllib3.exceptions.HTTPError):  # `at` stays 0, and the caller that waits for it says so
            for event, _ in api.watch(path, version, seconds=int(LIMIT)):
                if event != "BOOKMARK":
                    self.at = self.at or time.monotonic()
                    return
