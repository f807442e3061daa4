# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Process that finds the credentials of clusters in a namespace, as the operator does in a turn, and prints what that cost.

python -m tests.integration.resolving KUBECONFIG NAMESPACE NAME...

It prints JSON: ``reasons`` by name ("" if the cluster can be used), ``requests`` by verb and resource, ``grown`` (bytes by which the peak
of its memory rose) and ``seconds``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from mesh_operator.base.api import Connections
from mesh_operator.base.keys import MeshKey
from mesh_operator.credentials.clusters import Clusters
from mesh_operator.credentials.management_plane import NotUsable
from mesh_operator.credentials.namespace_clusters import NamespaceClusters


def peak() -> int:
    """Return the most bytes of memory that this process ever had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def main(kubeconfig: str, namespace: str, names: list[str]) -> None:
    with Connections("the management plane", kubeconfig, "--mgmt-kubeconfig") as connections:
        api = connections.own()
        api.get(f"/api/v1/namespaces/{namespace}")  # what is imported with the first request is no cost of Secrets
        api.requests.clear()
        clusters = NamespaceClusters(api, Clusters(api, "platform", lambda _: None), "platform", lambda _: None)
        before, began = peak(), time.monotonic()
        found = clusters.resolve_all(MeshKey("w", namespace, "edge"), dict.fromkeys(names), lambda: False)
        seconds = time.monotonic() - began
        reasons = {name: entry.reason if isinstance(entry, NotUsable) else "" for name, entry in found.items()}
        print(json.dumps({"reasons": reasons, "requests": api.requests, "grown": peak() - before, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
