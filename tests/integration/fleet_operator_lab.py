# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""All that the operator's fleet side needs around it: a kcp or none, a management plane, a Karmada without members, and tenants at work."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from mesh_operator.base.kinds import BY_KIND, FLEET_ROWS, VERSION
from mesh_operator.credentials.labelled_secrets import CLUSTER_LABEL
from mesh_operator.manifests import kcp_manifests
from mesh_operator.source.namespaces import workspace_of
from tests.collection_path import CHECKOUT
from tests.demo_fleet.evidence import left_in_cluster, left_in_karmada
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import which_kcp
from tests.lab.api import LabApi
from tests.testing.karmada_members import operator_kubeconfig
from tests.testing.kcp_world import ACCOUNT, apply, open_world
from tests.testing.kcp_world import Tenant as Workspace
from tests.testing.management_plane import ManagementPlane
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

Object = dict[str, Any]
PODS: Final = "registry.example/web"
# In this order a tenant's objects are deleted: what still needs clusters goes while they are there.
NEED_CLUSTERS: Final = ("FleetWorkload", "GlobalService", "ClusterMeshBinding")
NEEDED: Final = ("PlacementPolicy", "Fleet", "KubernetesCluster")


class Shop:
    """A tenant at work, the platform that makes his clusters, and what is in Karmada and the clusters for him."""

    def __init__(self, lab: MeshLab, workspace: Workspace | NamespaceTenant, management: ManagementPlane) -> None:
        self.lab, self.management, self.workspace = lab, management, workspace
        self.karmada = LabApi.from_kubeconfig(lab.lab.karmada)
        self.tenant = Tenant(self.workspace.cluster, self.workspace.home)

    @property
    def namespace(self) -> str:
        """The namespace of the tenant in Karmada and in the clusters."""
        return karmada_namespace(self.tenant)

    def put(self, kind: str, name: str, **spec: Any) -> None:
        """Create an object, or change fields of its spec."""
        self.ask(kind, name, spec)

    def vanish(self, kind: str, name: str) -> None:
        """Have an object gone at once, without its finalizer having had a say."""
        self.workspace.client.merge(self._path(kind, name), {"metadata": {"finalizers": None}})
        self.delete(kind, name)

    def ask(self, kind: str, name: str, spec: Object) -> None:
        if self.workspace.client.get(self._path(kind, name)) is None:
            head = {"apiVersion": f"{BY_KIND[kind].group}/{VERSION}", "kind": kind}
            self.workspace.client.create({**head, "metadata": {"name": name, "namespace": self.workspace.home}, "spec": spec})
        else:
            self.workspace.client.merge(self._path(kind, name), {"spec": spec})

    def get(self, kind: str, name: str) -> Object:
        return self.workspace.client.get(self._path(kind, name)) or {}

    def status(self, kind: str, name: str) -> Object:
        return dict(self.get(kind, name).get("status") or {})

    def phase(self, kind: str, name: str) -> str:
        return str(self.status(kind, name).get("phase", ""))

    def message(self, kind: str, name: str, of: str) -> str:
        rows = self.status(kind, name).get("conditions") or ()
        return next((str(row.get("message")) for row in rows if row["type"] == of), "")

    def condition(self, kind: str, name: str, of: str = "Ready") -> tuple[str, str]:
        """Status and reason."""
        rows = self.status(kind, name).get("conditions") or ()
        return next(((row["status"], row["reason"]) for row in rows if row["type"] == of), ("", ""))

    def last_operation(self, name: str) -> Object:
        found = self.status("FleetWorkload", name).get("lastOperation") or {}
        return {key: found.get(key) for key in ("type", "id", "result")}

    def used_by(self, policy: str) -> int:
        return int(self.status("PlacementPolicy", policy).get("usedBy") or 0)

    def nodes(self, cluster: str) -> int:
        return int((self.status("ClusterMetrics", cluster).get("nodes") or {}).get("total") or 0)

    def delete(self, kind: str, name: str) -> None:
        self.workspace.client.delete(self._path(kind, name))

    def names(self, kind: str) -> str:
        """Names of all objects of a kind, sorted."""
        row = BY_KIND[kind]
        found = self.workspace.client.list(f"/apis/{row.group}/{VERSION}/namespaces/{self.workspace.home}/{row.plural}")
        return " ".join(sorted(entry["metadata"]["name"] for entry in found))

    def start_web(self, operator: OperatorProcess) -> None:
        """Have the first revision of a workload, "web", run in both clusters, which are members of a fleet, "edge"."""
        names = self.lab.names
        if "web" in self.names("FleetWorkload"):  # with other revisions
            self.delete("FleetWorkload", "web")
            for kind in ("FleetWorkload", "FleetWorkloadRevision"):
                operator.wait(partial(self.names, kind), f"no {kind} is left", until=equals(""))
        missing = [name for name in names if name not in self.names("KubernetesCluster").split()]
        for name in missing:
            self.put("KubernetesCluster", name, providerRef={"name": "kind"}, region=f"eu-{name}", labels={"tier": "edge"})
        for name in missing:
            operator.wait(partial(self.planned, name), f"the management plane is asked for {name}")
            operator.wait(partial(self.phase, "KubernetesCluster", name), f"{name} is on its way", until=equals("Pending"))
        for name in missing:
            self.provision(name)
        self.put("Fleet", "edge", selector={"matchLabels": {"tier": "edge"}})
        self.put("PlacementPolicy", "everywhere", strategy="FixedReplicas")
        web = {"replicas": 2, "template": template("1"), "service": {"ports": [{"port": 80}]}}
        self.put("FleetWorkload", "web", fleetRef={"name": "edge"}, placementRef={"name": "everywhere"}, **web)
        for name in names:
            operator.wait(partial(self.phase, "KubernetesCluster", name), f"{name} is a member", until=equals("Ready"))
        operator.wait(self.web_runs, "the workload runs in both clusters")

    def web_runs(self) -> bool:
        """Whether all is as `start_web` leaves it."""
        if (self.names("FleetWorkload"), self.names("FleetWorkloadRevision")) != ("web", "web-r1"):
            return False
        web = self.get("FleetWorkload", "web")
        status: Object = web.get("status") or {}
        where = {row["clusterName"] for row in status.get("placements") or () if row.get("readyReplicas") == web["spec"]["replicas"]}
        as_new = status.get("phase") == "Available" and "rollout" not in web["spec"]
        return as_new and where == {*self.lab.names} and self.images() == ["1"] * len(where)

    def clear(self, operator: OperatorProcess) -> None:
        """Have no object, and nothing in Karmada, the clusters and the management plane."""
        for kinds in (NEED_CLUSTERS, NEEDED):
            for kind in kinds:
                for name in self.names(kind).split():
                    self.delete(kind, name)
            for kind in kinds:
                operator.wait(partial(self.names, kind), f"no {kind} is left", until=equals(""))
        for kind in ("FleetWorkloadRevision", "ClusterMetrics"):
            operator.wait(partial(self.names, kind), f"no {kind} is left", until=equals(""))
        operator.wait(self.left, "nothing is left for the tenant", until=equals(""))

    def provision(self, name: str, cluster: str = "") -> None:
        """What the cluster-operator does when the management plane has a Cluster."""
        own = member_name(self.tenant, name)
        self.management.rotate(own, self.lab.lab.clusters[cluster or name].kubeconfig, self.tenant.workspace)
        self.management.set_status(own, ready=True)

    def planned(self, name: str) -> Object | None:
        """The Cluster of the management plane."""
        return self.management.api.get(
            f"/apis/platform.edge-portal.eu/v1alpha1/namespaces/default/clusters/{member_name(self.tenant, name)}"
        )

    def homes(self, workload: str, rows: str = "placements") -> str:
        """The clusters in which a workload runs, or with the rows ``evictedClusters`` those that it has left, as its status says."""
        return " ".join(sorted(row["clusterName"] for row in self.status("FleetWorkload", workload).get(rows) or ()))

    def images(self, name: str = "web") -> list[str]:
        """The tag that each cluster runs, "-" for none."""
        path = f"/apis/apps/v1/namespaces/{karmada_namespace(self.tenant)}/deployments/{name}"
        found = [self.lab.api(cluster).get(path) for cluster in self.lab.names]
        return [entry["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")[2] if entry else "-" for entry in found]

    def left(self) -> str:
        """What is in Karmada, the clusters and the management plane for the tenant, "" for nothing; of whomever, if no other is there."""
        own = (self.namespace, *(member_name(self.tenant, name) for name in self.lab.names))
        tenants = [entry["metadata"]["name"] for entry in self.karmada.list("/api/v1/namespaces")]
        members = [entry["metadata"]["name"] for entry in self.karmada.list("/apis/cluster.karmada.io/v1alpha1/clusters")]
        others = {*members, *(name for name in tenants if name.startswith("kcp-"))} - {*own}
        of = own if others else ()
        found = [line for name in self.lab.names for line in left_in_cluster(name, self.lab.lab.clusters[name].kubeconfig, of)]
        found += left_in_karmada(self.lab.lab.karmada, of)
        planned = [f"Cluster of {name} in the management plane" for name in self.lab.names if self.planned(name) is not None]
        return ", ".join(found + planned)

    def _path(self, kind: str, name: str) -> str:
        row = BY_KIND[kind]
        return f"/apis/{row.group}/{VERSION}/namespaces/{self.workspace.home}/{row.plural}/{name}"


