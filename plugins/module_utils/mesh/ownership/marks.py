# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names of the labels and annotations with which a binding marks its objects. They never change, so earlier meshes stay recognisable."""

from __future__ import annotations

from ..binding.model import MANAGER_DOMAIN

OWNER_LABEL = f"{MANAGER_DOMAIN}/owner"


MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"


SOURCE_NAME_LABEL = "edge-connect.eu/source-name"


SOURCE_WORKSPACE_LABEL = "edge-connect.eu/source-workspace"


PEERS_ANNOTATION = f"peers.{MANAGER_DOMAIN}"  # followed by /<owner>: JSON {inventory name: cluster name} of the peers in a Secret


ADOPTED_ANNOTATION = (
    f"adopted.{MANAGER_DOMAIN}"  # followed by /<owner>: the values before this binding adopted the object (links/adopted_values.py)
)


MOVES_ANNOTATION = (
    f"moves.{MANAGER_DOMAIN}"  # followed by /<owner>, at a workload: when addresses changed (mesh/endpoints/address_moves.py)
)


USERS_ANNOTATION = f"users.{MANAGER_DOMAIN}"  # followed by /<owner>: the users that a binding added, comma-separated
