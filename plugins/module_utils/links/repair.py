# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Repair of keys that a binding wrote and another writer changed since. Only if the user asks for it, and only these keys. Pure.

The write removes the keys from the other managers' entries and changes no value; the write after it is the usual server-side apply, which
meets no owner any more. A value that changes between the two makes its writer the owner again, and the apply fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from ..mesh.ownership.managed_fields import data_key, owners, remove_owners
from ..plan.steps import ApiWrite, Step
from .adopted_values import peer_objects
from .drift import was_ours
from .peer_keys import DesiredKeys, would_conflict


def repair_step(
    local: ClusterFacts, secret: PeerSecretFacts, data: Mapping[str, DesiredKeys], peers: Mapping[str, str], manager: str, *, wave: int
) -> Step | None:
    """Return the write that removes every owner from the changed keys; None if there are none, or they have no owner.

    :param data: what connect will write into the Secret.
    :param peers: inventory name -> cluster name of the peers that ``data`` is about.
    """
    item = next((item for item in peer_objects(local) if item.facts is secret), None)
    keys = changed_keys(secret, data, peers, manager)
    paths = [data_key(key) for key in sorted(keys)]
    if item is None or not any(owners(item.entries, path) for path in paths):
        return None
    held = sorted({str(owner) for path in paths for owner in owners(item.entries, path)})
    metadata = {"uid": secret.uid, "resourceVersion": secret.resource_version, "managedFields": remove_owners(item.entries, paths)}
    return Step(
        wave=wave,
        cluster=local.host,
        verb="patch",
        object=f"Secret {local.namespace}/{secret.name}",
        why=f"take back {', '.join(sorted(keys))}, which this binding wrote and {', '.join(held)} changed; the next step writes the values",
        undo="the other writer sets the keys again",
        action=ApiWrite(method="merge", path=f"/api/v1/namespaces/{local.namespace}/secrets/{secret.name}", body={"metadata": metadata}),
    )


def changed_keys(secret: PeerSecretFacts, data: Mapping[str, DesiredKeys], peers: Mapping[str, str], manager: str) -> frozenset[str]:
    """Return the binding's keys that another writer owns with another value now."""
    taken = {key for key in data if would_conflict(secret.keys.get(key), data[key], manager)}
    hosts = {name: host for host, name in peers.items()}
    return frozenset(key for key in taken if was_ours(secret, key, hosts.get(_peer(key, hosts), ""), manager))


def _peer(key: str, names: Mapping[str, str]) -> str:
    """Return the cluster name that a key is about: the key itself, or the part before the first dot; cluster names have none."""
    return key if key in names else key.partition(".")[0]
