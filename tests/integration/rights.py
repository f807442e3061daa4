# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An account with the rights that the playbook rbac gives it, and without one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.manifest import GROUP, default_name
from tests.integration import credentials
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.testing.waiting import wait_for

ACCOUNT: Final = "cilium-mesh"
NAME: Final = default_name(Binding(name="edge-mesh-eu", cluster_refs=()))
ROLES: Final = {
    "ClusterRole": f"/apis/{GROUP}/v1/clusterroles/{NAME}",
    "Role": f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/roles/{NAME}",
}

BASIC: Final = (
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
)
"""Rules that every account has (ClusterRole system:basic-user)."""

Hosts = dict[str, dict[str, Any]]
Row = dict[str, Any]


def grant(
    lab: MeshLab, place: Path, functions: Sequence[str] = ("all",), *, mesh: Mapping[str, Any] | None = None, without: str = ""
) -> Hosts:
    """Give the account the rights of these functions, less those on one resource, in every cluster; return the hosts that use it."""
    made = lab.play("rbac", mesh=mesh, cilium_mesh_rbac_state="present", cilium_mesh_rbac_functions=list(functions))
    assert made.rc == 0, made.output
    hosts: Hosts = {}
    for cluster in lab.names:
        hosts |= credentials.service_account(lab, cluster, place / cluster, ACCOUNT)
        if without:
            found = {kind: [row for row in rules_of(lab, cluster, kind) if without not in row["resources"]] for kind in ROLES}
            give(lab, hosts, cluster, found)
    return hosts


def rules_of(lab: MeshLab, cluster: str, kind: str) -> list[Row]:
    """The rules of a role of the account; [] without the role."""
    found = lab.api(cluster).get(ROLES[kind])
    return list(found["rules"]) if found else []


def write(lab: MeshLab, cluster: str, kind: str, rules: Sequence[Row]) -> None:
    lab.api(cluster).patch(ROLES[kind], {"rules": list(rules)})


def give(lab: MeshLab, hosts: Hosts, cluster: str, rules: Mapping[str, Sequence[Row]]) -> None:
    """Give the account these rules in one cluster, by kind of the role, and wait until the API server authorizes by them."""
    for kind, rows in rules.items():
        write(lab, cluster, kind, rows)
    wanted = [row for rows in rules.values() for row in rows]

    def late() -> list[Row]:
        known = [row for row in granted(hosts, cluster) if row not in BASIC]
        return [row for row in known if row not in wanted] + [row for row in wanted if row not in known]

    wait_for(late, lambda found: not found, what=f"{cluster} authorizes by the new rules")


def granted(hosts: Hosts, cluster: str) -> list[Row]:
    """The rules of the account in Cilium's namespace, as the API server authorizes by them."""
    access = ClusterAccess(host=cluster, kubeconfig=hosts[cluster]["cilium_mesh_kubeconfig"], context=None)
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": NAMESPACE}}
    with open_cluster(access) as client:
        answer = client.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body, manager="tests")
    return [dict(row) for row in answer["status"]["resourceRules"]]
