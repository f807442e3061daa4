# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Watched objects of the management plane: Clusters, and of Secrets only the versions.

A Secret is got when a mesh needs it, passed on unread, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import Any, Final, Protocol

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import WORKSPACE_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.deadlines import all_within, deadline_passed

from ..base.api import Api
from ..base.keys import FleetKey, UnitKey
from ..base.log import log
from ..source.stored import Stored
from .management_plane import (
    NotUsable,
    SealedKubeconfig,
    SecretRef,
    cluster_of,
    owner_of,
    sealed_kubeconfig,
    secret_of,
    secret_ref,
)

Object = dict[str, Any]
UNAVAILABLE: Final = "ManagementPlaneUnavailable"
RESOLVING: Final = 240.0  # seconds for the credentials of all clusters of a turn: for 255 of them some 800 requests
NOT_IN_TIME: Final = "Its credentials were not read in time: the management plane answers slowly. They are read again soon."
Touched = Callable[[str], None]  # called with a logical cluster whose meshes have to be reconciled


class ClusterSource(Protocol):
    """Source of the credentials of tenants' clusters."""

    def resolve_all(
        self, key: UnitKey, names: Mapping[str, Stored | None], ended: Callable[[], bool]
    ) -> dict[str, SealedKubeconfig | NotUsable]:
        """Return the kubeconfigs of clusters of that workspace, unread, or the reasons why there are none, within RESOLVING seconds.

        :param names: of clusters, with their KubernetesClusters.
        :param ended: returns whether the turn has ended. Nothing more is read then.
        """
        ...


class NoTimeLeft(Exception):
    """End of the time for credentials, or of the turn for which they are read."""


def in_time(
    names: Iterable[str], resolve: Callable[[str, Callable[[], None]], SealedKubeconfig | NotUsable], ended: Callable[[], bool]
) -> dict[str, SealedKubeconfig | NotUsable]:
    """Return what ``resolve`` returns for each name, within RESOLVING seconds. What is not resolved by then is not usable.

    :param resolve: called with a name, and with a function that it calls before each request; that raises NoTimeLeft.
    """

    def check() -> None:
        if deadline_passed() or ended():
            raise NoTimeLeft

    found: dict[str, SealedKubeconfig | NotUsable] = {}
    with all_within(RESOLVING):
        for name in names:
            try:
                found[name] = resolve(name, check)
            except NoTimeLeft:
                found[name] = NotUsable(name=name, reason=UNAVAILABLE, message=NOT_IN_TIME)
    return found


