# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A cluster that stands where one died: is it the one that died, and what would let the dead in meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import CheckContext, Finding, Scope, Severity, check
from ..plan_tombstones import CODE, lockout_finding
from ..registry import registry_name
from ..tombstones import returns, tombstones, ways_in
from .wording import finding, lines


@check("CM-TOMB-01", "A returning cluster is not the one that was taken out", severity=Severity.BLOCKING, scope=Scope.MESH)
def is_the_one_that_died(context: CheckContext) -> Iterator[Finding]:
    for item in returns(context.mesh, context.facts):
        if not item.differences or item.host in context.take_back:
            continue
        yield finding(
            "CM-TOMB-01",
            cluster=item.host,
            summary=f"{item.host} is back, but it is not the cluster that was taken out without its answer: {item.differences[0]}"
            + (f", and {len(item.differences) - 1} more" if len(item.differences) > 1 else ""),
            evidence=f"ConfigMap {registry_name(context.mesh.binding)} of the other members, dead since {item.tombstone.since}: "
            + "; ".join(item.differences),
            fix=lines(
                "Find out which cluster this is: the kubeconfig of the host may be wrong, or somebody may stand in for it.",
                f'If it was built anew and you want it in the mesh: -e \'{{"mesh_connect_take_back": ["{item.host}"]}}\'',
            ),
        )


@check(CODE, "A member would still let a dead cluster in", severity=Severity.REMEDIABLE, scope=Scope.MESH)
def locks_the_dead_out(context: CheckContext) -> Iterator[Finding]:
    dead = tombstones(context.mesh, context.facts)
    for host in context.mesh.clusters:
        if host in context.facts:
            others = [lease for lease in dead if lease.host != host]
            yield from (lockout_finding(host, gone, why) for gone, why in ways_in(context.facts[host], others).items())
