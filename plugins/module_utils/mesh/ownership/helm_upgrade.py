# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the next Helm upgrade does to what others wrote into the objects that hold peers. Pure.

It depends on how Helm writes, which its entry in managedFields shows, and on the peers in Helm's values. Measured with Helm 4.3.1 and a
kube-apiserver 1.36.4 (tests/integration/test_helm_upgrades.py), and with the cilium CLI and the charts 1.16 to 1.20:

==================================  ===========================  ==========================  =====================
what others wrote                   three-way merge (Update)     server-side apply (Apply)   replacement
==================================  ===========================  ==========================  =====================
keys, Helm's values name peers      stay                         stay                        gone
keys, Helm's values name no peer    gone: the chart renders      stay; a new one is refused  gone
                                    ``data:`` without a value
users (one text)                    gone                         the upgrade fails           gone
host aliases of other addresses     stay                         stay                        gone
==================================  ===========================  ==========================  =====================

The cilium CLI, Helm 3, and Helm 4 for a release that was made by a merge do a three-way merge; Helm 4 applies server-side for new releases.
A replacement is ``--force-replace`` of Helm or ``Replace=true`` of Argo CD, and leaves no trace before it happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..binding.model import MANAGER_DOMAIN
from ..facts.cluster import ClusterFacts, PeerSecretFacts
from .gitops import HELM_NAME
from .managed_fields import APPLY, Entry, annotation, entries_of, fields_of_manager, owners

_DATA = ("f:data",)


@dataclass(frozen=True, kw_only=True)
class HelmUpgrade:
    """Effect of an upgrade with ``clustermesh.config.enabled=true`` and the values that Helm has."""

    peers: tuple[str, ...]  # that Helm's values name
    server_side: bool  # by server-side apply, else by a three-way merge
    empties_secrets: bool  # keys of others are removed
    refuses_keys: bool  # Helm owns the data as a whole, so the API server refuses keys of others
    has_users: bool  # clustermesh-apiserver reads users.yaml, so peers log in by their names

    @property
    def drops_users(self) -> bool:
        """Whether users of others are removed, and peers that log in by them are refused."""
        return self.has_users and not self.server_side

    @property
    def effect(self) -> str:
        """Clause that completes "its next upgrade would"."""
        if self.refuses_keys:
            return "fail or be forced, and until then the API server refuses keys beside Helm's"
        if self.empties_secrets:
            return "remove every link made here, as Helm's values name no peer"
        if self.drops_users:
            return "keep the keys made here and remove their users, so that peers which log in by name are refused"
        if self.has_users:
            return "fail with a conflict over the users made here"
        return "keep the keys made here, but a forced one removes them, and so does clustermesh.config.enabled=false"


def helm_upgrade(cluster: ClusterFacts) -> HelmUpgrade:
    """Return the effect of the next upgrade on what this collection writes into a cluster whose objects Helm owns."""
    secrets = [secret for secret in (cluster.clustermesh, cluster.kvstoremesh) if secret.present]
    peers: set[str] = set()
    emptied = refused = server_side = False
    for secret in secrets:
        entries = entries_of(cluster.writers.get(f"Secret {secret.name}", ()))
        mine = _managers(entries)
        named = _peers(secret, mine)
        applied = APPLY in {owner.operation for owner in owners(entries, annotation(HELM_NAME))}
        whole = any(fields_of_manager(entries, manager, _DATA) == (_DATA,) for manager in mine)
        peers |= named
        server_side |= applied
        emptied |= not named and not applied
        refused |= applied and whole
    return HelmUpgrade(
        peers=tuple(sorted(peers)),
        server_side=server_side,
        empties_secrets=emptied,
        refuses_keys=refused,
        has_users=cluster.users_enabled,
    )


def _managers(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the managers under which Helm writes the object, as its own annotation shows."""
    return frozenset(owner.manager for owner in owners(entries, annotation(HELM_NAME)) if not owner.manager.startswith(MANAGER_DOMAIN))


def _peers(secret: PeerSecretFacts, helm: frozenset[str]) -> frozenset[str]:
    """Return the peers in Helm's values: keys that Helm owns, or, where its manager is not known, keys that no binding owns."""
    return frozenset(
        name
        for name, key in secret.keys.items()
        if "." not in name
        and (helm & set(key.managers) if helm else not any(manager.startswith(MANAGER_DOMAIN) for manager in key.managers))
    )
