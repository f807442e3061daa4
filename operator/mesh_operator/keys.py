# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Keys of objects and meshes across all workspaces: logical cluster, namespace and name. The path of a workspace is for display only.

kcp: ``kcp.io/cluster`` is set by the storage layer and cannot be forged; paths can be taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import text

from .management_plane import CLUSTER_ANNOTATION

__all__ = ["CLUSTER_ANNOTATION", "MeshKey", "ObjectKey", "key_of"]


class MeshKey(NamedTuple):
    """Key of one mesh: a ClusterMeshBinding and everything in its namespace that refers to it. The unit of work."""

    workspace: str  # logical cluster
    namespace: str
    name: str  # of the binding


class ObjectKey(NamedTuple):
    """Key of one object."""

    kind: str
    workspace: str
    namespace: str
    name: str


def key_of(kind: str, obj: Mapping[str, Any]) -> ObjectKey | None:
    """Return the key of an object; None without the annotation, because its workspace is then not known."""
    workspace, name = text(obj, "metadata", "annotations", CLUSTER_ANNOTATION), text(obj, "metadata", "name")
    return ObjectKey(kind, workspace, text(obj, "metadata", "namespace"), name) if workspace and name else None
