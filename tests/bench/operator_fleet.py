# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From creating a FleetWorkload to its replicas in two clusters of a real Karmada, and to its status: one at a time, operator idle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace
from tests.bench.fleet_lab import SEED
from tests.bench.table import Target, columns
from tests.integration.fleet_operator_lab import FleetOperatorLab, Shop, template
from tests.integration.mesh_lab import MeshLab
from tests.lab.options import LabOptions
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

RESOURCES: Final = 15
SECONDS: Final = 4.0
PAUSE: Final = 3.0  # seconds between two resources: the operator is idle again
TEMPLATE, READY, TOLD = "until Karmada has the template", "until ready in both clusters", "until its status says so"


def measure(folder: Path, say: Callable[[str], None], resources: int = RESOURCES) -> dict[str, Any]:
    """Seconds since the resource was created, for each part of the way, a list over the resources."""
    rows: list[dict[str, float]] = []
    with ExitStack() as stack:
        lab = stack.enter_context(MeshLab(LabOptions(name=f"bench-{os.getpid()}", clusters=2, cilium="1.20", karmada=True)))
        fleet = FleetOperatorLab(stack, lab, folder)
        shop, operator = fleet.shop("shop"), stack.enter_context(fleet.operator("fleet"))
        furnish(shop, operator)
        for number in range(resources + 1):
            rows.append(_one(shop, operator, f"app-{number}"))
            say(f"operator, workload {number} of {resources}: ready after {rows[-1][READY]:.2f} s")
            time.sleep(PAUSE)
    return {title: [row[title] for row in rows[1:]] for title in (TEMPLATE, READY, TOLD)}  # the first one warms up


def furnish(shop: Shop, operator: OperatorProcess) -> None:
    """Have all clusters as members of one fleet, with a workload in them."""
    for name in shop.lab.names:
        shop.put("KubernetesCluster", name, providerRef={"name": "kind"})
        operator.wait(partial(shop.planned, name), f"the management plane is asked for {name}")
        shop.provision(name)
    for name in shop.lab.names:
        operator.wait(partial(shop.phase, "KubernetesCluster", name), f"{name} is a member", until=equals("Ready"))
    shop.put("Fleet", "all", clusterRefs=[{"name": name} for name in shop.lab.names])
    _one(shop, operator, SEED)  # it makes the tenant's namespace in the clusters


def _one(shop: Shop, operator: OperatorProcess, name: str) -> dict[str, float]:
    path = f"/apis/apps/v1/namespaces/{karmada_namespace(shop.tenant)}/deployments/{name}"
    began = time.monotonic()

    def ready() -> bool:
        found = [shop.lab.api(cluster).get(path) or {} for cluster in shop.lab.names]
        return all((entry.get("status") or {}).get("readyReplicas") == 1 for entry in found)

    shop.put("FleetWorkload", name, fleetRef={"name": "all"}, template=template("1"))
    row = {}
    operator.wait(lambda: shop.karmada.get(path) is not None, f"Karmada has {name}", every=0.03)
    row[TEMPLATE] = time.monotonic() - began
    operator.wait(ready, f"{name} is ready in all clusters", every=0.03)
    row[READY] = time.monotonic() - began
    operator.wait(partial(shop.phase, "FleetWorkload", name), f"the status of {name} says so", until=equals("Available"), every=0.05)
    row[TOLD] = time.monotonic() - began
    return row


def targets(found: dict[str, list[float]]) -> list[Target]:
    """What the project promises."""
    return [Target("operator: a FleetWorkload ready in 2 clusters, p50 s", median(found[READY]), SECONDS)]


def as_text(found: dict[str, list[float]]) -> str:
    """The table for people."""
    head = (f"one FleetWorkload at a time, {len(found[READY])} of them", "min s", "p50 s", "p95 s", "max s")
    body = [
        (title, f"{min(row):.2f}", f"{median(row):.2f}", f"{quantiles(row, n=20)[-1]:.2f}", f"{max(row):.2f}")
        for title, row in found.items()
    ]
    return columns([head, *body])
