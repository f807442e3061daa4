# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Inventories of a management cluster, on a real API server: each cluster is a host, and credentials stay in Secrets until a run."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.tools import ToolUnavailable
from tests.testing.management_plane import GROUP, VERSION, ManagementPlane
from tests.testing.playbooks import PlaybookRun, list_inventory, run_warm

PLUGIN = "plugin: edge_portal.cilium_mesh.clusters\n"
CAPI = "cluster.x-k8s.io"
ARGO = {"argocd.argoproj.io/secret-type": "cluster"}
HOSTILE = "{{ lookup('pipe', 'touch ran') }}"
READ = "- hosts: all\n  gather_facts: false\n  tasks: [{edge_portal.cilium_mesh.mesh_info: {}, run_once: true, register: seen}]\n"


@pytest.fixture(scope="module")
def plane(servers: None) -> Iterator[ManagementPlane]:
    try:
        with ManagementPlane() as found:
            found.install()
            yield found
    except ToolUnavailable as error:
        pytest.skip(f"no API server: {error}")


class Desk:
    """A namespace of its own, and a folder with the inventory."""

    def __init__(self, plane: ManagementPlane, place: str, path: Path) -> None:
        self.plane, self.place, self.path = plane, place, path
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
        self.own = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
        self.cluster, self.user = self.own["clusters"][0]["cluster"], self.own["users"][0]["user"]
        self.write("management.yaml", self.own)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        (self.path / name).write_text(json.dumps(document), encoding="utf-8")

    def secret(self, name: str, data: Mapping[str, Any], labels: Mapping[str, str] = {}) -> None:
        """A Secret; what is no text is written as JSON."""
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
        metadata = {"name": name, "namespace": self.place, "labels": labels}
        self.plane.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})

    def object(self, version: str, name: str, status: Mapping[str, Any], **metadata: Any) -> None:
        body = {"apiVersion": version, "kind": "Cluster", "metadata": {"name": name, "namespace": self.place, **metadata}}
        self.plane.api.create(body)
        self.plane.api.patch(f"/apis/{version}/namespaces/{self.place}/clusters/{name}/status", {"status": status})

    def inventory(self, source: str, options: str = "", kubeconfig: str = "management.yaml") -> str:
        text = f"{PLUGIN}source: {source}\nkubeconfig: {kubeconfig}\nsource_namespaces: [{self.place}]\n{options}"
        (self.path / "clusters.yml").write_text(text, encoding="utf-8")
        return "clusters.yml"

    def hosts(self, source: str, options: str = "", kubeconfig: str = "management.yaml") -> dict[str, dict[str, Any]]:
        status, document, beside = list_inventory(self.path, self.inventory(source, options, kubeconfig))
        assert status == 0, beside
        self.has_no_credentials(document + beside)
        found = json.loads(document)
        return {host: _plain(variables) for host, variables in found["_meta"]["hostvars"].items()}

    def refusal(self, source: str, options: str = "", kubeconfig: str = "management.yaml") -> str:
        status, document, said = list_inventory(self.path, self.inventory(source, options, kubeconfig))
        assert status != 0 and "Traceback" not in said
        self.has_no_credentials(document + said)
        return " ".join(said.split())

    def run(self) -> PlaybookRun:
        """Read every cluster of the inventory."""
        (self.path / "read.yml").write_text(READ, encoding="utf-8")
        found = run_warm(str(self.path / "read.yml"), inventory=str(self.path / "clusters.yml"))
        self.has_no_credentials("".join([found.output, *found.events]))
        return found

    def has_no_credentials(self, text: str) -> None:
        for key in ("client-key-data", "client-certificate-data"):
            assert self.user[key] not in text and base64.b64encode(self.user[key].encode()).decode() not in text
        assert "c4n4ry" not in text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return value["__ansible_unsafe"] if "__ansible_unsafe" in value else {key: _plain(entry) for key, entry in value.items()}
    return value


@pytest.fixture
def desk(plane: ManagementPlane, request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    return Desk(plane, re.sub("[^a-z0-9]+", "-", request.node.name)[-40:].strip("-"), tmp_path)


@pytest.fixture(scope="module")
def capi(plane: ManagementPlane) -> str:
    """The kind Cluster of Cluster API, with the free schema of the other one."""
    definition = plane.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.{GROUP}") or {}
    spec = {**definition["spec"], "group": CAPI, "versions": [{**definition["spec"]["versions"][0], "name": "v1beta2"}]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"clusters.{CAPI}"}}
    plane.api.create({**head, "spec": {key: spec[key] for key in ("group", "names", "scope", "versions")}})
    plane.wait_served(f"/apis/{CAPI}/v1beta2/clusters")
    return f"{CAPI}/v1beta2"


