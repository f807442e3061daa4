# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One client per URL, with the credentials of one kubeconfig, for however many threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from mesh_operator.base.api import Connections
from tests.testing.scripted_server import CANARY, Answer, ScriptedServer

WILDCARD = "/clusters/*/apis/networking.edge-portal.eu/v1alpha1/fabrics"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path) as server:
        server.answer = lambda asked: Answer(200, {"path": asked.path, "items": [], "metadata": {"name": asked.path.rpartition("/")[2]}})
        yield server


@pytest.fixture
def kubeconfig(server: ScriptedServer, tmp_path: Path) -> str:
    file = tmp_path / "kcp.kubeconfig"
    file.write_text(yaml.safe_dump(server.kubeconfig(server=f"{server.url}/clusters/root:provider")), encoding="utf-8")
    return str(file)


def test_the_kubeconfig_s_own_server_keeps_its_path_and_a_virtual_workspace_has_another(server: ScriptedServer, kubeconfig: str) -> None:
    vw = f"{server.url}/services/apiexport/abc/networking"
    with Connections("kcp", kubeconfig, "--kcp-kubeconfig") as connections:
        found = connections.own().get("/apis/apis.kcp.io/v1alpha1/x/y") or {}
        assert found["path"] == "/clusters/root:provider/apis/apis.kcp.io/v1alpha1/x/y"
        page = connections.at(vw).page(WILDCARD) or {}
        assert page["path"] == f"/services/apiexport/abc/networking{WILDCARD}?limit=500"
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {CANARY}"}


def test_threads_that_ask_for_the_same_url_share_one_client(server: ScriptedServer, kubeconfig: str) -> None:
    with Connections("kcp", kubeconfig, "--kcp-kubeconfig") as connections, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(connections.at, [server.url, f"{server.url}/services/x"] * 8))
        assert len(set(map(id, found))) == 2
        assert connections.own() is connections.own()


def test_a_kubeconfig_that_is_not_there_is_named_when_it_is_first_used(tmp_path: Path) -> None:
    connections = Connections("kcp", str(tmp_path / "none"), "--kcp-kubeconfig")
    with pytest.raises(CredentialsInvalid, match=r"kcp: .*none.* Correct --kcp-kubeconfig\.$"):
        connections.own()


def test_a_kubeconfig_with_other_content_is_outdated_and_one_that_is_only_touched_or_unreadable_is_not(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("one")
    connections = Connections("kcp", str(path), "--kcp-kubeconfig")
    assert connections.outdated() == []
    path.write_text("one")
    assert connections.outdated() == []
    path.unlink()
    assert connections.outdated() == []
    path.write_text("other")
    assert connections.outdated() == ["the file of --kcp-kubeconfig has changed, and is read at the start"]
    assert Connections("management plane", "", "--mgmt-kubeconfig").outdated() == [], "the pod's own account is renewed while it is used"


def test_no_kubeconfig_means_the_service_account_of_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsInvalid, match=r"management plane: No kubeconfig .* Correct --mgmt-kubeconfig\.$"):
        Connections("management plane", "", "--mgmt-kubeconfig").own()


def test_what_is_opened_after_closing_works_and_an_unknown_url_is_refused_before_anything_is_sent(
    server: ScriptedServer, kubeconfig: str
) -> None:
    connections = Connections("kcp", kubeconfig, "--kcp-kubeconfig")
    connections.own().get("/api/v1/a/b")
    connections.close()
    assert connections.own().get("/api/v1/a/b") is not None
    asked = len(server.asked)
    with pytest.raises(CredentialsInvalid, match="The address has no server URL"):
        connections.at("file:///etc/passwd")
    assert len(server.asked) == asked
    connections.close()
