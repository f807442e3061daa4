# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The chart on a real API server by a real Helm: installed, upgraded, refused, and removed without the resources of tenants."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from mesh_operator.base.kinds import BINDING, GROUP, VERSION
from mesh_operator.base.settings import parse_settings
from mesh_operator.crds import crds
from tests.collection_path import CHECKOUT
from tests.lab.api import LabApi, path_of
from tests.lab.tools import HELM, ToolUnavailable, ensure
from tests.testing.kcp_world import eventually
from tests.testing.one_server import OneServer

CHART = CHECKOUT / "operator" / "deploy" / "chart"
HOME, TEAM = "mesh-operator", "team-a"
WITHOUT_KCP = ("--set", "source=kubernetes", "--set", f"tenants.namespaces={{{TEAM}}}")
Object = dict[str, Any]


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[OneServer]:
    with OneServer() as server:
        for name in ("default", "kube-system"):
            eventually(partial(server.api.get, f"/api/v1/namespaces/{name}"), f"namespace {name} is there")
        server.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
        yield server


class Helm:
    """Helm with a home of its own, and an API server."""

    def __init__(self, program: Path, server: OneServer, home: Path) -> None:
        self._program = program
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(server.kubeconfig)}

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Return what it prints; the error where ``fails``."""
        command = [str(self._program), *arguments, "--namespace", HOME]
        done = subprocess.run(command, env=self._environment, check=False, capture_output=True, text=True)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def helm(server: OneServer, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    try:
        tools = ensure([HELM], progress=print)
    except ToolUnavailable as error:
        pytest.skip(f"helm cannot be had: {error}")
    return Helm(tools.path(HELM), server, tmp_path_factory.mktemp("helm"))


def deployment(api: LabApi) -> Object | None:
    return api.get(f"/apis/apps/v1/namespaces/{HOME}/deployments/mesh-operator")


def arguments(api: LabApi) -> list[str]:
    found = deployment(api)
    assert found is not None
    return [text.replace("$(POD_NAME)", "mesh-operator-0") for text in found["spec"]["template"]["spec"]["containers"][0]["args"]]


def objects_of(manifest: str) -> list[Object]:
    return [obj for obj in yaml.safe_load_all(manifest) if obj]


def test_the_chart_is_installed_upgraded_refused_and_removed_and_the_resources_of_tenants_stay(server: OneServer, helm: Helm) -> None:
    api = server.api
    refused = helm("install", "mesh-operator", str(CHART), "--create-namespace", "--set", "source=nowhere", fails=True)
    assert "source" in refused and deployment(api) is None, "values that are not valid write nothing"

    helm("install", "mesh-operator", str(CHART), "--create-namespace", *WITHOUT_KCP)
    settings = parse_settings(arguments(api), {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    assert (settings.source, settings.mgmt_namespace, settings.max_runs) == ("kubernetes", HOME, 2)
    made = objects_of(helm("get", "manifest", "mesh-operator"))
    missing = [obj["kind"] for obj in made if api.get(path_of({**obj, "metadata": {"namespace": HOME, **obj["metadata"]}})) is None]
    assert missing == [] and len(made) > 10

    sample = yaml.safe_load((CHECKOUT / "samples" / "mesh-binding.yaml").read_text(encoding="utf-8"))
    binding = {**sample, "metadata": {**sample["metadata"], "namespace": TEAM}}
    eventually(lambda: api.get(f"/apis/{GROUP}/{VERSION}/clustermeshbindings"), "the kinds are served")
    api.create(binding)

    helm("upgrade", "mesh-operator", str(CHART), *WITHOUT_KCP, "--set", "maxRuns=4", "--set", "permit={accept,adopt}")
    settings = parse_settings(arguments(api), {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})
    assert (settings.max_runs, settings.permitted) == (4, ("accept", "adopt"))
    refused = helm("upgrade", "mesh-operator", str(CHART), *WITHOUT_KCP, "--set", "maxRuns=many", fails=True)
    assert "maxRuns" in refused and "--max-runs=4" in arguments(api), "a refused upgrade changes nothing"

    helm("rollback", "mesh-operator", "1")
    assert "--max-runs=2" in arguments(api)
    helm("uninstall", "mesh-operator")
    assert deployment(api) is None
    kept = {definition["metadata"]["name"] for definition in crds() if definition["spec"]["group"] == GROUP}
    assert {found["metadata"]["name"] for found in api.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")} >= kept
    assert api.get(path_of(binding)) is not None, f"the {BINDING} of a tenant outlives the release"
    left = [obj["kind"] for obj in made if api.get(path_of({**obj, "metadata": {"namespace": HOME, **obj["metadata"]}})) is not None]
    assert set(left) <= {"CustomResourceDefinition"}

    # An installation after that takes the kinds over, with what tenants have.
    helm("install", "mesh-operator", str(CHART), *WITHOUT_KCP)
    assert api.get(path_of(binding)) is not None
