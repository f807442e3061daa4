# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Keys of objects and units of work across all workspaces: logical cluster, namespace, name. The path of a workspace is for display only.

kcp: ``kcp.io/cluster`` is set by the storage layer and cannot be forged; paths can be taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import text

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"


class UnitKey(Protocol):
    """Key of a unit of work: what one turn of a worker is about."""

    @property
    def workspace(self) -> str:
        """Logical cluster."""

    @property
    def namespace(self) -> str:
        """Namespace of the objects."""

    @property
    def name(self) -> str:
        """Name of the unit, unlike those of all other units of the namespace."""


class MeshKey(NamedTuple):
    """Key of one mesh: a ClusterMeshBinding and everything in its namespace that refers to it."""

    workspace: str  # logical cluster
    namespace: str
    name: str  # of the binding


class FleetKey(NamedTuple):
    """Key of the clusters, or of the workloads, of a namespace."""

    workspace: str  # logical cluster
    namespace: str
    name: str  # kind of the objects (kinds.py, UNITS); no binding has it, as names of objects have no capitals


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
