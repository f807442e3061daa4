# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What kcp is given: what the work of the operator needs, and no more for any user. On a kcp: tests/integration/test_kcp_setup.py."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import loader
from mesh_operator.base.kinds import FLEET_GROUP, GROUP, ROWS
from mesh_operator.crds import FLEET, crds
from mesh_operator.manifests import PARTS, kcp_manifests, print_manifests

VALUES = {
    "export_name": "edge-portal-networking",
    "provider_path": "root:networking",
    "fleet_export": "edge-portal-fleet",
    "fleet_path": "root:fleet",
    "fleet_identity_hash": "77" * 32,
    "namespace": "mesh-operator",
    "service_account": "operator",
}
EVERYTHING = ["--provider-path", "root:networking", "--fleet-path", "root:fleet", "--fleet-identity-hash", "77" * 32]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def one(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (document for document in of_kind(documents, kind) if document["metadata"]["name"] == name)
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert print_manifests(arguments) == 0
    text = capsys.readouterr().out
    assert "&id" not in text  # every document can be read by itself
    return list(yaml.load_all(text, loader()))


def test_documents_come_in_the_order_in_which_they_can_be_applied() -> None:
    kinds = list(dict.fromkeys(document["kind"] for document in kcp_manifests(VALUES)))
    assert kinds[:2] == ["APIResourceSchema", "APIExport"]
    assert kinds[2:] == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "APIBinding", "WorkspaceType"]


def test_the_export_has_every_kind_of_ours_by_the_schema_that_is_printed_with_it() -> None:
    documents = kcp_manifests(VALUES, ("export",))
    (export,) = of_kind(documents, "APIExport")
    assert (export["apiVersion"], export["metadata"]["name"]) == ("apis.kcp.io/v1alpha2", "edge-portal-networking")
    rows = export["spec"]["resources"]
    assert {row["name"] for row in rows} == {row.plural for row in ROWS if row.group == GROUP}
    assert [row["schema"] for row in rows] == [schema["metadata"]["name"] for schema in of_kind(documents, "APIResourceSchema")]
    assert all(row["storage"] == {"crd": {}} and row["schema"].endswith(f".{row['name']}.{row['group']}") for row in rows)
    assert export["spec"]["maximalPermissionPolicy"] == {"local": {}}


def test_claims_are_those_of_the_export_in_both_places_and_events_can_be_left_out() -> None:
    clusters = {
        "group": "platform.edge-portal.eu",
        "resource": "kubernetesclusters",
        "identityHash": "77" * 32,
        "verbs": ["get", "list", "watch"],
    }
    events = {"group": "", "resource": "events", "verbs": ["create", "patch"]}
    for wanted, claims in ((True, [clusters, events]), (False, [clusters])):
        documents = kcp_manifests(VALUES, events=wanted)
        assert of_kind(documents, "APIExport")[0]["spec"]["permissionClaims"] == claims
        binding = one(documents, "APIBinding", "edge-portal-networking")
        accepted = {"state": "Accepted", "selector": {"matchAll": True}}
        assert binding["spec"]["permissionClaims"] == [claim | accepted for claim in claims]
        creators = [role for role in of_kind(documents, "ClusterRole") if "create" in str(role["rules"])]
        assert len(creators) == wanted


def test_the_operator_may_read_and_write_through_the_virtual_workspace_and_nothing_else() -> None:
    documents = kcp_manifests(VALUES, ("rbac",))
    (role,) = (document for document in of_kind(documents, "ClusterRole") if document["metadata"]["name"].endswith(":operator"))
    assert role["rules"] == [
        {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports", "apiexportendpointslices"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": ["apis.kcp.io"],
            "resources": ["apiexports/content"],
            "resourceNames": ["edge-portal-networking"],
            "verbs": ["get", "list", "watch", "update", "patch"],
        },
    ]
    holders = [binding for binding in of_kind(documents, "ClusterRoleBinding") if binding["subjects"][0]["kind"] == "ServiceAccount"]
    assert {binding["roleRef"]["name"] for binding in holders} == {"edge-portal-networking:operator", "edge-portal-networking:events"}
    assert all(binding["subjects"] == [{"kind": "ServiceAccount", "name": "operator", "namespace": "mesh-operator"}] for binding in holders)
    assert not any("*" in rule["verbs"] for rule in role["rules"])


