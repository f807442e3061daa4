# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lock of a lab's mesh: who holds it, and a holder that does nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.clocks import real_clocks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.member import MemberLock
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.state import LockState
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from tests.integration.mesh_lab import NAMESPACE, MeshLab

LONG: Final = 3600  # seconds


def holder(lab: MeshLab, cluster: str) -> str:
    """Return who holds the lock in a cluster; "" for no run."""
    owner = parse(lab.mesh(), lab.names).binding.owner
    found = lab.api(cluster).get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/cilium-mesh-{owner}")
    return str(((found or {}).get("spec") or {}).get("holderIdentity") or "")


@contextmanager
def held_lock(lab: MeshLab, name: str) -> Iterator[None]:
    """Hold the lock in every cluster as a run of this name would, for as long as the block takes."""
    binding = parse(lab.mesh(), lab.names).binding
    with ExitStack() as stack:
        for host in lab.names:
            access = ClusterAccess(host=host, kubeconfig=str(lab.lab.clusters[host].kubeconfig), context=None)
            cluster = stack.enter_context(open_cluster(access))
            lock = MemberLock(cluster, binding, holder=name, duration=LONG, clocks=real_clocks())
            assert lock.take(LockState()).held
            stack.callback(lock.release)
        yield
