# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a newer etcdinit would have put into a mesh etcd and an older one does not: user and role ``local``, and the narrower role
``remote``.

Source: cilium/cilium pkg/kvstore/etcdinit/init.go (rangesForLocalRole, rangesForRemoteRole) at 1.16 and 1.20; 1.15 lets ``remote`` read
all.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.lab.translate import parse_version

Command = tuple[str, ...]

ETCDCTL: Command = (
    "/usr/bin/etcdctl",
    "--endpoints=https://127.0.0.1:2379",
    "--cacert=/var/lib/cilium/etcd-secrets/ca.crt",
    "--cert=/var/lib/cilium/etcd-secrets/tls.crt",
    "--key=/var/lib/cilium/etcd-secrets/tls.key",
)
"""Works in container ``apiserver``, which has the admin certificate."""

_NARROW_SINCE = (1, 16)
# 1.16 leaves the cache open to `remote`: its agents still use that certificate toward their own kvstoremesh.
_NARROWER_SINCE = (1, 17)


def etcd_changes(cluster_name: str, profile: str, binary_version: str) -> Sequence[Sequence[Command]]:
    """Arguments for etcdctl, in stages: those of one stage may run side by side. Empty when the binary does it all itself."""
    if parse_version(binary_version) >= _NARROW_SINCE or parse_version(profile) < _NARROW_SINCE:
        return ()
    local = [("cilium/.heartbeat", True), ("cilium/.has-cluster-config", False)]
    local += [("cilium/cache/", True), ("cilium/cluster-config/", True), ("cilium/synced/", True)]
    remote = [("cilium/.heartbeat", True), ("cilium/.has-cluster-config", False), ("cilium/state/", True)]
    if parse_version(profile) < _NARROWER_SINCE:
        remote += [("cilium/cache/", True), ("cilium/cluster-config/", True), ("cilium/synced/", True)]
    else:
        remote += [(f"cilium/cluster-config/{cluster_name}", False), (f"cilium/synced/{cluster_name}/", True)]
    user = f"local-{cluster_name}"
    return (
        (("role", "add", "local"), ("user", "add", user, "--no-password"), ("role", "revoke-permission", "remote", "", "--from-key")),
        (
            ("user", "grant-role", user, "local"),
            *(_grant("local", *place) for place in local),
            *(_grant("remote", *place) for place in remote),
        ),
    )


def _grant(role: str, key: str, prefix: bool) -> Command:
    return ("role", "grant-permission", role, "read", key, *(("--prefix=true",) if prefix else ()))
