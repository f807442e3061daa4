# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which members may be silent while the others are connected.

A member that the mesh already holds can be left as it is: its peers keep what they have for it, and nothing has to be known of it. One that
was never connected is another matter: a mesh without it is not what was asked for, and its kubeconfig may simply be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .errors import CredentialsInvalid, Forbidden, InvalidInput, MissingLibrary
from .facts import ClusterFacts, ObserveFailure
from .model import Mesh
from .ownership import remembered_by_members

OWN_FAULT: Final = frozenset({InvalidInput.code, MissingLibrary.code})
"""What the user or his machine has wrong is never taken for a cluster that is down."""
REFUSED: Final = frozenset({CredentialsInvalid.code, Forbidden.code})
"""The cluster answers, and says no: bad input, unless the user counts it among the failures that he allows."""


def tolerated(
    mesh: Mesh, facts: Mapping[str, ClusterFacts], failures: Mapping[str, ObserveFailure], max_failures: int | None
) -> frozenset[str]:
    """Members among ``failures`` that do not stop a run that connects.

    :param max_failures: so many members may fail, known or not; with more, none is tolerated. None: any number of members that are
        known to the mesh and down, and no other.
    """
    silent = [host for host in mesh.clusters if host in failures and failures[host].code not in OWN_FAULT]
    known = remembered_by_members(mesh, facts)
    if max_failures is None:
        return frozenset(host for host in silent if host in known and failures[host].code not in REFUSED)
    if len(silent) > max_failures or not can_connect(mesh, facts):
        return frozenset()
    return frozenset(silent)


def can_connect(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> bool:
    """Is there anything that a run could do: a link between two that answer, or one that is there already?"""
    return any(peer in facts for host in mesh.clusters if host in facts for peer in mesh.peers(host)) or bool(
        remembered_by_members(mesh, facts)
    )
