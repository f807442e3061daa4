# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From creating a custom resource to the objects in the clusters, and to its status: one resource at a time, on an idle operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from statistics import median, quantiles
from threading import Thread
from typing import Any, Final

import urllib3

from tests.bench.operator_world import PHASES, Bench, Site
from tests.bench.table import Target, columns
from tests.lab.api import LabApi
from tests.testing.operator_process import OperatorProcess, until

RESOURCES: Final = 15
SECONDS: Final = 3.0
LIMIT: Final = 120.0
PAUSE: Final = 3.0  # seconds between two resources: the operator is idle again
PARTS: Final = ("the play starts", "written in both clusters", "the play has ended", "the status says so")


def measure(bench: Bench, say: Callable[[str], None], resources: int = RESOURCES) -> dict[str, Any]:
    """Seconds since the resource was created, for each part of the way, a list over the resources."""
    site, rows = bench.sites[0], []
    with bench.operator() as operator:
        site.bind()
        say(f"a mesh: connected after {bench.wait([site], operator, LIMIT):.0f} s")
        for _ in range(resources):
            time.sleep(PAUSE)
            rows.append(_one(site, operator, say))
    return {part: [row[part] for row in rows] for part in PARTS}


def targets(found: dict[str, Any]) -> list[Target]:
    return [Target("from a resource to the objects written, p50 s", median(found["written in both clusters"]), SECONDS)]


def as_text(found: dict[str, Any]) -> str:
    """The table for people."""
    head = (f"one resource at a time, {len(found[PARTS[0]])} of them", "p50 s", "p95 s", "most s")
    body = [(f"until {part}", f"{median(row):.2f}", f"{p95(row):.2f}", f"{max(row):.2f}") for part, row in found.items()]
    return columns([head, *body])


def p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _one(site: Site, operator: OperatorProcess, say: Callable[[str], None]) -> dict[str, float]:
    seen, runs = [_Written(site.workspace.lab.api(cluster), site.namespace) for cluster in site.clusters], len(_runs(operator))
    began, clock = time.time(), time.monotonic()
    kind, name = site.ask()
    until(lambda: site.workspace.phase(kind, name) == PHASES[kind], f"{kind} {name} is {PHASES[kind]}", LIMIT, operator.output)
    told = time.monotonic() - clock
    until(lambda: len(_runs(operator)) > runs and all(one.at for one in seen), "its run has ended", LIMIT, operator.output)
    run = _runs(operator)[runs]
    ended, written = datetime.fromisoformat(run["time"]).timestamp() - began, max(one.at for one in seen) - clock
    say(f"{kind} {name}: written after {written:.2f} s, told after {told:.2f} s")
    return dict(zip(PARTS, (ended - run["seconds"], written, ended, told), strict=True))


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
        with suppress(urllib3.exceptions.HTTPError):  # `at` stays 0, and whoever waits for it says so
            for event, _ in api.watch(path, version, seconds=int(LIMIT)):
                if event != "BOOKMARK":
                    self.at = self.at or time.monotonic()
                    return
