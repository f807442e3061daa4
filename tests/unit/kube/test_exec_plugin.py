# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an exec plugin is asked and given, and what becomes of what it does."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import exec_plugin
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.exec_plugin import ExecPlugin, PluginFailed

API = "client.authentication.k8s.io/v1"
CANARY = "canary-92fe"
Script = Callable[[str], dict[str, Any]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str) -> dict[str, Any]:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o700)
        return {"command": str(path), "apiVersion": API, "interactiveMode": "Never"}

    return write


def answer(**status: Any) -> str:
    return json.dumps({"apiVersion": API, "kind": "ExecCredential", "status": status})


def failure(plugin: ExecPlugin) -> PluginFailed:
    with pytest.raises(PluginFailed) as caught:
        plugin.run()
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value


def test_it_gets_arguments_variables_and_no_terminal(script: Script, tmp_path: Path) -> None:
    text = (
        f'printf "%s|%s|%s" "$1" "$OWN" "$HOME" > {tmp_path}/got\nread line && echo "$line" >> {tmp_path}/got\necho \'{answer(token="t")}\''
    )
    plugin = {**script(text), "args": ["a b"], "env": [{"name": "OWN", "value": "x y"}, {"name": "NONE"}]}
    found = ExecPlugin(plugin, {}).run()
    assert (found.token, found.ends) == ("t", datetime.max.replace(tzinfo=UTC))
    assert (tmp_path / "got").read_text(encoding="utf-8") == f"a b|x y|{os.environ['HOME']}"


def test_it_learns_of_the_cluster_where_the_kubeconfig_says_so(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"ca")
    cluster = {
        "server": "https://10.0.0.1",
        "tls-server-name": "api.test",
        "proxy-url": "http://p:1",
        "certificate-authority": str(tmp_path / "ca.crt"),
        "extensions": [{"name": "other"}, {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    plugin = {"command": "x", "apiVersion": API}
    assert ExecPlugin(plugin, cluster).exec_info() == {"apiVersion": API, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert ExecPlugin({**plugin, "provideClusterInfo": True}, cluster).exec_info()["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://10.0.0.1",
            "tls-server-name": "api.test",
            "proxy-url": "http://p:1",
            "certificate-authority-data": base64.b64encode(b"ca").decode(),
            "config": {"audience": "x"},
        },
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"echo {CANARY} >&2; exit 3", "ended with exit status 3."),
        (f"echo {CANARY}", "did not answer with an ExecCredential."),
        ("", "did not answer with an ExecCredential."),
        ("kill -9 $$", "ended with exit status -9."),
        (f"echo '{answer(token=None)}'", "gave neither a token nor a certificate with its key."),
        (f"echo '{answer(clientKeyData=CANARY)}'", "gave neither a token nor a certificate with its key."),
        (f"echo '{answer(token='t', expirationTimestamp='soon')}'", "did not answer with an ExecCredential."),
        (f"echo '{answer(token='t').replace('/v1', '/v1beta1')}'", "answered in another version"),
    ],
)
def test_what_it_does_wrong_is_said_without_what_it_wrote(script: Script, text: str, says: str) -> None:
    error = failure(ExecPlugin(script(text), {}))
    assert f'The exec plugin "plugin" of the kubeconfig {says}' in str(error)
    assert error.remedy == "Run it by hand as the same user to see why."


def test_one_that_is_not_installed_comes_with_the_hint_of_the_kubeconfig() -> None:
    plugin = {"command": "/none/plugin-x", "apiVersion": API, "installHint": "Get it\nfrom x."}
    error = failure(ExecPlugin(plugin, {}))
    assert (str(error), error.remedy) == ('The exec plugin "plugin-x" of the kubeconfig is not installed.', "Get it from x.")


def test_one_that_hangs_is_ended(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "SECONDS", 0.2)
    assert "did not end within 0.2 s" in str(failure(ExecPlugin(script("exec sleep 60"), {})))


def test_what_no_process_can_be_given_is_a_failure() -> None:
    plugin = {"command": "true", "apiVersion": API, "env": [{"name": "A", "value": f"{CANARY}\0"}]}
    assert "cannot be run" in str(failure(ExecPlugin(plugin, {})))