class Clusters:
    """Clusters of the management plane, with the credentials of those that a mesh needs.

    Thread-safe: the mappings are replaced and never changed.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        touched: Touched,
        *,
        unlabelled: bool = False,
        by_name: str = "",
        workspace_of_label: Callable[[str], str] = str,
    ) -> None:
        """Prepare the clusters.

        :param unlabelled: use Secrets without the label of a workspace too, if Clusters of one workspace alone name them.
        :param by_name: workspace to which Clusters without the label belong, and the Secrets that they name; "" for none.
        :param workspace_of_label: returns the workspace that the label of a Cluster or Secret names.
        """
        self._workspace_of_label = workspace_of_label
        self._api, self._namespace, self._touched, self._unlabelled, self._by_name = api, namespace, touched, unlabelled, by_name
        self._reported = frozenset[str]()  # names of the Clusters without a workspace
        self.objects = _Collection(self._cluster_changed, self._labelled)
        self.secrets = _Collection(self._secret_changed, _named)

    def resolve_all(
        self, key: UnitKey, names: Mapping[str, Stored | None], ended: Callable[[], bool]
    ) -> dict[str, SealedKubeconfig | NotUsable]:
        """Return the kubeconfigs of clusters of that workspace, unread, or the reasons why there are none; see ``ClusterSource``."""

        def resolve(name: str, check: Callable[[], None]) -> SealedKubeconfig | NotUsable:
            check()
            return self.resolve(key, name, names[name])

        return in_time(names, resolve, ended)

    def resolve(self, key: UnitKey, name: str, kubernetes_cluster: Stored | None) -> SealedKubeconfig | NotUsable:
        """Return the kubeconfig of a cluster of that workspace, unread, or the reason why there is none."""
        if not self.objects.listed:
            return NotUsable(name=name, reason=UNAVAILABLE, message="The operator has not read the management plane yet.")
        cluster = cluster_of(self.objects.known.values(), key.workspace, key.namespace, name, self._by_name)
        if isinstance(cluster, NotUsable):
            return cluster
        ref = secret_of(cluster, name, with_cilium=not isinstance(key, FleetKey))
        if isinstance(ref, NotUsable):
            return ref
        try:
            secret = self._api.get(f"/api/v1/namespaces/{self._namespace}/secrets/{ref.name}")
            secret = None if secret is None else self._labelled(secret)
        except ClusterError as error:
            return NotUsable(name=name, reason=UNAVAILABLE, message=f"Its kubeconfig cannot be read ({error.code}).")
        seen = kubernetes_cluster.obj if kubernetes_cluster else None
        permitted = self._unlabelled or not owner_of(cluster)
        found = sealed_kubeconfig(name, seen, ref, secret, owner=cluster, unlabelled=lambda: permitted and self._named_once(ref))
        if isinstance(found, NotUsable) and found.detail:
            log("cluster_not_usable", workspace=key.workspace, namespace=key.namespace, name=name, reason=found.detail)
        return found

    def _labelled(self, obj: Object) -> Object:
        """Return an object whose label, if it has one, names the workspace itself."""
        metadata = obj.get("metadata") or {}
        labels = metadata.get("labels") or {}
        if WORKSPACE_LABEL not in labels:
            return obj
        workspace = self._workspace_of_label(str(labels[WORKSPACE_LABEL]))
        return {**obj, "metadata": {**metadata, "labels": {**labels, WORKSPACE_LABEL: workspace}}}

    def _named_once(self, ref: SecretRef) -> bool:
        """Return whether Clusters of one workspace alone name the Secret, ready or not: else one of them names another one's."""
        naming = [cluster for cluster in self.objects.known.values() if secret_ref(cluster).name == ref.name]
        return len({owner_of(cluster, self._by_name) for cluster in naming}) == 1

    def report_unlabelled(self) -> int:
        """Return how many Clusters belong to no workspace, and log those that did not before. The log is the platform's alone."""
        now = frozenset(name for name, cluster in self.objects.known.items() if not owner_of(cluster, self._by_name))
        new, self._reported = sorted(now - self._reported), now
        if new:
            log("clusters_unlabelled", level=WARNING, count=len(now), name=", ".join(new))
        return len(now)

    def _cluster_changed(self, before: Object | None, after: Object | None) -> None:
        for obj in (before, after):
            if obj is not None and (workspace := owner_of(obj, self._by_name)):
                self._touched(workspace)

    def _secret_changed(self, before: Object | None, after: Object | None) -> None:
        name = ((after or before or {}).get("metadata") or {}).get("name")
        for cluster in self.objects.known.values():
            ref = secret_of(cluster, "")
            if isinstance(ref, SecretRef) and ref.name == name:
                self._cluster_changed(None, cluster)


class _Collection:
    """Objects of one collection by name; calls ``changed`` for those whose resourceVersion changed.

    ``kept`` returns what is kept of an object.
    """

    def __init__(self, changed: Callable[[Object | None, Object | None], None], kept: Callable[[Object], Object]) -> None:
        self._kept = kept
        self.known: dict[str, Object] = {}
        self.listed = False
        self._changed = changed

    def replace(self, objects: Iterable[Object]) -> None:
        """Replace all objects by a new list."""
        before, after = self.known, {str(obj["metadata"]["name"]): self._kept(obj) for obj in objects}
        again, self.known, self.listed = self.listed, after, True
        for name in before.keys() | after.keys():
            if again and _version(before.get(name)) != _version(after.get(name)):
                self._changed(before.get(name), after.get(name))

    def unserved(self) -> None:
        """Replace all objects by none: without them no cluster can be used."""
        self.replace(())

    def put(self, obj: Object) -> None:
        """Store one object that was added or modified."""
        name = str(obj["metadata"]["name"])
        before, after = self.known.get(name), self._kept(obj)
        self.known = {**self.known, name: after}
        self._changed(before, after)

    def missing(self, obj: Object) -> None:
        """Drop one object that was deleted."""
        name = str(obj["metadata"]["name"])
        self.known = {other: entry for other, entry in self.known.items() if other != name}
        self._changed(self._kept(obj), None)


def _named(obj: Object) -> Object:
    """Return name and version alone. The metadata of a Secret may hold its values: kubectl's last-applied-configuration."""
    return {"metadata": {key: obj["metadata"].get(key) for key in ("name", "resourceVersion")}}


def _version(obj: Object | None) -> str:
    return str(((obj or {}).get("metadata") or {}).get("resourceVersion"))
