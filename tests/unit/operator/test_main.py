# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The command line: one command runs the operator, the other prints manifests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from mesh_operator import __main__, __version__, manifests, replica
from mesh_operator.base.settings import Settings
from tests.collection_path import CHECKOUT

NEEDED = ["--kcp-kubeconfig", "kcp.yaml", "--mgmt-kubeconfig", "mgmt.yaml", "--node-id", "node-1"]


@pytest.fixture(autouse=True)
def no_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh_operator.base.log.setup", lambda: None)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["mesh-operator", *arguments])
    return __main__.main()


def test_flags_run_the_operator_and_its_status_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Settings] = []

    def fake(settings: Settings) -> int:
        given.append(settings)
        return 3

    monkeypatch.setattr(replica, "run", fake, raising=False)
    assert run(monkeypatch, *NEEDED) == 3
    assert given[0].node_id == "node-1"


def test_what_cannot_be_begun_is_a_sentence_and_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fake(settings: Settings) -> int:
        raise CredentialsInvalid("Kubeconfig kcp.yaml does not exist.", cluster="kcp")

    monkeypatch.setattr(replica, "run", fake, raising=False)
    assert run(monkeypatch, *NEEDED) == 1
    assert capsys.readouterr().err == "mesh-operator: kcp: Kubeconfig kcp.yaml does not exist.\n"


def test_kcp_manifests_gets_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def fake(arguments: list[str]) -> int:
        given.extend(arguments)
        return 0

    monkeypatch.setattr(manifests, "print_manifests", fake)
    assert run(monkeypatch, "kcp-manifests", "--only", "crds") == 0
    assert given == ["--only", "crds"]


def test_version_and_help_need_neither_the_collection_nor_a_library(tmp_path: Path) -> None:
    (tmp_path / "mesh_operator").symlink_to(CHECKOUT / "operator" / "mesh_operator")
    for flag, expected in (("--version", f"mesh-operator {__version__}\n"), ("--help", "usage: mesh-operator [flags]")):
        command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[0:0] = [{str(tmp_path)!r}]; import runpy;"]
        command[-1] += f"sys.argv = ['x', {flag!r}]; runpy.run_module('mesh_operator', run_name='__main__')"
        said = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
        assert said.stdout.startswith(expected)


def test_no_flags_are_a_sentence_and_status_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for variable in ("KCP_KUBECONFIG", "MGMT_KUBECONFIG", "NODE_ID"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch)
    assert stopped.value.code == 2
    assert "--kcp-kubeconfig is missing" in capsys.readouterr().err
