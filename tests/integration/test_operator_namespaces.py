# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator without kcp: custom resources in one ordinary cluster, whose namespaces are tenants that use nothing of each other."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from mesh_operator.base.api import Connections
from mesh_operator.base.keys import MeshKey
from mesh_operator.base.kinds import BINDING, EXPOSURE, FABRIC, GROUP, INTENT, SERVICE, VERSION
from mesh_operator.meshes.records import Records, name_of
from mesh_operator.source.namespaces import workspace_of
from mesh_operator.source.source_identity import SourceIdentity
from tests.collection_path import CHECKOUT
from tests.integration import shop
from tests.integration.everything import everything
from tests.integration.operator_lab import CHECK, OperatorLab
from tests.testing.kcp_client import path_of
from tests.testing.namespace_world import open_namespaces
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

pytestmark = pytest.mark.xdist_group("operator")

Object = dict[str, Any]
MANIFESTS = CHECKOUT / "operator" / "deploy" / "kubernetes"
HOME = "mesh-operator"
LABEL = "networking.edge-portal.eu/cluster"
ENDS: Object = {side: {"namespace": shop.NAMESPACE, "selector": {"app": "nginx"}} for side in ("source", "destination")}


class Team:
    """A namespace of the cluster, and who works in it."""

    def __init__(self, lab: OperatorLab, name: str) -> None:
        self.lab, self.name, self.api = lab, name, lab.management.api
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def secret(self, name: str, data: dict[str, str], labels: dict[str, str], *, namespace: str = "") -> None:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        metadata = {"name": name, "namespace": namespace or self.name, "labels": labels}
        self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})

    def kubeconfig(self, cluster: str) -> str:
        return self.lab.clusters.lab.clusters[cluster].kubeconfig.read_text(encoding="utf-8")

    def create(self, kind: str, name: str, **spec: Any) -> None:
        metadata = {"name": name, "namespace": self.name}
        self.api.create({"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec})

    def path(self, kind: str, name: str) -> str:
        return path_of({"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": name, "namespace": self.name}})

    def status(self, kind: str, name: str) -> Object:
        found: Object = (self.api.get(self.path(kind, name)) or {}).get("status") or {}
        return found

    def phase(self, kind: str, name: str) -> str:
        return str(self.status(kind, name).get("phase", ""))

    def reason(self, kind: str, name: str) -> str:
        return next((str(entry["reason"]) for entry in self.status(kind, name).get("conditions") or () if entry["type"] == "Ready"), "")

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(self.path(kind, name))

    def is_gone(self, kind: str, name: str) -> bool:
        return self.api.get(self.path(kind, name)) is None


@pytest.fixture(scope="module")
def lab(operator_lab: OperatorLab) -> Iterator[OperatorLab]:
    """The management plane has the kinds, and the operator's own namespace and rights."""
    with open_namespaces(operator_lab.management):
        yield operator_lab


def operator_of(lab: OperatorLab, folder: Path, *flags: str) -> OperatorProcess:
    """With the rights of the manifests alone, and with an election."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = lab.management.api.post(f"/api/v1/namespaces/{HOME}/serviceaccounts/mesh-operator/token", request)
    kubeconfig = yaml.safe_load(lab.management.kubeconfig.read_text(encoding="utf-8"))
    kubeconfig["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = folder / "operator.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    intervals = ("--mesh-check-interval", f"{CHECK}s", "--reconcile-interval", "2s", "--max-runs", "4")
    return OperatorProcess(folder, None, path, "--mgmt-namespace", HOME, "--namespace", HOME, *intervals, *flags)


def has_three(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3


def argo_secret(kubeconfig: str) -> dict[str, str]:
    """What `argocd cluster add` stores of a cluster."""
    found = yaml.safe_load(kubeconfig)
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    tls = {"caData": cluster["certificate-authority-data"]}
    tls |= {"certData": user["client-certificate-data"], "keyData": user["client-key-data"]} if "client-key-data" in user else {}
    config = {"tlsClientConfig": tls} | ({"bearerToken": user["token"]} if "token" in user else {})
    return {"name": "cluster-muc-3", "server": cluster["server"], "config": json.dumps(config)}


def test_the_samples_in_a_namespace_are_carried_out_and_removed_with_clusters_from_secrets_of_three_kinds(
    lab: OperatorLab, tmp_path: Path
) -> None:
    untouched, team = everything(lab.clusters), Team(lab, "team-a")
    team.secret("first", {"kubeconfig": team.kubeconfig("c1")}, {LABEL: "cluster-ffm-1"})
    team.secret("cluster-ber-2-kubeconfig", {"value": team.kubeconfig("c2")}, {"cluster.x-k8s.io/cluster-name": "cluster-ber-2"})
    team.secret("cluster-muc-3", argo_secret(team.kubeconfig("c3")), {"argocd.argoproj.io/secret-type": "cluster"})
    with operator_of(lab, tmp_path) as operator:
        operator.wait_ready()
        for path in sorted((CHECKOUT / "samples").glob("*.yaml")):
            sample = yaml.safe_load(path.read_text(encoding="utf-8"))
            team.create(sample["kind"], sample["metadata"]["name"], **sample["spec"])
        good = {
            (BINDING, "edge-mesh-eu"): "Connected",
            (SERVICE, "nginx"): "Exported",
            (INTENT, "frontend-to-nginx"): "Applied",
            (EXPOSURE, "shop"): "Exposed",
            (FABRIC, "europe"): "Connected",
        }

        def phases() -> dict[tuple[str, str], str]:
            return {place: team.phase(*place) for place in good}

        operator.wait(phases, "every sample is carried out", until=equals(good))
        clusters = [{"name": name} for name in ("cluster-ffm-1", "cluster-ber-2", "cluster-muc-3")]
        team.api.patch(team.path(BINDING, "edge-mesh-eu"), {"spec": {"clusterRefs": clusters}})
        operator.wait(lambda: team.status(SERVICE, "nginx").get("exportedClusters"), "the third one joins", until=has_three)
        events = {event["reason"] for event in team.api.list("/api/v1/namespaces/team-a/events")}
        assert {"Connected", "Exported", "Applied"} <= events

        # A tenant cannot choose whose object it is.
        mark = {"metadata": {"annotations": {"kcp.io/cluster": "another"}}}
        team.api.patch(team.path(INTENT, "frontend-to-nginx"), mark)
        uid = (team.api.get("/api/v1/namespaces/kube-system") or {})["metadata"]["uid"]
        policies = lab.clusters.api("c1").list(f"/apis/cilium.io/v2/namespaces/{shop.NAMESPACE}/ciliumnetworkpolicies")
        assert {entry["metadata"]["labels"]["edge-connect.eu/source-workspace"] for entry in policies} == {workspace_of(uid, "team-a")}

        team.delete(BINDING, "edge-mesh-eu")
        operator.wait(lambda: team.is_gone(BINDING, "edge-mesh-eu"), "the mesh is gone")
        operator.wait(lambda: team.reason(INTENT, "frontend-to-nginx"), "its items say so", until=equals("MeshNotFound"))
        for kind, name in list(good)[1:]:
            team.delete(kind, name)
            operator.wait(partial(team.is_gone, kind, name), f"{name} is gone")
    assert everything(lab.clusters) == untouched


def test_a_namespace_uses_no_secret_of_another_one_and_what_the_platform_gives_it(lab: OperatorLab, tmp_path: Path) -> None:
    untouched, rich, poor = everything(lab.clusters), Team(lab, "team-rich"), Team(lab, "team-poor")
    for name in ("c1", "c2"):
        rich.secret(name, {"kubeconfig": rich.kubeconfig(name)}, {LABEL: name})
    with operator_of(lab, tmp_path) as operator:
        operator.wait_ready()
        poor.create(BINDING, "edge", clusterRefs=[{"name": "c1"}, {"name": "c2"}])
        operator.wait(lambda: poor.reason(BINDING, "edge"), "it has no clusters", until=equals("ClusterNotFound"))
        for name in ("c1", "c2"):
            labels = {"edge-connect.eu/source-workspace": "team-poor", "edge-connect.eu/source-name": name}
            poor.secret(f"of-team-poor-{name}", {"kubeconfig": poor.kubeconfig(name)}, labels, namespace=HOME)
        operator.wait(lambda: poor.phase(BINDING, "edge"), "the platform's Secrets are used", until=equals("Connected"))
        rich.create(BINDING, "edge", clusterRefs=[{"name": "c1"}, {"name": "c2"}])
        operator.wait(lambda: rich.reason(BINDING, "edge"), "links of another mesh are not taken over", until=equals("PrerequisiteNotMet"))
        for team in (rich, poor):
            team.delete(BINDING, "edge")
            operator.wait(partial(team.is_gone, BINDING, "edge"), f"the mesh of {team.name} is gone")
    for name in ("c1", "c2"):
        lab.management.api.delete(f"/api/v1/namespaces/{HOME}/secrets/of-team-poor-{name}")
    assert everything(lab.clusters) == untouched


BEFORE = "3f0a5a1e-7c1d-4c0e-9a6b-0d6a5d1b2c3d"  # uid of kube-system of a management cluster that a backup was made of
GRACE = 2.0


@pytest.mark.parametrize("way", ["the records are taken over", "the mesh is disconnected and its record deleted"])
def test_a_restored_management_cluster_leaves_the_live_mesh_alone_until_the_platform_has_decided(
    lab: OperatorLab, tmp_path: Path, way: str
) -> None:
    """The mesh stands, made for a namespace of the cluster before. Here are its record, its binding and its Secrets, from the backup."""
    untouched, team, clusters = everything(lab.clusters), Team(lab, f"team-restored-{'take' in way}".lower()), lab.clusters
    for name in ("c1", "c2"):
        team.secret(name, {"kubeconfig": team.kubeconfig(name)}, {LABEL: name})
    key = MeshKey(workspace_of(BEFORE, team.name), team.name, "edge")
    mesh = clusters.mesh("c1", "c2", binding=key.name)
    mesh["binding"] |= {"workspace": key.workspace, "namespace": key.namespace}
    assert clusters.play("connect", mesh=mesh).rc == 0
    with Connections("the management plane", str(lab.management.kubeconfig), "--mgmt-kubeconfig") as plane:
        records = Records(plane.own(), HOME, SourceIdentity(plane, lambda _cluster: BEFORE))
        records.load()
        records.remember(key, "uid-of-the-binding-before", ["c1", "c2"])
    team.create(BINDING, key.name, clusterRefs=[{"name": "c1"}, {"name": "c2"}])
    live, record = everything(clusters), f"/api/v1/namespaces/{HOME}/configmaps/{name_of(key)}"

    with operator_of(lab, tmp_path, "--orphan-grace", f"{GRACE:g}s") as operator:
        operator.wait(lambda: team.reason(BINDING, "edge"), "its mesh is held", until=equals("RecordOfAnotherSource"))
        sample = 'mesh_operator_foreign_records{reason="AnotherSource"}'
        operator.wait(lambda: operator.metrics().get(sample, 0.0), "the record is counted", until=equals(1.0))
        time.sleep(5 * GRACE)
        logged = [event for event in operator.events() if event["event"] in ("run_ended", "records_of_another_source")]
        assert [(event.get("count"), event.get("source")) for event in logged] == [(1, BEFORE)], "there was no run"
        events = {event["reason"] for event in team.api.list(f"/api/v1/namespaces/{team.name}/events")}
        assert "RecordOfAnotherSource" in events
        assert everything(clusters) == live and team.api.get(record) is not None

    flags: tuple[str, ...] = ("--take-over-records", BEFORE)
    if "disconnected" in way:  # as docs/backup.md says it of one mesh
        flags = ()
        assert clusters.play("disconnect", mesh=mesh).rc == 0
        lab.management.api.delete(record)
    with operator_of(lab, tmp_path, "--orphan-grace", f"{GRACE:g}s", *flags) as operator:
        operator.wait(lambda: team.api.get(record) is None, "what was made for the cluster before is removed")
        operator.wait(lambda: team.phase(BINDING, "edge"), "the mesh is made anew", until=equals("Connected"))
        taken = [event for event in operator.events() if event["event"] == "record_taken_over"]
        assert [(event["workspace"], event["source"]) for event in taken] == [(key.workspace, BEFORE)] * bool(flags)
        marks = json.dumps(everything(clusters))
        assert Binding(name=key.name, namespace=key.namespace, workspace=key.workspace, cluster_refs=()).owner not in marks
        team.delete(BINDING, "edge")
        operator.wait(partial(team.is_gone, BINDING, "edge"), "the mesh is gone")
    assert everything(clusters) == untouched
