# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Small objects of tenants and providers, for tests of kcp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesh_operator.crds import api_resource_schema
from tests.testing.fleet_examples import BASES, name_of

Object = dict[str, Any]
_NETWORKING = "/apis/networking.edge-portal.eu/v1alpha1"
BINDINGS = f"{_NETWORKING}/clustermeshbindings"
INSIDE = f"{_NETWORKING}/namespaces/default/clustermeshbindings"
CLUSTERS = "/apis/platform.edge-portal.eu/v1alpha1/kubernetesclusters"
WIDGETS = "/apis/widgets.test/v1alpha1/widgets"
PATH_OF_BINDING = "/apis/apis.kcp.io/v1alpha2/apibindings"


def mesh(name: str, *clusters: str) -> Object:
    refs = [{"name": cluster} for cluster in clusters or ("ffm", "ber")]
    metadata: Object = {"name": name, "namespace": "default"}
    version = "networking.edge-portal.eu/v1alpha1"
    return {"apiVersion": version, "kind": "ClusterMeshBinding", "metadata": metadata, "spec": {"clusterRefs": refs}}


def cluster_object(name: str) -> Object:
    metadata: Object = {"name": name, "namespace": "default"}
    spec: Object = {"providerRef": {"name": "kind"}, "region": "eu"}
    return {"apiVersion": "platform.edge-portal.eu/v1alpha1", "kind": "KubernetesCluster", "metadata": metadata, "spec": spec}


def fleet_object(kind: str) -> Object:
    """The least of a kind of fleets; ClusterMetrics have no spec."""
    metadata: Object = {"name": name_of(kind), "namespace": "default"}
    body: Object = {"apiVersion": "platform.edge-portal.eu/v1alpha1", "kind": kind, "metadata": metadata}
    return body | ({"spec": BASES[kind]} if kind in BASES else {})


def holding(binding: Mapping[str, Any] | None) -> Object | None:
    """The condition that says why an APIBinding is not gone yet, once it is there."""
    conditions = ((binding or {}).get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "BindingResourceDeleteSuccess" and one["status"] == "False"), None)


def widget_export(name: str, account: str) -> list[Object]:
    """An export of its own: widgets, which every user may bind and the ServiceAccount ``account``/``account`` may read."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    schema = api_resource_schema({"spec": {"group": "widgets.test", "names": names, "scope": "Namespaced", "versions": [version]}})
    resources = [{"name": "widgets", "group": "widgets.test", "schema": schema["metadata"]["name"], "storage": {"crd": {}}}]
    export = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}, "spec": {"resources": resources}}
    all_users = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    reader = {"kind": "ServiceAccount", "name": account, "namespace": account}
    return [
        schema,
        export,
        *_granted(f"{name}:bind", name, "apiexports", ["bind"], all_users),
        *_granted(f"{name}:read", name, "apiexports/content", ["get", "list", "watch"], reader),
    ]


def _granted(role: str, export: str, resource: str, verbs: list[str], subject: Object) -> list[Object]:
    version, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["apis.kcp.io"], "resources": [resource], "resourceNames": [export], "verbs": verbs}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": role}
    return [
        {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": role}, "rules": [rule]},
        {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": role}, "roleRef": reference, "subjects": [subject]},
    ]
