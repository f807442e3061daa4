# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which object refers to which: items to their binding, bindings to their clusters, Fabrics to bindings, others to their tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from typing import Any, Final

import jmespath

from ..base.keys import ObjectKey
from ..base.kinds import BINDING, BY_KIND, CLUSTER, FABRIC, FLEET_ROWS

TENANT: Final = "Tenant"  # kind of the key to which all objects of a fleet refer
_CLUSTERS: Final = jmespath.compile("spec.clusterRefs[].name")
_OF_FLEETS: Final = frozenset(row.kind for row in FLEET_ROWS)

Object = dict[str, Any]


class References:
    """Objects that refer to an object, by its key. Its caller holds a lock."""

    def __init__(self) -> None:
        """Prepare it, without any."""
        self._users: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)

    def change(self, key: ObjectKey, before: Set[ObjectKey], after: Set[ObjectKey]) -> None:
        """Take that an object refers to other objects than before."""
        for other in before - after:
            users = self._users[other]
            users.discard(key)
            if not users:
                del self._users[other]
        for other in after - before:
            self._users[other].add(key)

    def users(self, key: ObjectKey) -> list[ObjectKey]:
        """Return the keys of objects that refer to this one, sorted."""
        return sorted(self._users.get(key, ()))

    def used(self, kind: str) -> list[ObjectKey]:
        """Return the keys of a kind to which an object refers, sorted. There may be no such object."""
        return sorted(to for to in self._users if to.kind == kind)

    def keep(self, known: Set[ObjectKey]) -> None:
        """Forget the references of all other objects than these."""
        self._users = defaultdict(set, {to: kept for to, users in self._users.items() if (kept := users & known)})


def references_of(key: ObjectKey, obj: Object) -> set[ObjectKey]:
    """Return the keys to which an object refers, in its namespace.

    These are the bindings that it belongs to (for a binding: itself), and the clusters that a binding names. A KubernetesCluster refers to
    one without a name, for all of them. A Fabric is part of no mesh; it refers to bindings as if they were Fabrics. Objects of the fleet
    side refer to their tenant.
    """
    if key.kind in _OF_FLEETS:
        tenant = ObjectKey(TENANT, key.workspace, key.namespace, "")
        return {tenant, key._replace(name="")} if key.kind == CLUSTER else {tenant}
    to = FABRIC if key.kind == FABRIC else BINDING
    clusters = (_CLUSTERS.search(obj) or ()) if key.kind == BINDING else ()
    named = {key._replace(kind=CLUSTER, name=name) for name in clusters if isinstance(name, str) and name}
    return named | {key._replace(kind=to, name=name) for name in BY_KIND[key.kind].names_of_bindings(obj)}