def test_tenants_may_do_everything_with_the_kinds_but_write_a_status() -> None:
    documents = kcp_manifests(VALUES, ("rbac",))
    role = one(documents, "ClusterRole", "edge-portal-networking:maximal-permissions")
    everything, statuses = role["rules"]
    assert everything["verbs"] == ["*"] and not any("/" in resource or "*" in resource for resource in everything["resources"])
    assert set(everything["resources"]) == {row["name"] for row in of_kind(kcp_manifests(VALUES), "APIExport")[0]["spec"]["resources"]}
    assert (statuses["resources"], statuses["verbs"]) == (["*/status"], ["get", "list", "watch"])
    holder = one(documents, "ClusterRoleBinding", "edge-portal-networking:maximal-permissions")
    assert holder["subjects"][0]["name"] == "apis.kcp.io:binding:system:authenticated"
    bind = one(documents, "ClusterRole", "edge-portal-networking:bind")
    assert bind["rules"][0]["verbs"] == ["bind"] and bind["rules"][0]["resourceNames"] == ["edge-portal-networking"]


def test_a_tenant_binds_the_fleet_before_what_claims_it() -> None:
    documents = kcp_manifests(VALUES, ("binding", "workspacetype"))
    places = [document["spec"]["reference"]["export"] for document in of_kind(documents, "APIBinding")]
    assert places == [
        {"path": "root:fleet", "name": "edge-portal-fleet"},
        {"path": "root:networking", "name": "edge-portal-networking"},
    ]
    (kind,) = of_kind(documents, "WorkspaceType")
    assert kind["spec"]["defaultAPIBindings"] == [{"path": place["path"], "export": place["name"]} for place in places]


@pytest.mark.parametrize("text", ["x\nspec: {}\n---\nkind: Evil", "${fleet_path}", "{{ 7 * 7 }}", "'\"]: {}", "$"])
def test_a_value_stays_text_whatever_is_in_it(text: str) -> None:
    usual, odd = kcp_manifests(VALUES), kcp_manifests({**VALUES, "export_name": text})
    assert odd != usual
    assert _replaced(odd, text) == _replaced(usual, VALUES["export_name"])


def _replaced(value: Any, text: str) -> Any:
    """With a word in place of the name of the export, where it stands alone or before ``:operator`` and the like."""
    if isinstance(value, dict):
        return {key: _replaced(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, text) for item in value]
    return value.replace(text, "EXPORT") if isinstance(value, str) and (value == text or value.startswith(f"{text}:")) else value


def test_the_command_prints_what_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    values = {**VALUES, "service_account": "mesh-operator"}
    assert printed(capsys, *EVERYTHING) == kcp_manifests(values)
    for part in PARTS:
        assert printed(capsys, *EVERYTHING, "--only", part) == kcp_manifests(values, (part,))
    both = printed(capsys, "--only", "rbac", "--only", "crds", "--service-account", "a/b", "--no-events")
    assert len(of_kind(both, "CustomResourceDefinition")) == len(of_kind(kcp_manifests(VALUES, ("export",)), "APIResourceSchema"))
    assert of_kind(both, "ServiceAccount")[0]["metadata"] == {"name": "b", "namespace": "a"}
    assert not of_kind(both, "APIExport")
    assert {document["kind"] for document in printed(capsys, "--only", "crds")} == {"CustomResourceDefinition"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--fleet-identity-hash is missing"),
        (["--only", "export", "--fleet-identity-hash", ""], "--fleet-identity-hash is missing"),
        (["--only", "workspacetype", "--provider-path", "root:x"], "--fleet-path is missing"),
        (["--only", "rbac", "--service-account", "operator"], "write NAMESPACE/NAME"),
        (["--only", "everything"], "invalid choice"),
    ],
)
def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        print_manifests(arguments)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "") and words in said.err


def test_tenants_view_and_edit_every_kind_and_write_no_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_manifests(["--only", "tenant-roles"]) == 0
    roles = {document["metadata"]["name"]: document for document in yaml.safe_load_all(capsys.readouterr().out)}
    assert set(roles) == {"cilium-mesh-view", "cilium-mesh-edit"}
    plurals = {crd["spec"]["names"]["plural"] for crd in crds()}
    for role in roles.values():
        assert [set(rule["resources"]) for rule in role["rules"]] == [plurals], "every kind, and no subresource"
        assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"networking.edge-portal.eu"}
    verbs = {name: {verb for rule in role["rules"] for verb in rule["verbs"]} for name, role in roles.items()}
    assert verbs["cilium-mesh-view"] == {"get", "list", "watch"} and not verbs["cilium-mesh-edit"] & verbs["cilium-mesh-view"]
    into = {
        name: {label.rpartition("-")[2] for label, value in role["metadata"]["labels"].items() if value == "true"}
        for name, role in roles.items()
    }
    assert into == {"cilium-mesh-view": {"view", "edit", "admin"}, "cilium-mesh-edit": {"edit", "admin"}}


# The export of fleets

