# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tombstones in a plan: those of clusters taken back are cleared, and findings name what would still let dead clusters in. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ..base.redact import one_line
from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..plan.steps import NOW
from .agreement import mesh_registry
from .registry import Lease, LeaseState, Registry
from .tombstones import ReturningMember, remaining_access


def without_tombstones(registry: Registry, back: Collection[ReturningMember]) -> Registry:
    """Return the registry without the tombstones of clusters that are taken back. A name and id that they do not run any more are released.

    Whether they may be taken back was checked before (CM-TOMB-01).
    """
    graves = {item.tombstone.key for item in back} - {item.running.key for item in back}
    ended = [lease for lease in registry.leases if lease.key in graves and lease.state is LeaseState.DEAD]
    return registry.with_leases(_released(lease) for lease in ended)


def _released(lease: Lease) -> Lease:
    return replace(lease, state=LeaseState.RELEASED, since=NOW, serial=lease.next_serial)


def take_back_reason(back: Collection[ReturningMember]) -> str:
    """Return the reason of the write that clears tombstones; "" if no cluster is taken back."""
    parts = []
    for item in back:
        how = (
            "is the cluster that was disconnected" if not item.differences else f"as take_back says, although {'; '.join(item.differences)}"
        )
        parts.append(f"{item.host} is taken back: {how}; its tombstone is removed")
    return one_line("; ".join(parts), 600)


def lockout_findings(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: Collection[str]) -> Iterator[Finding]:
    """Yield a finding per remaining member that would still let in a cluster disconnected without its answer."""
    silent = {host for host in leaving if host not in facts}
    dead = [lease for lease in mesh_registry(mesh, facts).leases if lease.host in silent and lease.holds]
    for host in mesh.clusters:
        if host in facts and host not in leaving:
            for gone, why in remaining_access(facts[host], dead, after_removal=True).items():
                yield lockout_finding(host, gone, why)


def lockout_finding(host: str, gone: str, why: str) -> Finding:
    """Return the finding that ``gone`` could still read from ``host``."""
    return finding(
        "CM-TOMB-02",
        cluster=host,
        peer=gone,
        summary=f"{gone} was disconnected without its answer, and the mesh etcd of {host} would still accept it",
        evidence=one_line(why, 400),
        fix="Set the Helm value clustermesh.apiserver.tls.authMode=migration, so that each peer has a user of its own that can be removed, "
        f"and give {host} a new CA (module edge_portal.cilium_mesh.mesh_ca).",
    )
