# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Secrets of a namespace that have a label: their metadata alone, page by page, within bounds.

A writer of Secrets in a namespace chooses how many there are and how large they and their metadata are (metadata of one object has up
to 1 MiB, as labels have no bound of their own). So a page is reduced to names and our labels before the next one is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import NAME_LABEL

from .management_plane import CAPI_LABEL

CLUSTER_LABEL: Final = "networking.edge-portal.eu/cluster"
"""Label of a Secret with a kubeconfig: the name under which ClusterMeshBindings of its namespace refer to the cluster."""

ARGO_LABEL: Final = "argocd.argoproj.io/secret-type"
MOST: Final = 1000  # Secrets with one label in one namespace; a mesh has 255 clusters at most
PAGE: Final = 250  # Secrets
PAGES: Final = 64  # of one list; there are more than MOST / PAGE where metadata is large
PAGE_BYTES: Final = 2 * 1024 * 1024  # of a page; the largest object that etcd takes has 1.5 MiB
_KEPT: Final = (CLUSTER_LABEL, CAPI_LABEL, ARGO_LABEL, NAME_LABEL)

Object = dict[str, Any]


class SecretSource(Protocol):
    """API server with Secrets. ``kube.client.Cluster`` is one; its errors are ClusterErrors."""

    def get(self, path: str) -> Object | None:
        """Return one object; None if there is none (404)."""

    def page(
        self, path: str, *, token: str = "", label_selector: str = "", metadata_only: bool = False, most: int = 0, longest: int = 0
    ) -> Object | None:
        """Return one page of a collection of at most so many objects and bytes; None if there is no such resource (404)."""


class TooManySecrets(Exception):
    """Namespace with more Secrets of one label than are read."""


@dataclass(frozen=True, kw_only=True)
class SecretMetadata:
    """Name, version and our labels of a Secret."""

    name: str
    version: str
    labels: Mapping[str, str]


def secrets_path(namespace: str) -> str:
    """Return the path of the Secrets of a namespace."""
    return f"/api/v1/namespaces/{namespace}/secrets"


def labelled(api: SecretSource, namespace: str, selector: str) -> Iterator[list[SecretMetadata]]:
    """Yield the Secrets that a selector of labels chooses, page by page; one request is sent for each.

    :raises TooManySecrets: when there are more than MOST, or they fill more than PAGES.
    :raises ClusterError: when they cannot be read.
    """
    token, count = "", 0
    for _page in range(PAGES):
        page = api.page(secrets_path(namespace), token=token, label_selector=selector, metadata_only=True, most=PAGE, longest=PAGE_BYTES)
        found = [_reduced(obj["metadata"]) for obj in (page or {}).get("items") or ()]
        token, count = str(((page or {}).get("metadata") or {}).get("continue") or ""), count + len(found)
        if count > MOST:
            break
        yield found
        if not token:
            return
    raise TooManySecrets


def _reduced(metadata: Mapping[str, Any]) -> SecretMetadata:
    labels = metadata.get("labels") or {}
    kept = {key: str(labels[key]) for key in _KEPT if key in labels}
    return SecretMetadata(name=str(metadata["name"]), version=str(metadata.get("resourceVersion")), labels=kept)
