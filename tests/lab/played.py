# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a newer etcdinit would have put into a mesh etcd and an older one does not: user and role ``local``, and the narrower role
``remote``.

Source: cilium/cilium pkg/kvstore/etcdinit/init.go (rangesForLocalRole, rangesForRemoteRole) at 1.16 and 1.20; 1.15 lets ``remote`` read
all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.lab.translate import parse_version

ADMIN: Final = "apiserver"
"""Container of a mesh pod that has the admin certificate of its etcd."""

PROGRAM: Final = "/usr/bin/lab-etcd"
"""What makes the changes, in that container (tests/lab/tools/go/etcd/lab-etcd)."""

Keys = Mapping[str, bool]
"""Keys that a role may read; true: everything that begins with the key."""

_NARROW_SINCE = (1, 16)
# 1.16 leaves the cache open to `remote`: its agents still use that certificate toward their own kvstoremesh.
_NARROWER_SINCE = (1, 17)
_BOTH: Keys = {"cilium/.heartbeat": True, "cilium/.has-cluster-config": False}
_CACHE: Keys = {"cilium/cache/": True, "cilium/cluster-config/": True, "cilium/synced/": True}


def etcd_changes(cluster_name: str, profile: str, binary_version: str) -> Mapping[str, str | Keys] | None:
    """Return the argument of `PROGRAM`: ``{"user": …, "local": keys, "remote": keys}``; None when the binary does it all itself."""
    if parse_version(binary_version) >= _NARROW_SINCE or parse_version(profile) < _NARROW_SINCE:
        return None
    own = {f"cilium/cluster-config/{cluster_name}": False, f"cilium/synced/{cluster_name}/": True}
    more = _CACHE if parse_version(profile) < _NARROWER_SINCE else own
    return {"user": f"local-{cluster_name}", "local": {**_BOTH, **_CACHE}, "remote": {**_BOTH, "cilium/state/": True, **more}}
