# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Members that cannot take part in the mesh, by findings that are about them alone: links among the others need not wait for them. Pure.

A member reports its name, its id, its uid and its addresses itself, so its owner could else keep every other member from being linked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from ..findings.finding import Finding
from ..leases.registry import Lease
from ..mesh.facts.cluster import ClusterFacts
from .context import CheckContext

_ALONE: Final = frozenset({"CM-LEASE-01", "CM-LEASE-02", "CM-LEASE-03", "CM-TOMB-01"})
"""Codes of findings that compare one member with the leases that the others agree on."""

_HOLDS: Final[Mapping[str, Callable[[Lease, ClusterFacts], bool]]] = {
    "CM-ID-04": lambda lease, cluster: lease.name == cluster.name,
    "CM-ID-05": lambda lease, cluster: lease.id == cluster.id,
    "CM-MESH-01": lambda lease, cluster: bool(lease.uid) and lease.uid == cluster.uid,
}
"""Codes of findings about clusters that share a value, and whether a lease gives it to its cluster."""


def offenders(context: CheckContext, findings: Iterable[Finding]) -> frozenset[str]:
    """Return the members that cannot take part by blocking findings about them alone.

    They run a name, an id or a uid that is not that of their lease, differ from their tombstone, or report only addresses that no other
    cluster may dial. Of clusters that share a value, they are those that have no lease of it, if exactly one has: without that nothing says
    which of them is in the wrong.
    """
    found: set[str] = set()
    for finding in findings:
        if not finding.blocks or finding.cluster not in context.facts:
            continue
        if finding.code in _ALONE or (finding.code == "CM-EP-02" and context.decisions.refused[finding.cluster]):
            found.add(finding.cluster)
        elif finding.code in _HOLDS:
            found |= _without_lease(context, [finding.cluster, *filter(None, [finding.peer]), *finding.others], _HOLDS[finding.code])
    return frozenset(found)


def _without_lease(context: CheckContext, hosts: Collection[str], holds: Callable[[Lease, ClusterFacts], bool]) -> set[str]:
    leases = {host: context.leases.active(host) for host in hosts}
    holders = {host for host, lease in leases.items() if lease is not None and holds(lease, context.facts[host])}
    return set(hosts) - holders if len(holders) == 1 else set()
