# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tenants in Karmada of which an operator has no custom resource any more: a finalizer was removed by hand. Pure.

Only tenants that are known to be the operator's own count. It has seen their custom resources since it started, or their namespace in
Karmada has its mark, which a restart does not lose. All others may be those of a playbook's user or of another operator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..base.json_fields import annotations_of, labels_of, text
from .names import NAMESPACE_LABEL, OPERATOR_ANNOTATION, WORKSPACE_LABEL, Tenant, karmada_namespace


class OrphanedTenants:
    """Search for them over time.

    :param grace: seconds for which a tenant has to have no custom resource.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._since: dict[Tenant, float] = {}
        self._seen: set[Tenant] = set()

    def see(self, tenants: Iterable[tuple[str, str]]) -> None:
        """Take note of tenants with custom resources: workspace and namespace of each."""
        self._seen.update(Tenant(*place) for place in tenants)

    def search(
        self, namespaces: Iterable[Mapping[str, Any]], tenants: Collection[tuple[str, str]], operator: str, now: float
    ) -> frozenset[Tenant]:
        """Return the tenants that are orphans now.

        :param namespaces: of Karmada, those of tenants among them.
        :param tenants: with custom resources; call it only while every kind has been listed.
        :param operator: identity of the operator, the mark of what it made; "" marks nothing.
        :param now: seconds of a clock that never goes back.
        """
        operators: dict[Tenant, str] = {}
        for found in namespaces:
            labels = labels_of(found)
            tenant = Tenant(labels.get(WORKSPACE_LABEL, ""), labels.get(NAMESPACE_LABEL, ""))
            if all(tenant) and text(found, "metadata", "name") == karmada_namespace(tenant):  # labels alone could be set by hand
                operators[tenant] = annotations_of(found).get(OPERATOR_ANNOTATION, "")
        own = {tenant for tenant, mark in operators.items() if mark == (operator or None) or (tenant in self._seen and not mark)}
        absent = own - {Tenant(*place) for place in tenants}
        self._since = {tenant: self._since.get(tenant, now) for tenant in absent}
        return frozenset(tenant for tenant, since in self._since.items() if now - since >= self._grace)
