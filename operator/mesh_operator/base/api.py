# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""API servers of kcp and the management plane, by base URL, over the engine's client (module_utils/kube/client.py)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, Self

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster as Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Timeouts, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess

MANAGER = "mesh-operator"
Object = dict[str, Any]


class Api(Protocol):
    """Requests of the operator to an API server. ``Cluster`` of the engine implements it.

    Every method raises errors of module_utils/base/errors.py; ServerRefused has the HTTP status (409 is WriteConflict).
    """

    def get(self, path: str) -> Object | None:
        """Return one object; None if there is none (404)."""

    def page(self, path: str, *, token: str = "", field_selector: str = "", metadata_only: bool = False) -> Object | None:
        """Return one page of a collection; None if there is no such resource (404)."""

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Create an object in a collection."""

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Change an object by a JSON merge patch (RFC 7386)."""

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        """Delete one object; do nothing if it is gone already."""


class Connections:
    """API servers with the credentials of one kubeconfig ("": the pod's service account), one client per URL. Thread-safe.

    :param name: name of the servers in messages.
    :param flag: the flag that names the kubeconfig.
    :param connections: as many as threads that use one URL at once.
    """

    def __init__(self, name: str, kubeconfig: str, flag: str, *, connections: int = 16, timeouts: Timeouts | None = None) -> None:
        self._access = ClusterAccess(host=name, kubeconfig=kubeconfig or None, context=None)
        self._kubeconfig, self._flag = Path(kubeconfig), flag
        self._began = self._content()
        self._connections, self._timeouts, self._lock = connections, timeouts, Lock()
        self._opened: dict[str, Cluster] = {}

    def own(self) -> Cluster:
        """Return the server that the kubeconfig names; for kcp it serves the provider's workspace.

        :raises ClusterError: as ``open_cluster``.
        """
        return self.at("")  # the server that the kubeconfig names; of kcp it is the provider's workspace

    def at(self, url: str) -> Cluster:
        """Return the server at another URL that the owner of the credentials vouches for: a virtual workspace of the operator's own slice.

        :raises ClusterError: as ``open_cluster``.
        """
        with self._lock:
            if url not in self._opened:
                try:
                    self._opened[url] = open_cluster(self._access, timeouts=self._timeouts, connections=self._connections, server=url)
                except CredentialsInvalid as error:
                    error.remedy = f"Correct {self._flag}."  # the engine's remedy is about hosts of inventories
                    raise
            return self._opened[url]

    def addresses(self) -> list[str]:
        """Return HOST:PORT of each server that was asked for."""
        with self._lock:
            return [cluster.address for cluster in self._opened.values()]

    def _content(self) -> str:
        with suppress(OSError):
            return sha256(self._kubeconfig.read_bytes()).hexdigest()
        return ""  # it cannot be read just now

    def outdated(self) -> list[str]:
        """Return a sentence if the file holds another kubeconfig than at the start, else nothing."""
        now = self._content()
        return [f"the file of {self._flag} has changed, and is read at the start"] if now and now != self._began else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all clients."""
        with self._lock:
            for cluster in self._opened.values():
                cluster.close()
