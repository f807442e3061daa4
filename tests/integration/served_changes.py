# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A change of a tenant, and the seconds until the operator has served it: clusters and status have it."""

from __future__ import annotations

import time
from typing import Any, Final

from mesh_operator.base.kinds import INTENT
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.integration.shop import NAMESPACE as SHOP
from tests.testing.operator_process import OperatorProcess

POLICIES: Final = f"/apis/cilium.io/v2/namespaces/{SHOP}/ciliumnetworkpolicies"


def change(lab: OperatorLab, tenant: Workspace, operator: OperatorProcess, number: int) -> float:
    """Create an intent, or change its port; return the seconds until clusters and status have it."""
    name, port = f"intent-{number % 4}", 8000 + number
    ends: dict[str, Any] = {side: {"namespace": SHOP, "selector": {"app": "nginx"}} for side in ("source", "destination")}
    began = time.monotonic()
    if tenant.get(INTENT, name) is None:
        tenant.create(INTENT, name, meshRef={"name": "edge"}, action="Allow", ports=[{"protocol": "TCP", "port": port}], **ends)
    else:
        tenant.change(INTENT, name, ports=[{"protocol": "TCP", "port": port}])

    def served() -> bool:
        found = tenant.get(INTENT, name) or {}
        status = found.get("status") or {}
        return status.get("phase") == "Applied" and status.get("observedGeneration") == found["metadata"]["generation"]

    operator.wait(served, f"change {number} is served", every=0.1)
    seconds = time.monotonic() - began
    for cluster in ("c1", "c2"):
        policies = lab.clusters.api(cluster).list(POLICIES)
        assert any(f"'port': '{port}'" in str(policy["spec"]) for policy in policies), f"{cluster} has port {port}"
    return seconds