class NamespaceShop(Shop):
    """One whose tenant is a namespace of an ordinary cluster, and who brings the kubeconfigs of clusters himself."""

    def provision(self, name: str, cluster: str = "") -> None:
        content = base64.b64encode(self.lab.lab.clusters[cluster or name].kubeconfig.read_bytes()).decode()
        metadata = {"name": name, "namespace": self.workspace.home, "labels": {CLUSTER_LABEL: name}}
        self.management.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": content}})


class NamespaceTenant:
    """A namespace as a tenant, with the methods of a workspace of kcp that a Shop uses."""

    def __init__(self, api: LabApi, namespace: str) -> None:
        self._api, self.client, self.home = api, self, namespace
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        system = api.get("/api/v1/namespaces/kube-system") or {}
        self.cluster = workspace_of(system["metadata"]["uid"], namespace)

    def get(self, path: str) -> Object | None:
        return self._api.get(path)

    def create(self, body: Object) -> Object:
        return self._api.create(body)

    def merge(self, path: str, body: Object) -> None:
        self._api.patch(path, body)

    def delete(self, path: str) -> None:
        self._api.delete(path)

    def list(self, path: str) -> list[Object]:
        return self._api.list(path)


class NamespacedFleetLab:
    """A cluster with the kinds of fleets, which is its own management plane, and a Karmada without members: no kcp."""

    def __init__(self, stack: ExitStack, lab: MeshLab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.management = stack.enter_context(ManagementPlane())
        self.management.install()
        for file in sorted((CHECKOUT / "operator" / "deploy" / "fleet-crds").glob("*.yaml")):
            for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                self.management.api.create(document)
        for row in FLEET_ROWS:
            self.management.wait_served(f"/apis/{row.group}/{VERSION}/{row.plural}")
        self._karmada = operator_kubeconfig(LabApi.from_kubeconfig(lab.lab.karmada), lab.lab.karmada, folder)

    def shop(self, namespace: str) -> NamespaceShop:
        return NamespaceShop(self.lab, NamespaceTenant(self.management.api, namespace), self.management)

    def operator(self, *flags: str, node: str = "node-1") -> OperatorProcess:
        karmada = ("--karmada-kubeconfig", str(self._karmada))
        return OperatorProcess(self.folder, None, self.management.kubeconfig, "--profile", "fleet", *karmada, *SHORT, *flags, node=node)


SHORT: Final = ("--mesh-check-interval", "5s", "--reconcile-interval", "2s", "--namespace", "default", "--max-runs", "2")


class FleetOperatorLab:
    """A kcp, a management plane, and a Karmada without members."""

    def __init__(self, stack: ExitStack, lab: MeshLab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.karmada = LabApi.from_kubeconfig(lab.lab.karmada)
        self.management = stack.enter_context(ManagementPlane())
        self.management.install()
        self.world = stack.enter_context(open_world(which_kcp()))
        apply(self.world.provider, kcp_manifests(self.world.values, ("rbac",), global_services=True))
        accounts = {"networking": self.world.operator(), "fleet": self.world.account(ACCOUNT, workspace="root:fleet")}
        # With the documented rights, and no others.
        self._karmada = operator_kubeconfig(LabApi.from_kubeconfig(lab.lab.karmada), lab.lab.karmada, folder)
        self._kcp = {}
        for name, client in accounts.items():
            self._kcp[name] = folder / f"{name}.kubeconfig"
            self._kcp[name].write_text(json.dumps(client.kubeconfig()), encoding="utf-8")
        self._shops: dict[str, Shop] = {}
        self._nodes = count(1)

    def shop(self, name: str) -> Shop:
        if name not in self._shops:
            self._shops[name] = Shop(self.lab, self.world.tenant(name), self.management)
        return self._shops[name]

    def clear(self, *, but: str = "") -> None:
        """Have no tenant, or only one, with objects, whatever other tests left."""
        kinds = (*NEED_CLUSTERS, *NEEDED)
        left = [shop for name, shop in self._shops.items() if name != but and any(shop.names(kind) for kind in kinds)]
        if left:
            with self.operator("all") as operator:
                for shop in left:
                    shop.clear(operator)

    def operator(self, profile: str, *flags: str) -> OperatorProcess:
        """An operator on a node of its own."""
        karmada = ("--karmada-kubeconfig", str(self._karmada))
        fleet = ("--fleet-kcp-kubeconfig", str(self._kcp["fleet"])) if profile == "all" else ()
        own = self._kcp["fleet" if profile == "fleet" else "networking"]
        return OperatorProcess(
            *(self.folder, own, self.management.kubeconfig, "--profile", profile, *karmada, *fleet, *SHORT, *flags),
            node=f"node-{next(self._nodes)}",
        )


def template(tag: str) -> Object:
    return {"spec": {"containers": [{"name": "web", "image": f"{PODS}:{tag}"}]}}
