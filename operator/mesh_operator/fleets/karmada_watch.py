# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Watch of Karmada: whose unit a change of a ResourceBinding or of a Cluster concerns, and what is there of tenants that are gone.

Statuses do not wait for the next check that way. Bindings are watched by their metadata alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import items, labels_of, text
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import (
    NAMESPACE_LABEL,
    WORKSPACE_LABEL,
    Tenant,
    karmada_namespace,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.orphans import OrphanedTenants

from ..base.api import Cluster
from ..base.keys import FleetKey
from ..base.kinds import UNITS, WORKLOAD

BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/resourcebindings"
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
PREFIX: Final = "kcp-"  # of the namespaces of tenants (fleet/names.py)
SEARCH: Final = 60.0  # seconds between two searches for orphans, and less with a shorter grace period

Object = dict[str, Any]


class KarmadaBindings:
    """Sink of the watch of ResourceBindings: a change concerns the workloads of the tenant whose namespace it is in.

    :param tenants: returns workspace and namespace of all tenants.
    :param touched: called with a unit whose turn should come.
    """

    def __init__(self, tenants: Callable[[], Collection[tuple[str, str]]], touched: Callable[[FleetKey], None]) -> None:
        self._tenants, self._touched = tenants, touched
        self._by_namespace: dict[str, tuple[str, str]] = {}

    def replace(self, objects: Iterable[Object]) -> None:
        """Take a whole list: after a break of the watch, anything may have changed."""
        for namespace in {text(obj, "metadata", "namespace") for obj in objects}:
            self._touch(namespace)

    def unserved(self) -> None:
        """Take that there are none."""

    def put(self, obj: Object) -> None:
        """Take an object that was added or modified."""
        self._touch(text(obj, "metadata", "namespace"))

    def missing(self, obj: Object) -> None:
        """Take an object that was deleted."""
        self.put(obj)

    def _touch(self, namespace: str) -> None:
        if not namespace.startswith(PREFIX):
            return
        if namespace not in self._by_namespace:
            self._by_namespace = {karmada_namespace(Tenant(*place)): place for place in self._tenants()}
        if (place := self._by_namespace.get(namespace)) is not None:
            self._touched(FleetKey(*place, WORKLOAD))


class KarmadaClusters:
    """Sink of the watch of Karmada's Clusters: one that becomes ready, ceases to be, or is deleted concerns both units of its tenant.

    :param touched: called with a unit whose turn should come.
    """

    def __init__(self, touched: Callable[[FleetKey], None]) -> None:
        self._touched, self._lock = touched, Lock()
        self._states: dict[str, tuple[Any, ...]] = {}  # reports of nodes and resources come every ten seconds, and say nothing here

    def replace(self, objects: Iterable[Object]) -> None:
        """Take a whole list."""
        found = {text(obj, "metadata", "name"): obj for obj in objects}
        for obj in found.values():
            self.put(obj)
        with self._lock:
            self._states = {name: state for name, state in self._states.items() if name in found}

    def unserved(self) -> None:
        """Take that there are none."""
        self.replace(())

    def put(self, obj: Object) -> None:
        """Take an object that was added or modified."""
        ready = next((entry.get("status") for entry in items(obj, "status", "conditions") if entry.get("type") == "Ready"), "")
        state = (ready, text(obj, "metadata", "deletionTimestamp"), labels_of(obj))
        with self._lock:
            name = text(obj, "metadata", "name")
            changed, self._states[name] = self._states.get(name) != state, state
        if changed:
            self._touch(obj)

    def missing(self, obj: Object) -> None:
        """Take an object that was deleted."""
        with self._lock:
            self._states.pop(text(obj, "metadata", "name"), None)
        self._touch(obj)

    def _touch(self, obj: Mapping[str, Any]) -> None:
        place = _place_of(obj)
        if place is not None:
            for unit in UNITS:
                self._touched(FleetKey(*place, unit))


class FleetOrphans:
    """Search for tenants in Karmada that have no custom resource any more (module_utils/fleet/orphans.py).

    Their workloads are removed. Clusters stay members, since nothing tells how to reach them.

    :param grace: seconds for which a tenant has to have none.
    :ivar due: monotonic seconds of the next search.
    """

    def __init__(self, karmada: Cluster, grace: float) -> None:
        self._karmada, self._pause, self._tenants = karmada, min(SEARCH, max(1.0, grace)), OrphanedTenants(grace)
        self.due = float("-inf")

    def search(self, tenants: Collection[tuple[str, str]], operator: Callable[[], str], now: float) -> frozenset[FleetKey] | None:
        """Return the units of orphaned tenants; None if Karmada does not answer.

        :param tenants: with custom resources. Call it only while every kind has been listed.
        :param operator: returns the operator's mark.
        :param now: monotonic seconds.
        """
        self._tenants.see(tenants)
        self.due = now + self._pause
        try:
            found = self._tenants.search(self._karmada.list("/api/v1/namespaces", label_selector=WORKSPACE_LABEL), tenants, operator(), now)
        except ClusterError:
            return None
        return frozenset(FleetKey(*tenant, WORKLOAD) for tenant in found)


def _place_of(obj: Mapping[str, Any]) -> tuple[str, str] | None:
    labels = labels_of(obj)
    place = labels.get(WORKSPACE_LABEL, ""), labels.get(NAMESPACE_LABEL, "")
    return place if all(place) else None
