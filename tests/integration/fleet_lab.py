# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A real Karmada with the clusters of a lab as members of one tenant, and what playbooks make of that tenant's workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.testing.karmada_members import deployer_kubeconfig, join, operator_kubeconfig, unready
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

SHOP: Final = Tenant("shop", "default")
BANK: Final = Tenant("bank", "default")
IMAGE: Final = "registry.example/web"


class FleetLab:
    """A Karmada with the clusters of the lab as members of one tenant, and the deployer with its documented rights and no others."""

    def __init__(self, lab: MeshLab, folder: Path) -> None:
        self.lab = lab
        self.karmada = LabApi.from_kubeconfig(lab.lab.karmada)
        self.deployer = deployer_kubeconfig(self.karmada, lab.lab.karmada, folder)
        operator_kubeconfig(self.karmada, lab.lab.karmada, folder)  # the other user that writes workloads
        for row in self._clusters:
            labels, zones = {**SHOP.labels_of(row["name"]), **row["labels"]}, [row["zone"]]
            member = member_name(SHOP, row["name"])
            join(
                self.karmada,
                lab.lab.clusters[row["name"]],
                name=member,
                labels=labels,
                region=row["region"],
                provider=row["provider"],
                zones=zones,
            )
        wait_for(lambda: unready(self.karmada), lambda names: not names, what="both members are Ready")

    @property
    def _clusters(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "region": f"eu-{name}", "zone": f"zone-{name}", "provider": f"of-{name}", "labels": {"tier": f"tier-{name}"}}
            for name in self.lab.names
        ]

    def play(self, workloads: list[dict[str, Any]] | None, *arguments: str, playbook: str = "fleet", **more: Any) -> PlaybookRun:
        tenant, policies = more.pop("tenant", SHOP), more.pop("policies", [])
        fleet = {
            "workspace": tenant.workspace,
            "karmada": "karmada",
            "clusters": self._clusters,
            "fleets": [
                {"name": "all", "clusterRefs": [{"name": name} for name in self.lab.names]},
                {
                    "name": "any",
                    "selector": more.pop("selector", {"matchExpressions": [{"key": "edge-connect.eu/source-name", "operator": "Exists"}]}),
                },
            ],
            "placementPolicies": policies,
            "connected": more.pop("connected", {}),
            **({"workloads": workloads} if workloads is not None else {}),
        }
        hosts = {"karmada": {"cilium_mesh_kubeconfig": str(self.deployer)}}
        return self.lab.play(playbook, hosts=hosts, arguments=arguments, fleet=fleet, **{"fleet_workload_wait_timeout": 60, **more})

    def images(self, name: str = "web", tenant: Tenant = SHOP, *, kind: str = "Deployment") -> list[str]:
        """The tag that each cluster runs, "-" for none."""
        path = f"/apis/apps/v1/namespaces/{karmada_namespace(tenant)}/{kind.lower()}s/{name}"
        found = [self.lab.api(cluster).get(path) for cluster in self.lab.names]
        return [entry["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")[2] if entry else "-" for entry in found]


def web(tag: str, **more: Any) -> dict[str, Any]:
    container = {"name": "web", "image": f"{IMAGE}:{tag}", "envFrom": [{"configMapRef": {"name": "conf"}}]}
    return {
        "name": "web",
        "fleetRef": {"name": "all"},
        "replicas": 2,
        "template": {"spec": {"containers": [container]}},
        "service": {"ports": [{"port": 80}]},
        "resources": [{"kind": "ConfigMap", "name": "conf", "data": {"A": "b"}}],
        **more,
    }


def status(run: PlaybookRun, name: str = "web") -> dict[str, Any]:
    assert run.mesh_result is not None, run.output
    return next(entry["status"] for entry in run.mesh_result["workloads"] if entry["name"] == name)


def codes(run: PlaybookRun) -> set[str]:
    return {entry["code"] for entry in (run.mesh_result or {})["findings"]}
