# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs that do not work, each in one way, and a cluster whose Cilium CA was replaced."""

from __future__ import annotations

import base64
import socket
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.api import change_object, path_of
from tests.lab.cluster import profile_options
from tests.lab.profiles import build

Host = dict[str, dict[str, Any]]


def _document(lab: MeshLab, cluster: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(lab.lab.clusters[cluster].kubeconfig.read_text(encoding="utf-8"))
    return loaded


def _host(cluster: str, place: Path, document: dict[str, Any]) -> Host:
    place.write_text(yaml.safe_dump(document), encoding="utf-8")
    return {cluster: {"cilium_mesh_kubeconfig": str(place)}}


def unreachable(lab: MeshLab, cluster: str, place: Path) -> Host:
    """A server address without a listener."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    document = _document(lab, cluster)
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    return _host(cluster, place, document)


def token(lab: MeshLab, cluster: str, place: Path, value: str) -> Host:
    """A bearer token instead of the client certificate."""
    document = _document(lab, cluster)
    document["users"][0]["user"] = {"token": value}
    return _host(cluster, place, document)


def no_credentials(lab: MeshLab, cluster: str, place: Path) -> Host:
    """A user with nothing in it."""
    document = _document(lab, cluster)
    document["users"][0]["user"] = {}
    return _host(cluster, place, document)


def impersonated(lab: MeshLab, cluster: str, folder: Path, user: dict[str, Any]) -> Host:
    """The cluster in one file, and in a second the user, who impersonates another one; only the current-context of the first is right."""
    document = _document(lab, cluster)
    document["users"][0]["user"].update(user)
    parts = {"clusters": {**document, "users": []}, "users": {**document, "clusters": [], "contexts": [], "current-context": "another"}}
    for name, content in parts.items():
        (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    return {cluster: {"cilium_mesh_kubeconfig": f"{folder / 'clusters'}:{folder / 'users'}"}}


def without_rights(lab: MeshLab, cluster: str, place: Path) -> Host:
    """A token of a ServiceAccount that RBAC gives nothing."""
    return service_account(lab, cluster, place, "default")


def service_account(lab: MeshLab, cluster: str, place: Path, name: str) -> Host:
    """A token of a ServiceAccount in Cilium's namespace."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    access = ClusterAccess(host=cluster, kubeconfig=str(lab.lab.clusters[cluster].kubeconfig), context=None)
    with open_cluster(access) as client:
        answer = client.create(path, request, manager="tests")
    return token(lab, cluster, place, answer["status"]["token"])


def expired(lab: MeshLab, cluster: str, place: Path) -> Host:
    """A client certificate whose time ran out yesterday."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "former-user")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
    )
    certificate = builder.not_valid_before(now - timedelta(days=9)).not_valid_after(now - timedelta(days=1)).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    document = _document(lab, cluster)
    document["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode(),
        "client-key-data": base64.b64encode(pem).decode(),
    }
    return _host(cluster, place, document)


def _with_data(data: dict[str, str], current: dict[str, Any]) -> dict[str, Any]:
    return {**current, "data": data}


def replace_ca(lab: MeshLab, cluster: str) -> None:
    """Give a cluster a new Cilium CA and certificates from it, and a new mesh pod that serves them, as a re-installation would."""
    options = next(row for row in lab.lab.options.cluster_options() if row.name == cluster)
    api = lab.api(cluster)
    for manifest in build(profile_options(options, None)):
        name = manifest["metadata"]["name"]
        if manifest["kind"] == "Secret" and (name == "cilium-ca" or name.startswith("clustermesh-apiserver-")):
            change_object(api, path_of(manifest), partial(_with_data, manifest["data"]))
    lab.lab.kill(cluster)
    lab.lab.restart(cluster)
