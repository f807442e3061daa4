# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One ordinary cluster whose namespaces are tenants, with the same methods as the World of a kcp (kcp_world.py), for tests and the demo.

with open_namespaces(management_plane) as world:
    shop = world.tenant("shop")                       # a namespace, and a user with the tenants' roles in it
    kubeconfig = world.operator().kubeconfig()        # with the rights of operator/deploy/kubernetes alone
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import yaml

from mesh_operator.base.kinds import GROUP, VERSION
from mesh_operator.crds import crds
from mesh_operator.source.namespaces import workspace_of
from tests.collection_path import CHECKOUT
from tests.lab.api import ApiError
from tests.testing.kcp_client import Client, Object, path_of
from tests.testing.kcp_world import Tenant, eventually
from tests.testing.one_server import OneServer
from tests.testing.waiting import wait_for

HOME: Final = "mesh-operator"  # of the operator: its ServiceAccount, Lease and records
LABEL: Final = "networking.edge-portal.eu/cluster"  # of a Secret: the name of the cluster whose kubeconfig it has
_MANIFESTS: Final = CHECKOUT / "operator" / "deploy" / "kubernetes"
_ROLES: Final = CHECKOUT / "operator" / "deploy" / "kcp" / "tenant-roles.yaml"
_RBAC: Final = "rbac.authorization.k8s.io"
_TENANT: Final = "tenant"  # ServiceAccount of each namespace
_TOKEN: Final = 24 * 3600  # seconds


class Marked(Client):
    """An administrator who reads objects as the operator has them: with the workspace of their namespace."""

    identity: str

    def list(self, path: str, *, limit: int = 0) -> list[Object]:
        """All items, page by page when ``limit`` is given."""
        found = super().list(path, limit=limit)
        for obj in found:
            workspace = workspace_of(self.identity, obj["metadata"].get("namespace", ""))
            obj["metadata"].setdefault("annotations", {})["kcp.io/cluster"] = workspace
        return found


class NamespaceWorld:
    """See the module. It has no faults on demand: its server is a real one."""

    kind: Final = "kubernetes"

    def __init__(self, server: OneServer) -> None:
        config = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
        self._api, self._url = server.api, config["clusters"][0]["cluster"]["server"]
        self._ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        found = self._api.get("/api/v1/namespaces/kube-system")
        assert found is not None
        self.identity: str = found["metadata"]["uid"]
        self._made: list[str] = []
        self._kinds = [definition for definition in crds() if definition["spec"]["group"] == GROUP]

    def install(self) -> None:
        """The kinds, the tenants' roles, and the operator's namespace and rights."""
        documents = [*self._kinds, *_documents(_ROLES.read_text(encoding="utf-8"))]
        for name in ("1-namespace.yaml", "2-rbac.yaml"):
            documents += _documents((_MANIFESTS / name).read_text(encoding="utf-8"))
        for document in documents:
            self._ensure(document)
        for definition in self._kinds:
            root = f"/apis/{GROUP}/{VERSION}/{definition['spec']['names']['plural']}"
            eventually(partial(self._api.get, root), f"{root} is served")

    def remove(self) -> None:
        """Delete what `install` and `tenant` made, but for namespaces, which a server without controllers cannot delete.

        A kind is gone when its objects are: finalizers of an operator that has ended are taken off them.
        """
        for path in self._made:
            self._api.delete(path)
        for definition in self._kinds:
            wait_for(partial(self._is_gone, definition), what=f"{definition['metadata']['name']} is gone")

    def _is_gone(self, definition: Object) -> bool:
        if self._api.get(path_of(definition)) is None:
            return True
        try:
            for found in self._api.list(f"/apis/{GROUP}/{VERSION}/{definition['spec']['names']['plural']}"):
                if found["metadata"].get("finalizers"):
                    self._api.patch(path_of({"kind": definition["spec"]["names"]["kind"], **found}), {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.status not in (404, 409):  # it goes at this moment
                raise
        return False

    def tenant(self, name: str) -> Tenant:
        """A namespace, and a ServiceAccount in it that may write our kinds and Secrets, and read Events."""
        self._ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._ensure({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _TENANT, "namespace": name}})
        rules = [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch", "delete"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
        ]
        self._ensure({"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": {"name": "secrets", "namespace": name}, "rules": rules})
        for kind, role in (("Role", "secrets"), ("ClusterRole", "cilium-mesh-view"), ("ClusterRole", "cilium-mesh-edit")):
            self._ensure(
                {
                    "apiVersion": f"{_RBAC}/v1",
                    "kind": "RoleBinding",
                    "metadata": {"name": role, "namespace": name},
                    "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
                    "subjects": [{"kind": "ServiceAccount", "name": _TENANT, "namespace": name}],
                }
            )
        client = self._client(name, _TENANT)
        eventually(lambda: client.list(f"/apis/{GROUP}/{VERSION}/namespaces/{name}/fabrics") == [], f"{name} may read its namespace")
        return Tenant(name, f"namespace {name}", workspace_of(self.identity, name), client, home=name)

    def operator(self) -> Client:
        """The operator's ServiceAccount."""
        return self._client(HOME, "mesh-operator")

    def virtual(self, cluster: str = "*") -> Client:
        """Everything in all namespaces, with the workspace of each; ``cluster`` can be "*" alone."""
        assert cluster == "*"
        self._ensure({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "everywhere", "namespace": HOME}})
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cilium-mesh-view"}
        subjects = [{"kind": "ServiceAccount", "name": "everywhere", "namespace": HOME}]
        kind, metadata = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRoleBinding"}, {"name": "everywhere"}
        self._ensure({**kind, "metadata": metadata, "roleRef": role, "subjects": subjects})
        found = Marked(self._url, self._ca, self._token(HOME, "everywhere"))
        found.identity = self.identity
        return found

    def _client(self, namespace: str, account: str) -> Client:
        return Client(self._url, self._ca, self._token(namespace, account))

    def _token(self, namespace: str, account: str) -> str:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN}}
        answer: Mapping[str, Any] = self._api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)
        return str(answer["status"]["token"])

    def _ensure(self, document: Object) -> None:
        try:
            self._api.create(document)
        except ApiError as error:
            if error.status != 409:
                raise
            return
        if document["kind"] != "Namespace":
            self._made.append(path_of(document))


@contextmanager
def open_namespaces(server: OneServer) -> Iterator[NamespaceWorld]:
    """``server``: the management plane, which is also where the custom resources are."""
    world = NamespaceWorld(server)
    world.install()
    try:
        yield world
    finally:
        world.remove()


def _documents(text: str) -> list[Object]:
    return [document for document in yaml.safe_load_all(text) if document]