FLEET_VALUES = {
    "export_name": "edge-portal-fleet",
    "provider_path": "root:fleet",
    "namespace": "mesh-operator",
    "service_account": "operator",
}
TENANTS_WRITE = {"kubernetesclusters", "fleets", "placementpolicies", "fleetworkloads"}
ANSWERS = {"fleetworkloadrevisions", "clustermetrics"}


def fleet(*only: str, events: bool = True) -> list[dict[str, Any]]:
    return kcp_manifests(FLEET_VALUES, only or PARTS, events=events, profile=FLEET)


def test_the_export_of_fleets_has_its_kinds_and_claims_what_it_reads() -> None:
    documents = fleet("export")
    (export,) = of_kind(documents, "APIExport")
    assert export["metadata"]["name"] == "edge-portal-fleet" and export["spec"]["maximalPermissionPolicy"] == {"local": {}}
    rows = export["spec"]["resources"]
    assert {row["name"] for row in rows} == TENANTS_WRITE | ANSWERS and {row["group"] for row in rows} == {FLEET_GROUP}
    assert [row["schema"] for row in rows] == [schema["metadata"]["name"] for schema in of_kind(documents, "APIResourceSchema")]
    claims = [
        {"group": "", "resource": "secrets", "verbs": ["get", "list", "watch"]},
        {"group": "", "resource": "events", "verbs": ["create", "patch"]},
    ]
    assert export["spec"]["permissionClaims"] == claims
    accepted = {"state": "Accepted", "selector": {"matchAll": True}}
    for wanted, expected in ((True, claims), (False, claims[:1])):
        (binding,) = of_kind(fleet("binding", events=wanted), "APIBinding")
        assert binding["spec"]["reference"]["export"] == {"path": "root:fleet", "name": "edge-portal-fleet"}
        assert binding["spec"]["permissionClaims"] == [claim | accepted for claim in expected]


def test_tenants_of_a_fleet_may_write_their_kinds_and_read_the_answers() -> None:
    role = one(fleet("rbac"), "ClusterRole", "edge-portal-fleet:maximal-permissions")
    rights = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    reading = ["get", "list", "watch"]
    assert rights == {**{name: ["*"] for name in TENANTS_WRITE}, **dict.fromkeys(ANSWERS, reading), "*/status": reading}
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {FLEET_GROUP}


def test_the_operator_makes_and_deletes_below_the_export_of_fleets_alone() -> None:
    roles = of_kind(fleet("rbac"), "ClusterRole")
    (content,) = (rule for role in roles for rule in role["rules"] if rule["resources"] == ["apiexports/content"])
    assert content["resourceNames"] == ["edge-portal-fleet"]
    assert content["verbs"] == ["get", "list", "watch", "create", "update", "patch", "delete"]
    assert {role["metadata"]["name"].partition(":")[2] for role in roles} == {"operator", "bind", "maximal-permissions"}
    names = {binding["metadata"]["name"]: binding for binding in of_kind(fleet("rbac"), "ClusterRoleBinding")}
    assert set(names) == {role["metadata"]["name"] for role in roles}
    assert names["edge-portal-fleet:operator"]["subjects"] == [{"kind": "ServiceAccount", "name": "operator", "namespace": "mesh-operator"}]


def test_the_command_prints_the_profile_of_fleets(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--profile", "fleet", "--provider-path", "root:fleet", "--service-account", "mesh-operator/operator")
    assert printed(capsys, *arguments) == fleet()
    (kind,) = of_kind(fleet("workspacetype"), "WorkspaceType")
    assert kind["spec"]["defaultAPIBindings"] == [{"path": "root:fleet", "export": "edge-portal-fleet"}]
    plurals = {document["spec"]["names"]["plural"] for document in printed(capsys, "--profile", "fleet", "--only", "crds")}
    assert plurals == TENANTS_WRITE | ANSWERS
    roles = {role["metadata"]["name"]: role for role in printed(capsys, "--profile", "fleet", "--only", "tenant-roles")}
    (view,), (edit,) = roles["edge-fleet-view"]["rules"], roles["edge-fleet-edit"]["rules"]
    assert (set(view["resources"]), view["verbs"]) == (plurals, ["get", "list", "watch"])
    assert set(edit["resources"]) == TENANTS_WRITE and not set(edit["verbs"]) & {*view["verbs"], "*"}
    assert {group for rule in (view, edit) for group in rule["apiGroups"]} == {FLEET_GROUP}
    into = {name: {label.rpartition("-")[2] for label in role["metadata"]["labels"]} for name, role in roles.items()}
    assert into == {"edge-fleet-view": {"view", "edit", "admin"}, "edge-fleet-edit": {"edit", "admin"}}
