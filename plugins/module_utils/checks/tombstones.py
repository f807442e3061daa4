# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of clusters with a tombstone: a returning cluster, and the access of a dead one."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, lines
from ..leases.plan_tombstones import lockout_finding
from ..leases.registry import registry_name
from ..leases.tombstones import remaining_access, returning_members, tombstones
from .context import CheckContext
from .registry import check


@check("CM-TOMB-01")
def returning_clusters_match_their_tombstones(context: CheckContext) -> Iterator[Finding]:
    """Report a returning cluster that differs from its tombstone."""
    for item in returning_members(context.mesh, context.facts):
        if not item.differences or item.host in context.take_back:
            continue
        yield finding(
            "CM-TOMB-01",
            cluster=item.host,
            summary=f"{item.host} is back, but it is not the cluster that was disconnected without its answer: {item.differences[0]}"
            + (f", and {len(item.differences) - 1} more" if len(item.differences) > 1 else ""),
            evidence=f"ConfigMap {registry_name(context.mesh.binding)} of the other members, dead since {item.tombstone.since}: "
            + "; ".join(item.differences),
            fix=lines(
                "Find out which cluster this is: the kubeconfig of the host may be wrong, or another cluster may pose as it.",
                f'If it was built anew and you want it in the mesh: -e \'{{"mesh_connect_take_back": ["{item.host}"]}}\'',
            ),
        )


@check("CM-TOMB-02")
def dead_clusters_are_locked_out(context: CheckContext) -> Iterator[Finding]:
    """Report members that would still let a cluster with a tombstone in."""
    dead = tombstones(context.mesh, context.facts)
    for host in context.mesh.clusters:
        if host in context.facts:
            others = [lease for lease in dead if lease.host != host]
            yield from (lockout_finding(host, gone, why) for gone, why in remaining_access(context.facts[host], others).items())
