# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Joining of clusters to a Karmada by its plain API, in push mode, as ``karmadactl join`` does it (pkg/karmadactl/join)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.collection_path import CHECKOUT
from tests.lab.api import LabApi, path_of
from tests.lab.karmada import CLUSTER_SECRETS
from tests.lab.lab import ClusterHandle

DEPLOYER: Final = CHECKOUT / "operator" / "deploy" / "karmada" / "deployer.yaml"
OPERATOR: Final = DEPLOYER.with_name("operator.yaml")
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
LIFETIME: Final = 3600  # seconds of the tokens


def join(karmada: LabApi, member: ClusterHandle, *, name: str = "", labels: Mapping[str, str] | None = None, **fields: Any) -> None:
    """Register a cluster under its name, or another. Its credentials come first, so that the first check by Karmada succeeds.

    ``fields``: region, provider, zones of the Cluster.
    """
    api, name = member.api, name or member.name
    cluster = yaml.safe_load(member.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLUSTER_SECRETS}})
    tokens = {account: _token(api, account) for account in (f"karmada-{name}", "karmada-impersonator")}
    _permit_everything(api, f"karmada-controller-manager:karmada-{name}", f"karmada-{name}")
    secrets = {
        name: {"caBundle": cluster["certificate-authority-data"], "token": tokens[f"karmada-{name}"]},
        f"{name}-impersonator": {"token": tokens["karmada-impersonator"]},
    }
    for secret, data in secrets.items():
        metadata = {"name": secret, "namespace": CLUSTER_SECRETS}
        karmada.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    uid = (api.get("/api/v1/namespaces/kube-system") or {})["metadata"]["uid"]
    references = {
        field: {"namespace": CLUSTER_SECRETS, "name": secret}
        for field, secret in zip(("secretRef", "impersonatorSecretRef"), secrets, strict=True)
    }
    spec = {"syncMode": "Push", "apiEndpoint": cluster["server"], "id": uid, **references, **fields}
    karmada.post(
        CLUSTERS,
        {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": spec,
        },
    )


def deployer_kubeconfig(karmada: LabApi, kubeconfig: Path, folder: Path) -> Path:
    """Write the rights and rules of the deployer into Karmada, and return a kubeconfig of it in a folder: its documented rights, no others.

    :param kubeconfig: the one of Karmada's administrator.
    """
    return _kubeconfig_of("fleet-deployer", (DEPLOYER,), karmada, kubeconfig, folder)


def operator_kubeconfig(karmada: LabApi, kubeconfig: Path, folder: Path) -> Path:
    """Write the rights and rules of the operator into Karmada, and return a kubeconfig of it; see ``deployer_kubeconfig``."""
    return _kubeconfig_of("fleet-operator", (DEPLOYER, OPERATOR), karmada, kubeconfig, folder)


def _kubeconfig_of(account: str, files: Sequence[Path], karmada: LabApi, kubeconfig: Path, folder: Path) -> Path:
    for file in files:
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if karmada.get(path_of(document)) is None:  # both users need the rules of the deployer
                karmada.create(document)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME}}
    token = karmada.post(f"/api/v1/namespaces/edge-connect-system/serviceaccounts/{account}/token", asked)["status"]["token"]
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"token": token}
    place = folder / f"{account}.kubeconfig"
    place.touch(mode=0o600)
    place.write_text(yaml.safe_dump(document), encoding="utf-8")
    return place


def unready(karmada: LabApi) -> list[str]:
    """Return the names of clusters that are not Ready."""

    def is_ready(cluster: dict[str, Any]) -> bool:
        conditions = (cluster.get("status") or {}).get("conditions") or ()
        return any((entry["type"], entry["status"]) == ("Ready", "True") for entry in conditions)

    return [cluster["metadata"]["name"] for cluster in karmada.list(CLUSTERS) if not is_ready(cluster)]


def _token(api: LabApi, account: str) -> str:
    """Make a ServiceAccount, and return a token of it, base64."""
    place = f"/api/v1/namespaces/{CLUSTER_SECRETS}/serviceaccounts"
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": CLUSTER_SECRETS}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME}}
    return base64.b64encode(api.post(f"{place}/{account}/token", asked)["status"]["token"].encode()).decode()


def _permit_everything(api: LabApi, name: str, account: str) -> None:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]}]
    api.create({"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": CLUSTER_SECRETS}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    api.create(
        {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    )
