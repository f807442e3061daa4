# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A Karmada with the clusters of a lab as members of one tenant, and what the clusters' own API servers say of its workloads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final

import urllib3

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import FleetRequest
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from tests.bench.fleet_run import HOST
from tests.integration.mesh_lab import LAB_VARIABLES
from tests.lab.api import ApiError, LabApi, Object
from tests.lab.lab import Lab
from tests.testing.karmada_members import deployer_kubeconfig, join, unready
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.waiting import wait_for

TENANT: Final = Tenant("bench", "default")
SEED: Final = "seed"  # a workload that is always there, so that the tenant's namespace is
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{karmada_namespace(TENANT)}/deployments"


class FleetLab:
    """The tenant's fleet. Runs have the rights of the deployer, and no others."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.clusters = {name: cluster.api for name, cluster in lab.clusters.items()}
        self.karmada = LabApi.from_kubeconfig(lab.karmada)
        self.deployer = deployer_kubeconfig(self.karmada, lab.karmada, folder)
        for name, cluster in lab.clusters.items():
            join(self.karmada, cluster, name=member_name(TENANT, name), labels=TENANT.labels_of(name))
        wait_for(lambda: unready(self.karmada), lambda names: not names, what="all members are Ready")

    def variable(self, names: Sequence[str], clusters: int, *, services: bool) -> dict[str, Any]:
        """The variable ``fleet`` with the seed and workloads of these names in so many clusters.

        :param services: whether each has a Service beside its Deployment.
        """
        return {
            "workspace": TENANT.workspace,
            "namespace": TENANT.namespace,
            "karmada": HOST,
            "clusters": [{"name": name} for name in self.clusters],
            "fleets": [{"name": "all", "clusterRefs": [{"name": name} for name in list(self.clusters)[:clusters]]}],
            "workloads": [
                {"name": SEED, **workload_spec(service=False)},
                *({"name": name, **workload_spec(service=services)} for name in names),
            ],
        }

    def request(self, variable: Mapping[str, Any]) -> FleetRequest:
        """Return what the engine makes of the variable."""
        return parse_fleet(variable, (HOST,)).request

    def inventory(self) -> dict[str, Any]:
        return {"all": {"vars": dict(LAB_VARIABLES), "hosts": {HOST: {"cilium_mesh_kubeconfig": str(self.deployer)}}}}

    def play(self, variable: Mapping[str, Any], *arguments: str, **more: Any) -> PlaybookRun:
        """Run the playbook ``fleet`` as a fork of a warm process. It has to succeed: a figure of a failed run would mean nothing."""
        run = run_warm("fleet", inventory=self.inventory(), variables={"fleet": variable, **more}, arguments=arguments)
        if run.rc:
            raise SystemExit(f"fleet: the playbook ended with status {run.rc}:\n{run.output}")
        return run


class Watched:
    """When each Deployment of the tenant came to an API server, and when all of its replicas were ready there: monotonic seconds."""

    def __init__(self, api: LabApi) -> None:
        self.came: dict[str, float] = {}
        self.ready: dict[str, float] = {}
        version = str((api.get(_DEPLOYMENTS) or {})["metadata"]["resourceVersion"])
        Thread(target=self._watch, args=(api, version), daemon=True).start()

    def _watch(self, api: LabApi, version: str) -> None:
        with suppress(urllib3.exceptions.HTTPError, ApiError):  # a caller that waits for what does not come says so
            for event, found in api.watch(_DEPLOYMENTS, version, seconds=3000):
                if event in ("ADDED", "MODIFIED"):
                    name = found["metadata"]["name"]
                    self.came.setdefault(name, time.monotonic())
                    if _is_whole(found):
                        self.ready.setdefault(name, time.monotonic())


def _is_whole(found: Object) -> bool:
    return bool((found.get("status") or {}).get("readyReplicas", 0) >= found["spec"]["replicas"])


def workload_spec(*, service: bool) -> dict[str, Any]:
    """Return the spec of a FleetWorkload of the fleet ``all``: one replica, and perhaps a Service."""
    asked = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    container = {"name": "web", "image": "registry.example/web:1", "ports": [{"containerPort": 8080}], "resources": asked}
    workload = {"fleetRef": {"name": "all"}, "replicas": 1, "template": {"spec": {"containers": [container]}}}
    return {**workload, "service": {"ports": [{"port": 80, "targetPort": 8080}]}} if service else workload
