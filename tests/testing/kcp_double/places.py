# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Logical clusters, and where their content is kept: each namespace of each logical cluster is a namespace of the real API server."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

ROOT: Final = "root"  # the first workspace, and the first shard
CLUSTER_LABEL: Final = "kcp-double.test/cluster"  # on real namespaces: whose they are
NAME_ANNOTATION: Final = "kcp-double.test/name"  # on real namespaces: what their owner calls them
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass
class Workspace:
    """A logical cluster. ``path`` is for display and for URLs outside virtual workspaces; it may be taken over by a later one."""

    cluster: str
    path: str
    shard: str


def new_cluster_name() -> str:
    """Like kcp's: 16 letters and digits that mean nothing."""
    return "".join(secrets.choice(_LETTERS) for _ in range(16))


class Places:
    """All logical clusters. Reading and writing single entries of a dict needs no lock (CPython)."""

    def __init__(self) -> None:
        self._workspaces: dict[str, Workspace] = {}
        self._origins: dict[str, tuple[str, str]] = {}

    def add(self, workspace: Workspace) -> None:
        self._workspaces[workspace.cluster] = workspace

    def forget(self, cluster: str) -> None:
        self._workspaces.pop(cluster, None)

    def find(self, place: str) -> Workspace | None:
        """By name of the logical cluster or by path."""
        return self._workspaces.get(place) or next((one for one in self.all() if one.path == place), None)

    def all(self) -> tuple[Workspace, ...]:
        return tuple(self._workspaces.values())

    def real(self, cluster: str, namespace: str) -> str:
        """The real namespace; "" for what lies in no namespace there, but in the logical cluster itself."""
        real = f"{cluster}-{hashlib.sha256(namespace.encode()).hexdigest()[:12]}" if namespace else f"{cluster}-root"
        self._origins[real] = (cluster, namespace)
        return real

    def origin(self, real: str) -> tuple[str, str] | None:
        """(logical cluster, namespace) of a real namespace; None when it is no logical cluster's."""
        return self._origins.get(real)
