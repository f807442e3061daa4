# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about policies that the API server accepted and Cilium refuses: they look like protection, and are none. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..items.owned import owning_item
from ..items.scene import Scene
from .workload_index import index_workloads

_NAMED: Final = 5  # policies that the evidence names


def refused_policy_findings(scene: Scene) -> Iterator[Finding]:
    """Yield a finding for each cluster with such policies. Those of items have findings of their own (CM-INT-15)."""
    for host, view in index_workloads(scene).world.clusters.items():
        of_items = {policy.shown for policy in scene.traffic[host].policies if owning_item(scene.binding, policy)}
        reasons = {rule.policy: rule.refusal for rule in view.rules if rule.refusal and rule.policy not in of_items}
        if reasons:
            number = "1 policy" if len(reasons) == 1 else f"{len(reasons)} policies"
            shown = [f"{policy} ({reason})" for policy, reason in sorted(reasons.items())]
            yield finding(
                "CM-INT-19",
                cluster=host,
                summary=f"{host}: Cilium refuses {number}; what Cilium refuses protects no pod and lets nothing in",
                evidence=listed(shown, _NAMED),
                fix="Correct the policies, and read their column VALID (kubectl get cnp,ccnp -A). Their effect counts as unknown, "
                "because agents keep an earlier version that they accepted until they restart.",
            )
