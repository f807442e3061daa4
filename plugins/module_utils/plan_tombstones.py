# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What planning makes of the dead: their tombstones go when they are taken back, and what still lets them in is said. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from .facts import ClusterFacts
from .findings import Finding, Severity
from .model import Mesh
from .redact import one_line
from .registry import Lease, LeaseState, Registry, mesh_registry
from .steps import NOW
from .tombstones import Return, ways_in

CODE = "CM-TOMB-02"


def without_tombstones(registry: Registry, back: Collection[Return]) -> Registry:
    """The registry in which those who are back have no tombstone. A name and id that they do not run any more are released.

    Whether they may come back was judged before (CM-TOMB-01).
    """
    graves = {item.tombstone.key for item in back} - {item.running.key for item in back}
    ended = [lease for lease in registry.leases if lease.key in graves and lease.state is LeaseState.DEAD]
    return registry.with_leases(_released(lease) for lease in ended)


def _released(lease: Lease) -> Lease:
    return replace(lease, state=LeaseState.RELEASED, since=NOW, serial=lease.next_serial)


def why_of(back: Collection[Return]) -> str:
    """The reason of the write that clears tombstones; "" when nobody is back."""
    parts = []
    for item in back:
        how = (
            "is the one that was taken out" if not item.differences else f"by your word (take_back), although {'; '.join(item.differences)}"
        )
        parts.append(f"{item.host} is taken back: {how}; its tombstone goes")
    return one_line("; ".join(parts), 600)


def lockout_findings(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: Collection[str]) -> Iterator[Finding]:
    """What would still let in those who are taken out without their answer, one finding per member that stays."""
    silent = {host for host in leaving if host not in facts}
    dead = [lease for lease in mesh_registry(mesh, facts).leases if lease.host in silent and lease.holds]
    for host in mesh.clusters:
        if host in facts and host not in leaving:
            for gone, why in ways_in(facts[host], dead, after_removal=True).items():
                yield lockout_finding(host, gone, why)


def lockout_finding(host: str, gone: str, why: str) -> Finding:
    """``gone`` could still read from ``host``."""
    return Finding(
        code=CODE,
        severity=Severity.REMEDIABLE,
        cluster=host,
        peer=gone,
        summary=f"{gone} was taken out without its answer, and {host} would still let it in",
        evidence=one_line(why, 400),
        fix="Set the Helm value clustermesh.apiserver.tls.authMode=migration, so that each peer has a user of its own that can be removed, "
        f"and give {host} a new CA (module edge_portal.cilium_mesh.mesh_ca).",
    )
