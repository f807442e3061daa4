# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Members that may be unreachable while the others are connected.

A member that the mesh already holds can be left as it is: its peers keep its entries, and nothing has to be known of it. One that was never
connected is different: a mesh without it is not what the binding describes, and its kubeconfig may simply be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..base.errors import CredentialsInvalid, Forbidden, InvalidInput, MissingLibrary
from .binding.model import Mesh
from .facts.cluster import ClusterFacts, ObserveFailure
from .ownership.objects import remembered_by_members

OWN_FAULT: Final = frozenset({InvalidInput.code, MissingLibrary.code})
"""Faults of the input or of the machine that runs the engine, which never count as a cluster that is down."""
REFUSED: Final = frozenset({CredentialsInvalid.code, Forbidden.code})
"""Refusals by a cluster that answers: bad input, unless ``max_failures`` allows them."""


def tolerated_failures(
    mesh: Mesh, facts: Mapping[str, ClusterFacts], failures: Mapping[str, ObserveFailure], max_failures: int | None
) -> frozenset[str]:
    """Return the members among ``failures`` that do not stop a run that connects.

    :param max_failures: number of members that may fail, whether the mesh holds them or not; with more, none is tolerated. None: any number
        of members that the mesh holds and that are down, and no other.
    """
    silent = [host for host in mesh.clusters if host in failures and failures[host].code not in OWN_FAULT]
    known = remembered_by_members(mesh, facts)
    if max_failures is None:
        return frozenset(host for host in silent if host in known and failures[host].code not in REFUSED)
    if len(silent) > max_failures or not can_connect(mesh, facts):
        return frozenset()
    return frozenset(silent)


def can_connect(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> bool:
    """Return whether a run has anything to do: a link between two members that answer, or one that exists already."""
    return any(peer in facts for host in mesh.clusters if host in facts for peer in mesh.peers(host)) or bool(
        remembered_by_members(mesh, facts)
    )
