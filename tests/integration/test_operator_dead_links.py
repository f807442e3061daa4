# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Meshes whose links never come up keep no other tenant waiting, with the number of runs at a time that an operator has by default."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from mesh_operator.base.kinds import BINDING, INTENT
from tests.bench.operator_latency import p95
from tests.integration import shop
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.lab.patience import scaled
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

pytestmark = pytest.mark.xdist_group("other-operator")

SERVED = 5.0  # seconds
DEFAULT_RUNS = ("--max-runs", "2")


def change(tenant: Workspace, operator: OperatorProcess, port: int) -> float:
    """Create an intent, or change its port; return the seconds until it is applied."""
    ends: dict[str, Any] = {side: {"namespace": shop.NAMESPACE, "selector": {"app": "nginx"}} for side in ("source", "destination")}
    began = time.monotonic()
    if tenant.get(INTENT, "front") is None:
        tenant.create(INTENT, "front", meshRef={"name": "edge"}, action="Allow", ports=[{"protocol": "TCP", "port": port}], **ends)
    else:
        tenant.change(INTENT, "front", ports=[{"protocol": "TCP", "port": port}])

    def applied() -> bool:
        found = tenant.get(INTENT, "front") or {}
        status = found.get("status") or {}
        return status.get("phase") == "Applied" and status.get("observedGeneration") == found["metadata"]["generation"]

    operator.wait(applied, f"port {port} is applied", every=0.1)
    return time.monotonic() - began


def _is_gone(tenant: Workspace) -> bool:
    return tenant.get(BINDING, "edge") is None


@pytest.mark.parametrize("changes", [4, pytest.param(20, marks=pytest.mark.full)])
def test_two_meshes_whose_links_never_come_up_keep_no_other_tenant_waiting(operator_lab: OperatorLab, changes: int) -> None:
    lab = operator_lab.clusters.lab
    honest = operator_lab.workspace(f"calm-{changes}", "c1", "c3")
    dead = [operator_lab.workspace(f"dead-{number}-{changes}", *refs) for number, refs in enumerate((("c1", "c2"), ("c2", "c3")))]
    with operator_lab.operator("--no-leader-elect", *DEFAULT_RUNS) as operator:
        honest.create(BINDING, "edge", clusterRefs=honest.refs())
        operator.wait(lambda: honest.phase(BINDING, "edge"), "the mesh is connected", until=equals("Connected"))
        change(honest, operator, 8000)
        try:
            lab.cut("c1", "c2")
            lab.cut("c2", "c3")
            for tenant in dead:
                tenant.create(BINDING, "edge", clusterRefs=tenant.refs())
            for tenant in dead:
                operator.wait(partial(tenant.phase, BINDING, "edge"), "its links are awaited", until=equals("Connecting"))
            seconds = [change(honest, operator, 8001 + number) for number in range(changes)]
            print(f"\nseconds until a change is applied: p95 {p95(seconds):.1f}, most {max(seconds):.1f}")
            assert [tenant.phase(BINDING, "edge") for tenant in dead] == ["Connecting", "Connecting"]
            assert {link["stage"] for link in dead[0].status(BINDING, "edge")["links"]} != {"ready"}
            assert p95(seconds) <= scaled(SERVED)
            for tenant in dead:  # a deletion need not wait for links either
                tenant.delete(BINDING, "edge")
            for tenant in dead:
                operator.wait(partial(_is_gone, tenant), "its mesh is gone")
        finally:
            lab.heal("c1", "c2")
            lab.heal("c2", "c3")
        honest.delete(INTENT, "front")
        honest.delete(BINDING, "edge")
        operator.wait(lambda: honest.get(BINDING, "edge") is None and honest.get(INTENT, "front") is None, "the mesh is gone")
