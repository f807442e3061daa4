# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Playbook kcp_setup tells kcp everything once, and finds nothing to do afterwards; on the double, and on a real kcp where there is one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collection_path import CHECKOUT
from tests.lab.tools import ToolUnavailable
from tests.testing.kcp_client import MERGE, Client
from tests.testing.kcp_world import BACKENDS, World, eventually, open_world
from tests.testing.playbooks import PlaybookRun, run_playbook, run_warm

EXPORT = "other-networking"
HASH = "0123456789abcdef" * 4
COMMAND = [sys.executable, "-c", "import sys; from mesh_operator.manifests import print_manifests; sys.exit(print_manifests(sys.argv[1:]))"]
KINDS = {
    "apis.kcp.io/v1alpha1/apiresourceschemas": 5,
    "apis.kcp.io/v1alpha2/apiexports": 1,
    "rbac.authorization.k8s.io/v1/clusterroles": 4,
    "rbac.authorization.k8s.io/v1/clusterrolebindings": 4,
}


@pytest.fixture(scope="module", params=BACKENDS)
def world(request: pytest.FixtureRequest, servers: None) -> Iterator[World]:
    pytest.importorskip("ansible_collections.kubernetes.core.plugins.modules.k8s", reason="the collection kubernetes.core is not installed")
    try:
        with open_world(request.param) as found:
            yield found
    except ToolUnavailable as error:
        pytest.skip(f"no {request.param}: {error}")


@pytest.fixture
def provider(world: World, request: pytest.FixtureRequest) -> Client:
    """An empty workspace of its own."""
    return world.admin(world.workspace(request.node.name.replace("_", "-").split("[")[0][-40:].strip("-")))


def setup(provider: Client, folder: Path, *arguments: str, own_process: bool = False, **variables: Any) -> PlaybookRun:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(provider.kubeconfig()), encoding="utf-8")
    given = {"kubeconfig": str(kubeconfig), "export": EXPORT, "command": COMMAND, "fleet_identity_hash": HASH, "wait": 20, **variables}
    run = run_playbook if own_process else run_warm
    return run(
        "kcp_setup",
        inventory={"all": {"hosts": {}}},
        variables={f"kcp_setup_{name}": value for name, value in given.items() if value is not None},
        arguments=arguments,
        environment={"PYTHONPATH": str(CHECKOUT / "operator")},
    )


def counts(provider: Client) -> dict[str, int]:
    """How many objects of ours the workspace has."""
    found = {}
    for place in KINDS:
        names = [entry["metadata"]["name"] for entry in provider.list(f"/apis/{place}")]
        found[place] = sum(name.startswith(f"{EXPORT}") or name.endswith(".networking.edge-portal.eu") for name in names)
    return found


def test_the_first_run_makes_everything_and_the_second_changes_nothing(provider: Client, tmp_path: Path) -> None:
    looked = setup(provider, tmp_path, "--check")
    assert looked.rc == 0, looked.output
    assert looked.changed == 1 and not any(counts(provider).values())
    made = setup(provider, tmp_path, own_process=True)
    assert made.rc == 0, made.output
    assert made.changed == 1 and counts(provider) == KINDS
    export = provider.get(f"/apis/apis.kcp.io/v1alpha2/apiexports/{EXPORT}") or {}
    assert f"APIExport {EXPORT} has identity {export['status']['identityHash']}" in made.output
    assert provider.get("/api/v1/namespaces/mesh-operator/serviceaccounts/mesh-operator") is not None
    for arguments in ((), ("--check",)):
        again = setup(provider, tmp_path, *arguments)
        assert (again.rc, again.changed) == (0, 0), again.output


def test_a_file_takes_the_place_of_the_command(provider: Client, tmp_path: Path) -> None:
    printed = tmp_path / "kcp.yaml"
    options = ["--only", "export", "--only", "rbac", "--export-name", EXPORT, "--fleet-identity-hash", HASH, "--no-events"]
    environment = {"PYTHONPATH": str(CHECKOUT / "operator")}
    with printed.open("w", encoding="utf-8") as file:
        subprocess.run([*COMMAND, *options], env=environment, check=True, stdout=file)
    given: dict[str, Any] = {"manifests": str(printed), "fleet_identity_hash": None, "export": None, "command": ["/bin/false"]}
    run = setup(provider, tmp_path, **given, kubeconfig=provider.kubeconfig())
    assert run.rc == 0, run.output
    assert counts(provider) == KINDS | {
        "rbac.authorization.k8s.io/v1/clusterroles": 3,
        "rbac.authorization.k8s.io/v1/clusterrolebindings": 3,
    }
    (claim,) = (provider.get(f"/apis/apis.kcp.io/v1alpha2/apiexports/{EXPORT}") or {})["spec"]["permissionClaims"]
    assert (claim["resource"], claim["identityHash"]) == ("kubernetesclusters", HASH)


def test_without_the_identity_of_the_fleet_it_says_where_that_stands(provider: Client, tmp_path: Path) -> None:
    run = setup(provider, tmp_path, fleet_identity_hash=None)
    assert run.rc != 0 and "kcp_setup_fleet_identity_hash is missing" in run.output
    assert "kubectl get apiexport edge-portal-fleet" in run.output


@pytest.mark.parametrize("command", [["no-such-program"], [*COMMAND, "--no-such-option"]])
def test_a_command_that_fails_is_reported_with_the_remedy(provider: Client, tmp_path: Path, command: list[str]) -> None:
    run = setup(provider, tmp_path, command=command)
    assert run.rc != 0 and "give the file as kcp_setup_manifests" in run.output
    assert "no-such-" in run.output and not any(counts(provider).values())


def test_what_tenants_are_given_lets_them_use_the_kinds_and_write_no_status(world: World) -> None:
    """The world is made by the same documents."""
    tenant = world.tenant("policy")
    body: dict[str, Any] = {
        "apiVersion": "networking.edge-portal.eu/v1alpha1",
        "kind": "Fabric",
        "metadata": {"name": "europe", "namespace": "default"},
        "spec": {"meshRefs": [{"name": "edge-mesh-eu"}]},
    }
    eventually(lambda: tenant.client.ensure(body), "a tenant may make a Fabric")
    path = "/apis/networking.edge-portal.eu/v1alpha1/namespaces/default/fabrics/europe"
    forged = tenant.client.call("PATCH", f"{path}/status", {"status": {"phase": "Connected"}}, media=MERGE)
    assert forged.status == 403, forged.text
    assert "status" not in (tenant.client.get(path) or {})
    virtual = world.virtual(tenant.cluster)
    written = virtual.call("PATCH", f"{path}/status", {"status": {"phase": "Pending"}}, media=MERGE)
    assert written.status == 200, written.text
    assert (tenant.client.get(path) or {})["status"] == {"phase": "Pending"}
