# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cases of the checks that compare what runs with the leases; part of test_checks_catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    MAX_SERIAL,
    Lease,
    LeaseState,
    Registry,
    lease_of,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, RegistryFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import labels_of_new_object
from tests.testing.facts_builders import NOW, cluster_facts, context_of, mesh_of

Case = Callable[[], CheckContext]

C1, C2, C3 = cluster_facts("c1"), cluster_facts("c2"), cluster_facts("c3")
BINDING = mesh_of("c1", "c2").binding
OWN = (lease_of(C1), lease_of(C2))
THREE = (*OWN, lease_of(C3))


def kept(*leases: Lease, **overrides: Any) -> RegistryFacts:
    """The ConfigMap with these leases."""
    text = write_registry(Registry(mesh=BINDING.owner, leases=leases))
    values: dict[str, Any] = {"present": True, "uid": "u", "resource_version": "3", "text": text, "managers": (BINDING.manager,)}
    return RegistryFacts(**{**values, "labels": labels_of_new_object(BINDING), **overrides})


def holding(*leases: Lease, c1: ClusterFacts = C1, c2: ClusterFacts = C2) -> CheckContext:
    """Both members keep these leases."""
    return context_of(*(replace(cluster, registry=kept(*leases)) for cluster in (c1, c2)), mesh=mesh_of("c1", "c2"))


def copies(one: RegistryFacts, other: RegistryFacts) -> CheckContext:
    """c1 keeps the one, c2 the other."""
    return context_of(replace(C1, registry=one), replace(C2, registry=other), mesh=mesh_of("c1", "c2"))


def three(own: RegistryFacts) -> CheckContext:
    """c2 and c3 keep the leases of all three; c1 keeps its own copy."""
    clusters = (replace(C1, registry=own), replace(C2, registry=kept(*THREE)), replace(C3, registry=kept(*THREE)))
    return context_of(*clusters, mesh=mesh_of("c1", "c2", "c3"))


def two_of_three(one: RegistryFacts, other: RegistryFacts) -> CheckContext:
    """c1 keeps the one, c2 the other, and c3 was not asked."""
    return context_of(replace(C1, registry=one), replace(C2, registry=other), mesh=mesh_of("c1", "c2", "c3"))


def ago(hours: int) -> str:
    return (NOW - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def gone(host: str = "c9", state: LeaseState = LeaseState.RELEASED, hours: int = 1, **values: Any) -> Lease:
    """A lease of id 1 that ended some hours ago."""
    return Lease(**{"host": host, "name": host, "id": 1, "uid": f"uid-of-{host}", "state": state, "since": ago(hours), **values})


RENUMBERED = cluster_facts("c1", config={"cluster-id": "7"})
RENAMED = cluster_facts("c1", config={"cluster-name": "other"})
CLAIM = replace(OWN[0], state=LeaseState.RESERVED)
NEWER = '{"schema":2,"mesh":"m","leases":[]}'

LEASES: dict[str, tuple[list[Case], list[Case]]] = {
    "CM-LEASE-01": (
        [lambda: holding(*OWN, c1=RENUMBERED), lambda: holding(*OWN, c1=RENAMED)],
        [
            lambda: holding(*OWN),
            lambda: holding(OWN[1], replace(OWN[0], state=LeaseState.RELEASED, since=ago(99)), c1=RENUMBERED),
            lambda: holding(*OWN, c1=replace(RENUMBERED, uid="another")),
        ],
    ),
    "CM-LEASE-02": (
        [lambda: holding(*OWN, c1=replace(C1, uid="another"))],
        [lambda: holding(*OWN), lambda: holding(replace(OWN[0], uid=""), OWN[1])],
    ),
    "CM-LEASE-03": (
        [
            lambda: holding(OWN[1], gone(state=LeaseState.DEAD)),
            lambda: holding(OWN[1], gone(state=LeaseState.RESERVED)),
            lambda: holding(*OWN, c1=cluster_facts("c1", config={"cluster-id": "2"})),
            lambda: holding(*OWN, gone(state=LeaseState.RESERVED, name="c1", id=9)),
        ],
        [
            lambda: holding(*OWN),
            lambda: holding(OWN[1], gone(state=LeaseState.ACTIVE, since="")),  # no member any more
            lambda: holding(OWN[1], gone(state=LeaseState.DEAD, uid="uid-of-c1")),  # the same cluster under another inventory name
        ],
    ),
    "CM-LEASE-04": (
        [lambda: holding(OWN[1], gone()), lambda: holding(OWN[1], gone(hours=23))],
        [
            lambda: holding(OWN[1], gone(hours=25)),
            lambda: holding(*OWN, gone()),
            lambda: holding(OWN[1], gone(uid="uid-of-c1")),
            lambda: holding(OWN[1], gone(since="")),
        ],
    ),
    "CM-LEASE-05": (
        [
            lambda: copies(kept(*OWN), RegistryFacts()),
            lambda: copies(kept(*OWN, text="{"), kept(*OWN)),
            lambda: copies(kept(*OWN, text=""), kept(*OWN)),
            lambda: copies(kept(*OWN), kept(OWN[0])),
            lambda: copies(kept(text="not JSON"), RegistryFacts()),
            lambda: copies(kept(*OWN, text=write_registry(Registry(mesh="another", leases=OWN))), kept(*OWN)),
        ],
        [
            lambda: holding(*OWN),
            lambda: copies(RegistryFacts(), RegistryFacts()),
            lambda: copies(kept(OWN[0]), RegistryFacts()),  # c2 joins and was never given a copy
        ],
    ),
    "CM-LEASE-06": (
        [lambda: copies(kept(*OWN, labels={}), kept(*OWN)), lambda: copies(kept(text=NEWER), kept(*OWN))],
        [lambda: holding(*OWN), lambda: copies(RegistryFacts(), kept(*OWN)), lambda: copies(kept(text="{"), kept(*OWN))],
    ),
    "CM-LEASE-16": (
        [
            lambda: three(kept(*THREE, gone("ghost", LeaseState.RESERVED, id=9))),
            lambda: three(kept(OWN[0], replace(OWN[1], state=LeaseState.DEAD, since=ago(1), serial=2), THREE[2])),
            lambda: three(kept(OWN[0], replace(OWN[1], uid="another", serial=MAX_SERIAL), THREE[2])),
            lambda: two_of_three(kept(OWN[0], replace(OWN[1], uid="another", serial=MAX_SERIAL), THREE[2]), kept(*THREE)),
        ],
        [
            lambda: three(kept(*THREE)),
            lambda: two_of_three(kept(*THREE), kept(*THREE)),
            lambda: two_of_three(kept(*THREE), RegistryFacts()),  # the only copy has nothing that contradicts it
            lambda: three(kept(*OWN)),
            lambda: three(RegistryFacts()),
            lambda: copies(kept(*OWN), kept(OWN[0], gone())),  # of two copies none is known to be wrong
        ],
    ),
    "CM-LEASE-15": (
        [lambda: holding(CLAIM, OWN[1])],
        [lambda: holding(*OWN), partial(holding, CLAIM, OWN[1], c1=cluster_facts("c1", config={"cluster-id": "0"}))],
    ),
}
