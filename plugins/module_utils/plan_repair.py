# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Taking back keys that a binding wrote and somebody changed since. Only on the user's word, and only these keys. Pure.

The write takes the keys out of the other managers' entries and changes no value; the write after it is the usual server-side apply, which
meets no owner any more. A value that changes between the two makes its writer the owner again, and the apply fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from .adopt import items
from .drift import was_ours
from .facts import ClusterFacts, PeerSecretFacts
from .managed_fields import data_key, owners, taken_from_all
from .peer_keys import Wanted, is_taken
from .steps import ApiWrite, Step


def repair_step(
    local: ClusterFacts, secret: PeerSecretFacts, data: Mapping[str, Wanted], peers: Mapping[str, str], manager: str, *, wave: int
) -> Step | None:
    """The write that lets nobody hold the changed keys; None when there are none, or nobody holds them.

    :param data: what connect will write into the Secret.
    :param peers: inventory name -> cluster name of the peers that it speaks of.
    """
    item = next((item for item in items(local) if item.facts is secret), None)
    keys = changed_keys(secret, data, peers, manager)
    paths = [data_key(key) for key in sorted(keys)]
    if item is None or not any(owners(item.entries, path) for path in paths):
        return None
    held = sorted({str(owner) for path in paths for owner in owners(item.entries, path)})
    metadata = {"uid": secret.uid, "resourceVersion": secret.resource_version, "managedFields": taken_from_all(item.entries, paths)}
    return Step(
        wave=wave,
        cluster=local.host,
        verb="patch",
        object=f"Secret {local.namespace}/{secret.name}",
        why=f"take back {', '.join(sorted(keys))}, which this binding wrote and {', '.join(held)} changed; the next step writes the values",
        undo="whoever changed the keys changes them again",
        action=ApiWrite(method="merge", path=f"/api/v1/namespaces/{local.namespace}/secrets/{secret.name}", body={"metadata": metadata}),
    )


def changed_keys(secret: PeerSecretFacts, data: Mapping[str, Wanted], peers: Mapping[str, str], manager: str) -> frozenset[str]:
    """Keys of ours that somebody else holds with another value now."""
    taken = {key for key in data if is_taken(secret.keys.get(key), data[key], manager)}
    hosts = {name: host for host, name in peers.items()}
    return frozenset(key for key in taken if was_ours(secret, key, hosts.get(_peer(key, hosts), ""), manager))


def _peer(key: str, names: Mapping[str, str]) -> str:
    """The cluster name that a key speaks of: itself, or what stands before the first dot; cluster names have none."""
    return key if key in names else key.partition(".")[0]
