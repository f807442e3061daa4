# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Many "clusters" on one API server: each is a namespace with all the objects of a Cilium profile.

Every API call stays real. Nodes belong to no namespace, so there are none; nothing runs, so the statuses of workloads are written here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.lab import profiles
from tests.lab.addresses import NETWORK
from tests.lab.api import LabApi, Object, path_of
from tests.lab.tools.crds import crds_for_profile
from tests.testing.one_server import OneServer

_AT_ONCE = 4
_WORKLOADS = ("DaemonSet", "Deployment")


def install_definitions(api: LabApi, version: str = "1.20") -> None:
    """Cilium's CRDs, once for all."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(api.create, crds_for_profile(version)))


def install_clusters(
    server: OneServer, names: Sequence[str], *, version: str = "1.20", first_id: int = 1, each: Callable[[str], None] = lambda name: None
) -> None:
    """Make the clusters ``names``, with ids from ``first_id`` on and a CA each, not yet meshed. ``each`` is called when one is there."""

    def one(numbered: tuple[int, str]) -> None:
        number, name = numbered
        pool = f"10.{number}.0.0/16"
        options = profiles.ProfileOptions(cluster_name=name, cluster_id=number, version=version, namespace=name, pod_cidr_pool=pool)
        for obj in profiles.build(options):
            created = server.api.create(obj, field_manager=profiles.manager_of(options, obj))
            _give_status(server.api, created | {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}, f"127.{server.lab}.200.{number}")
        each(name)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, enumerate(names, first_id)))


def reset_clusters(api: LabApi, names: Iterable[str]) -> None:
    """Take away what a mesh leaves in the clusters, so that the next connect is a first one."""

    def one(name: str) -> None:
        core = f"/api/v1/namespaces/{name}"
        for secret in ("cilium-clustermesh", "cilium-kvstoremesh"):
            api.delete(f"{core}/secrets/{secret}")
        for item in api.list(f"{core}/configmaps"):
            if item["metadata"]["name"].startswith("cilium-mesh-"):
                api.delete(f"{core}/configmaps/{item['metadata']['name']}")
        users = f"{core}/configmaps/clustermesh-remote-users"
        if api.get(users) is not None:
            api.patch(users, {"metadata": {"annotations": None}, "data": {"users.yaml": "users: []\n"}})

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, names))


def inventory_of(server: OneServer, names: Sequence[str]) -> dict[str, Any]:
    """An inventory in which each of the clusters is a host."""
    shared = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "cilium_mesh_kubeconfig": str(server.kubeconfig),
        "cilium_mesh_endpoint_networks": [NETWORK],
    }
    return {"all": {"vars": shared, "hosts": {name: {"cilium_mesh_namespace": name} for name in names}}}


def mesh_variable(names: Iterable[str], binding: str = "many") -> dict[str, Any]:
    """The variable ``cilium_mesh``."""
    return {"binding": {"name": binding, "clusterRefs": [{"name": name} for name in names]}}


def _give_status(api: LabApi, obj: Object, address: str) -> None:
    """What controllers, nodes and a load balancer would have written."""
    if obj["kind"] == "Service" and obj["spec"].get("type") == "LoadBalancer":
        api.patch(f"{path_of(obj)}/status", {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}})
    elif obj["kind"] in _WORKLOADS:
        generation = obj["metadata"]["generation"]
        status: dict[str, Any] = {"observedGeneration": generation}
        if obj["kind"] == "DaemonSet":
            counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
            status |= {**dict.fromkeys(counts, 3), "numberMisscheduled": 0}
        else:
            status |= dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), obj["spec"].get("replicas", 1))
        api.patch(f"{path_of(obj)}/status", {"status": status})
