# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Identity of the source of custom resources: the uid of an object that another cluster, or another kcp, cannot have.

API servers make uids and let no client choose them (kubernetes: apiserver/pkg/registry/rest/meta.go, FillObjectMetaSystemFields).
So a source that is made anew from a backup of its objects has another identity, whatever the backup holds. Restarts, renewed certificates,
other addresses and upgrades do not change it. Neither does a copy of the whole etcd, in which every uid is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ServerRefused

from ..base.api import Cluster, Connections
from ..base.keys import MeshKey

_EXPORTS: Final = "/apis/apis.kcp.io/v1alpha2/apiexports"  # as the manifests for kcp make them


def uid_of_cluster(cluster: Cluster) -> str:
    """Return the uid of namespace kube-system, which kubeadm and others use as the cluster's id.

    :raises ClusterError: when it cannot be read.
    """
    return _uid(cluster, "/api/v1/namespaces/kube-system", "namespace kube-system")


def uid_of_export(workspace: Cluster, export: str) -> str:
    """Return the uid of the APIExport.

    Not its ``status.identityHash``: that is the hash of a Secret, which a backup holds, too (kcp: pkg/reconciler/apis/apiexport). Not the
    logical cluster of its workspace: ``root`` has the same name in every kcp.

    :raises ClusterError: when it cannot be read.
    """
    return _uid(workspace, f"{_EXPORTS}/{export}", f"APIExport {export}")


def _uid(cluster: Cluster, path: str, what: str) -> str:
    found = cluster.get(path)
    if found is None:
        raise ServerRefused(f"There is no {what}, whose uid is the identity of the source.", status=404)
    return str(found["metadata"]["uid"])


class SourceIdentity:
    """Identity of the source, read when it is first needed. Thread-safe: two threads that read it at once read the same.

    :param connections: of the source.
    :param read: one of the functions above.
    :param workspace_of: returns the workspace of a namespace, from the identity, where that is how workspaces are named.
    """

    def __init__(
        self, connections: Connections, read: Callable[[Cluster], str], workspace_of: Callable[[str, str], str] | None = None
    ) -> None:
        self._connections, self._read, self._known, self._workspace_of = connections, read, "", workspace_of

    def __call__(self) -> str:
        """Return the identity.

        :raises ClusterError: when the source does not answer the first time.
        """
        self._known = self._known or self._read(self._connections.own())
        return self._known

    def has(self, key: MeshKey) -> bool | None:
        """Return whether the key is one of this source; None if the key does not tell.

        :raises ClusterError: as ``__call__``.
        """
        return None if self._workspace_of is None else self._workspace_of(self(), key.namespace) == key.workspace
