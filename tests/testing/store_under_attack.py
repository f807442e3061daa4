# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A store in a process of its own, into which tenants put what takes most memory. Prints what that took, as JSON.

    python -m tests.testing.store_under_attack TOTAL_MIB OWN_MIB LARGE SMALL

LARGE workspaces have 40 objects each that take 2.5 MiB of memory and 100 KiB of JSON, SMALL ones have one small object each, and all are
listed twice. One workspace has a small mesh from before all that, and another one gets its mesh afterwards.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey
from mesh_operator.base.kinds import BINDING, SERVICE, WORKLOAD
from mesh_operator.base.workspace_bounds import WorkspaceBounds
from mesh_operator.source.store import Store

URL: Final = "https://shard-a/services/apiexport/x/n"
OBJECTS: Final = 40  # of each large workspace
_MIB: Final = 1024 * 1024


def made(workspace: str, name: str, day: int, **spec: Any) -> dict[str, Any]:
    """Return an object as an API server sends it: parsed from a text of its own."""
    annotations = {CLUSTER_ANNOTATION: workspace}
    metadata = {"name": name, "namespace": "default", "annotations": annotations, "creationTimestamp": f"2026-11-{day:02}T00:00:00Z"}
    text: dict[str, Any] = json.loads(json.dumps({"metadata": metadata, "spec": spec}))
    return text


def put_mesh(store: Store, workspace: str, day: int) -> None:
    """Put a binding with ten items."""
    store.put(URL, BINDING, made(workspace, "edge", day, clusterRefs=[{"name": "c1"}, {"name": "c2"}]))
    for number in range(10):
        store.put(URL, SERVICE, made(workspace, f"s{number}", day, meshRef={"name": "edge"}))


def accepted(store: Store, workspace: str) -> int:
    """Return how many objects of such a mesh are accepted."""
    mesh = store.mesh(MeshKey(workspace, "default", "edge"))
    return len(mesh.items[SERVICE]) + (mesh.binding is not None and not mesh.binding.beyond)


def peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def main(total: int, own: int, large: int, small: int) -> None:
    """Fill a store, and print its memory and whether the meshes are accepted."""
    store = Store(lambda *_: None, time.monotonic, WorkspaceBounds(bytes=own * _MIB, total_bytes=total * _MIB))
    put_mesh(store, "earlier", 1)
    before = peak()
    for _list in range(2):
        keys, take = [], store.listing(URL, WORKLOAD)
        for workspace in range(large):
            keys += [take(made(f"large-{workspace}", f"w{number}", 2, template=[{}] * 33_000)) for number in range(OBJECTS)]
        keys += [take(made(f"small-{workspace}", "w", 2)) for workspace in range(small)]
        store.listed(URL, WORKLOAD, keys)
    put_mesh(store, "later", 3)
    found = {"grown": peak() - before, "earlier": accepted(store, "earlier"), "later": accepted(store, "later")}
    kept = [stored for stored in store.of_kind(WORKLOAD) if not stored.beyond]
    print(json.dumps(found | {"kept": len(kept), "known": store.count(WORKLOAD), "ignored": store.ignored}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