def ready(secret: str, key: str = "kubeconfig") -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "True"}], "kubeconfigSecretRef": {"name": secret, "key": key}}


def test_clusters_of_the_management_plane_are_hosts_under_the_names_of_tenants(desk: Desk) -> None:
    version = f"{GROUP}/{VERSION}"
    annotations = {"networking.edge-portal.eu/cilium-namespace": "cilium", "networking.edge-portal.eu/endpoint": "192.0.2.1:2379"}
    desk.object(
        version, "kcp-7f3a-ffm", ready("s-ffm"), labels={"edge-connect.eu/source-name": "ffm", "region": "eu"}, annotations=annotations
    )
    desk.object(version, "ber", ready("gone"))
    desk.object(version, "muc", {"conditions": [{"type": "Ready", "status": "False", "reason": "Provisioning"}]})
    desk.object(version, "ham", ready("../../../../api/v1/namespaces"))
    desk.object(version, "cgn", ready("s-ffm"), annotations={"networking.edge-portal.eu/cilium-namespace": HOSTILE})
    desk.secret("s-ffm", {"kubeconfig": desk.own})
    hosts = desk.hosts("management_plane", "keyed_groups: [{prefix: region, key: cluster.labels.region}]\n")
    reference = {"kubeconfig": str(desk.path / "management.yaml"), "namespace": desk.place, "secret": "s-ffm", "key": "kubeconfig"}
    assert hosts["ffm"] == {
        "ansible_connection": "local",
        "cilium_mesh_kubeconfig_from": reference,
        "cilium_mesh_namespace": "cilium",
        "cilium_mesh_endpoint_override": "192.0.2.1:2379",
    }
    assert {host: variables.get("cilium_mesh_unavailable", "") for host, variables in hosts.items()} == {
        "ffm": "",
        "ber": f"Secret {desk.place}/gone of the management cluster gives no kubeconfig: There is no such Secret.",
        "muc": "The management plane does not report it as ready (reason: Provisioning).",
        "ham": "The Secret that is named for its kubeconfig cannot be one: the reference has a secret that is no name of Kubernetes.",
        "cgn": "The annotation with the namespace of its Cilium has no name of a namespace.",
    }
    assert not (desk.path / "ran").exists()


def test_clusters_of_cluster_api_are_hosts_once_their_control_plane_is_initialised(desk: Desk, capi: str) -> None:
    done = {"initialization": {"controlPlaneInitialized": True}}
    desk.object(capi, "ffm", done, labels={"mesh": "edge"})
    desk.object(capi, "ber", {"conditions": [{"type": "ControlPlaneInitialized", "status": "True"}]}, labels={"mesh": "edge"})
    desk.object(capi, "muc", {"phase": "Provisioning"}, labels={"mesh": "edge"})
    desk.object(capi, "ham", done, labels={"mesh": "edge"})
    desk.object(capi, "other", done)
    desk.secret("ffm-kubeconfig", {"value": desk.own})
    desk.secret("ham-kubeconfig", {"value": "users: [c4n4ry\n"})
    options = "label_selector: mesh=edge\nnames: {ffm: cluster-ffm-1, gone: cluster-gone}\n"
    hosts = desk.hosts("cluster_api", options)
    assert {host: variables.get("cilium_mesh_unavailable", "") for host, variables in hosts.items()} == {
        "cluster-ffm-1": "",
        "ber": f"Secret {desk.place}/ber-kubeconfig of the management cluster gives no kubeconfig: There is no such Secret.",
        "muc": "Cluster API does not report its control plane as initialised (reason: Provisioning).",
        "ham": f"Secret {desk.place}/ham-kubeconfig of the management cluster gives no kubeconfig: it has a key value that is no "
        "kubeconfig: it is not YAML.",
    }
    assert list(desk.hosts("cluster_api", "pattern: m*\n")) == ["muc"]
    cached = "cache: true\ncache_plugin: ansible.builtin.jsonfile\ncache_connection: cache\n"
    desk.hosts("cluster_api", options + cached)
    [file] = (desk.path / "cache").iterdir()
    desk.has_no_credentials(file.read_text())
    desk.secret("ber-kubeconfig", {"value": desk.own})
    later = desk.hosts("cluster_api", options + cached)
    assert list(later) == list(hosts) and not any("cilium_mesh_unavailable" in variables for variables in later.values())


