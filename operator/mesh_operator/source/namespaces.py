# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Source without kcp: the kinds as CRDs in one ordinary cluster, whose namespaces are the tenants.

The rest of the operator sees it as one virtual workspace with a workspace per namespace: paths lose their first part on the way out, and
objects get the annotation of their workspace on the way in, whatever their owner wrote there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Defect

from ..base.api import Cluster, Connections, Object
from ..base.keys import CLUSTER_ANNOTATION
from .source_identity import SourceIdentity

URL: Final = "kubernetes"  # of the one virtual workspace
_PATH: Final = re.compile(r"/clusters/(?P<workspace>[^/]+)(?P<rest>/.*)")
_MARK: Final = re.compile("[0-9a-f]{16}")
_NAMESPACE: Final = re.compile(r"/namespaces/(?P<namespace>[^/]+)/")


def workspace_of(identity: str, namespace: str) -> str:
    """Return the workspace of a namespace: as long as a logical cluster of kcp, and different in every cluster.

    Marks on members' objects have it, so that operators of two clusters with equal namespaces never take each other's objects for theirs.

    :param identity: of the cluster (source_identity.py).
    """
    return sha256(f"{identity}/{namespace}".encode()).hexdigest()[:16]


def is_mark(label: str) -> bool:
    """Return whether a text has the form of a workspace. A namespace may have such a name, and is known by its workspace alone then."""
    return _MARK.fullmatch(label) is not None


def workspace_of_label(identity: str, label: str) -> str:
    """Return the workspace that the label of a Cluster or Secret of the management plane names; "" for none.

    People write the name of the namespace there. A text in the form of a workspace is one, as versions before asked for it: each text has
    one meaning, whatever names tenants give their namespaces.
    """
    return label if not label or is_mark(label) else workspace_of(identity, label)


class NamespacedApi:
    """Requests to the cluster under the paths of a virtual workspace. It has the methods of ``Cluster`` that the operator uses."""

    def __init__(self, cluster: Cluster, identity: str) -> None:
        self._cluster, self._identity = cluster, identity

    def get(self, path: str) -> Object | None:
        """Return one object; None if there is none."""
        found = self._cluster.get(self._own(path))
        return None if found is None else self._marked(found)

    def page(self, path: str, **options: Any) -> Object | None:
        """Return one page of a collection."""
        found = self._cluster.page(self._own(path), **options)
        return None if found is None else {**found, "items": [self._marked(obj) for obj in found.get("items") or ()]}

    def watch(self, path: str, **options: Any) -> Iterator[Object]:
        """Yield events of a collection."""
        for event in self._cluster.watch(self._own(path), **options):
            obj = event.get("object") or {}
            yield {**event, "object": self._marked(obj) if (obj.get("metadata") or {}).get("namespace") else obj}

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Create an object."""
        return self._marked(self._cluster.create(self._own(path), body, manager=manager))

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Change an object."""
        return self._marked(self._cluster.merge_patch(self._own(path), body, manager=manager))

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        """Delete an object."""
        self._cluster.delete(self._own(path), uid=uid, resource_version=resource_version)

    def _own(self, path: str) -> str:
        """Return the path in the cluster. A workspace and a namespace that do not belong together are a defect of the operator."""
        match = _PATH.fullmatch(path)
        if match is None:
            raise Defect("A path without a workspace was asked for.")
        namespace = _NAMESPACE.search(match["rest"])
        if match["workspace"] != "*" and (namespace is None or workspace_of(self._identity, namespace["namespace"]) != match["workspace"]):
            raise Defect("An object was asked for in the namespace of another tenant.")
        return match["rest"]

    def _marked(self, obj: Object) -> Object:
        metadata = obj.get("metadata") or {}
        workspace = workspace_of(self._identity, str(metadata.get("namespace") or ""))
        return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: workspace}}}


class NamespaceTenants:
    """Connections to the cluster as those to kcp, with one URL. Thread-safe.

    :param connections: of the cluster that has the namespaces.
    """

    def __init__(self, connections: Connections, identity: SourceIdentity) -> None:
        self._connections, self._identity = connections, identity

    def own(self) -> Cluster:
        """Return the cluster itself."""
        return self._connections.own()

    def at(self, _url: str) -> NamespacedApi:
        """Return the virtual workspace.

        :raises ClusterError: when the cluster does not answer the first time.
        """
        return NamespacedApi(self._connections.own(), self._identity())