def test_clusters_of_argo_cd_are_hosts_and_what_runs_in_its_image_is_refused(desk: Desk) -> None:
    tls = {"caData": desk.cluster["certificate-authority-data"], "certData": desk.user["client-certificate-data"]}
    config = {"tlsClientConfig": {**tls, "keyData": desk.user["client-key-data"]}}
    server = desk.cluster["server"]
    program = {"execProviderConfig": {"command": "c4n4ry", "apiVersion": "client.authentication.k8s.io/v1beta1", "env": {"A": "c4n4ry"}}}
    desk.secret("a", {"name": "https://FFM", "server": server, "config": config}, ARGO)
    desk.secret("b", {"name": "eks", "server": server, "config": {"awsAuthConfig": {"clusterName": "c4n4ry"}}}, ARGO)
    desk.secret("c", {"name": "gke", "server": server, "config": program}, ARGO)
    desk.secret("d", {"name": "broken", "server": server, "config": "{c4n4ry"}, ARGO)
    desk.secret("e", {"name": "in-cluster", "server": "https://kubernetes.default.svc", "config": {}}, ARGO)
    desk.secret("f", {"name": HOSTILE, "server": server, "config": config}, ARGO)
    desk.secret("other", {"name": "other", "server": server})
    hosts = desk.hosts("argocd", "names: {f: hostile}\n")
    reasons = {host: variables.get("cilium_mesh_unavailable", "") for host, variables in hosts.items()}
    assert set(reasons) == {"https-ffm", "eks", "gke", "broken", "in-cluster", "hostile"}
    assert reasons["https-ffm"] == reasons["hostile"] == "" and not (desk.path / "ran").exists()
    assert "awsAuthConfig" in reasons["eks"] and "has exec" in reasons["gke"] and "not JSON" in reasons["broken"]
    assert "in which Argo CD itself runs" in reasons["in-cluster"]
    assert "cilium_mesh_unavailable" not in desk.hosts("argocd", "exec: true\nnames: {f: hostile}\n")["gke"]


def test_a_run_reads_the_secret_itself_and_names_the_cluster_whose_secret_is_gone(desk: Desk, capi: str) -> None:
    for name in ("ffm", "ber"):
        desk.object(capi, name, {"initialization": {"controlPlaneInitialized": True}})
        desk.secret(f"{name}-kubeconfig", {"value": desk.own})
    desk.inventory("cluster_api", "cache: true\ncache_plugin: ansible.builtin.jsonfile\ncache_connection: cache\n")
    first = desk.run()
    assert first.requests["ffm"] and "There is no such Secret" not in "".join(first.events), first.output
    desk.plane.api.delete(f"/api/v1/namespaces/{desk.place}/secrets/ber-kubeconfig")
    second = "".join(desk.run().events)
    assert f"Secret {desk.place}/ber-kubeconfig of the management cluster gives no kubeconfig: There is no such Secret." in second


def test_missing_rights_are_an_error_for_the_list_and_a_reason_for_a_secret(desk: Desk, capi: str) -> None:
    desk.object(capi, "ffm", {"initialization": {"controlPlaneInitialized": True}})
    desk.secret("ffm-kubeconfig", {"value": desk.own})
    desk.write("reader.yaml", {**desk.own, "users": [{**desk.own["users"][0], "user": {**desk.user, "as": "reader"}}]})
    said = desk.refusal("cluster_api", kubeconfig="reader.yaml")
    assert "RBAC forbids" in said and "clusters" in said
    role = {"rules": [{"apiGroups": [CAPI], "resources": ["clusters"], "verbs": ["list"]}]}
    api, head = desk.plane.api, {"name": "reader", "namespace": desk.place}
    api.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": head, **role})
    subjects = [{"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}]
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    api.create({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": head, "subjects": subjects, "roleRef": to})
    api.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"reader-{desk.place}"},
            "subjects": subjects,
            "roleRef": {**to, "kind": "ClusterRole", "name": "system:discovery"},
        }
    )
    hosts = desk.hosts("cluster_api", kubeconfig="reader.yaml")
    assert "RBAC forbids" in hosts["ffm"]["cilium_mesh_unavailable"] and "secrets" in hosts["ffm"]["cilium_mesh_unavailable"]


def test_a_server_that_does_not_answer_and_a_list_without_clusters_are_errors(desk: Desk) -> None:
    dead = {**desk.own, "clusters": [{**desk.own["clusters"][0], "cluster": {"server": "https://127.0.0.1:1"}}]}
    desk.write("dead.yaml", dead)
    assert "127.0.0.1:1" in desk.refusal("management_plane", kubeconfig="dead.yaml")
    assert "does not exist" in desk.refusal("argocd", kubeconfig="none.yaml")
    assert "No cluster was found" in desk.refusal("management_plane")
    assert "400" in desk.refusal("management_plane", "label_selector: '!!'\n")
