# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From a kubeconfig to credentials: what is wrong is named, nothing of the content is shown, nothing stays on disk."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, CredentialsInvalid, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import credentials as kube_credentials
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import Credentials, load_credentials
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.testing.log_records import log_records
from tests.testing.made_certificates import NOW, Made, make
from tests.testing.rows import one_test
from tests.testing.scripted_server import CANARY, Answer, ScriptedServer, kubeconfig

EXEC_API = "client.authentication.k8s.io/v1"


@pytest.fixture(scope="module")
def authority() -> Made:
    return make("client CA", ca=True)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the private folders of this test are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    real = tempfile.mkdtemp
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix, dir: real(prefix=prefix, dir=folder))
    return folder


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def certificate_user(made: Made) -> dict[str, Any]:
    return {"client-certificate-data": b64(made.pem), "client-key-data": b64(made.key)}


def plugin(tmp_path: Path, status: dict[str, Any], *, code: int = 0, noise: str = "") -> dict[str, Any]:
    """A user whose exec plugin prints ``status`` and counts its runs in the file "runs"."""
    credential = {"apiVersion": EXEC_API, "kind": "ExecCredential", "status": status}
    script = tmp_path / "plugin-x"
    script.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\necho '{noise}' >&2\necho '{json.dumps(credential)}'\nexit {code}\n")
    script.chmod(0o700)
    return {"exec": {"command": str(script), "apiVersion": EXEC_API, "interactiveMode": "Never"}}


def load(source: Any, context: str | None = None) -> Credentials:
    return load_credentials("c1", source, context)


def refused(source: Any, context: str | None = None) -> str:
    """The message, after making sure that the error shows nothing it should not."""
    with pytest.raises(CredentialsInvalid) as caught:
        load(source, context)
    error = caught.value
    assert CANARY not in "".join(traceback.format_exception(error)) + repr(error) + error.remedy
    assert error.cluster == "c1" and error.__cause__ is None
    return error.message


FOUND = {"kind": "Secret", "metadata": {"name": "x"}}


@pytest.fixture
def server(tmp_path: Path, authority: Made) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path, client_ca=authority) as server:
        server.answer = lambda asked: Answer(200, FOUND)
        yield server


def read(kubeconfig: Any) -> object:
    with open_cluster(ClusterAccess(host="c1", kubeconfig=kubeconfig, context=None)) as cluster:
        return cluster.get("/api/v1/namespaces/kube-system/secrets/x")


def test_inlined_keys_work_and_leave_no_file(server: ScriptedServer, authority: Made, scratch: Path) -> None:
    assert read(server.kubeconfig(certificate_user(make("me", issuer=authority)))) == FOUND
    assert list(scratch.iterdir()) == []


def test_keys_are_written_only_into_a_folder_that_no_other_user_may_enter(
    server: ScriptedServer, authority: Made, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, list[int]]] = []
    real = ssl.SSLContext.load_cert_chain

    def spy(*arguments: Any) -> Any:
        [folder] = scratch.iterdir()
        seen.append((folder.stat().st_mode & 0o777, [f.stat().st_mode & 0o777 for f in folder.iterdir()]))
        return real(*arguments)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    load(server.kubeconfig(certificate_user(make("me", issuer=authority))))
    assert seen == [(0o700, [0o600] * 2)]


def test_files_named_by_a_kubeconfig_are_found_beside_it(server: ScriptedServer, authority: Made, tmp_path: Path) -> None:
    made = make("me", issuer=authority)
    (tmp_path / "me.crt").write_bytes(made.pem)
    (tmp_path / "me.key").write_bytes(made.key)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(server.kubeconfig({"client-certificate": "me.crt", "client-key": "me.key"})))
    assert read(str(path)) == FOUND


def test_many_clusters_with_the_same_ca_are_loaded_at_once(server: ScriptedServer, authority: Made, scratch: Path) -> None:
    users = [server.kubeconfig(certificate_user(make(f"user {i}", issuer=authority))) for i in range(4)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, users * 6)) == [FOUND] * 24
    assert list(scratch.iterdir()) == []


def test_an_expired_client_certificate_is_called_expired_when_the_handshake_fails(server: ScriptedServer, authority: Made) -> None:
    made = make("me", issuer=authority, starts=NOW - timedelta(days=9), ends=NOW - timedelta(days=2))
    with pytest.raises(CredentialsInvalid, match=f"client certificate expired on {NOW - timedelta(days=2):%Y-%m-%d}"):
        read(server.kubeconfig(certificate_user(made)))


def test_a_certificate_of_a_foreign_ca_is_refused_in_the_handshake(server: ScriptedServer) -> None:
    with pytest.raises(CredentialsInvalid, match="refused our client certificate in the TLS handshake: wrong or expired"):
        read(server.kubeconfig(certificate_user(make("me", issuer=make("other", ca=True)))))


def test_a_server_that_wants_a_certificate_gets_none_from_a_token(server: ScriptedServer) -> None:
    with pytest.raises(Unreachable, match="it may want a client certificate"):
        read(server.kubeconfig())


def test_an_exec_plugin_gives_the_token(tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "from-plugin"})
    assert load(kubeconfig({"server": "https://10.0.0.1"}, user)).headers() == [("authorization", "Bearer from-plugin")]


def test_an_exec_plugin_is_run_again_when_its_token_has_expired(tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "from-plugin", "expirationTimestamp": "2020-01-01T00:00:00Z"})
    credentials = load(kubeconfig({"server": "https://10.0.0.1"}, user))
    assert credentials.headers() == [("authorization", "Bearer from-plugin")]
    assert (tmp_path / "runs").read_text().count("run") == 2


def test_an_exec_plugin_may_give_a_certificate(server: ScriptedServer, authority: Made, tmp_path: Path, scratch: Path) -> None:
    made = make("me", issuer=authority)
    folder = tmp_path / "plugin"
    folder.mkdir()
    credential = {"clientCertificateData": made.pem.decode(), "clientKeyData": made.key.decode()}
    (folder / "out.json").write_text(json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential", "status": credential}))
    user = {"exec": {"command": "cat", "args": [str(folder / "out.json")], "apiVersion": EXEC_API, "interactiveMode": "Never"}}
    assert read(server.kubeconfig(user)) == FOUND
    assert list(scratch.iterdir()) == []


def test_a_certificate_that_a_plugin_gives_to_many_clusters_at_once_serves_them_all(
    server: ScriptedServer, authority: Made, tmp_path: Path, scratch: Path
) -> None:
    made = make("me", issuer=authority)
    credential = {"clientCertificateData": made.pem.decode(), "clientKeyData": made.key.decode()}
    (tmp_path / "out.json").write_text(json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential", "status": credential}))
    user = {"exec": {"command": "cat", "args": [str(tmp_path / "out.json")], "apiVersion": EXEC_API, "interactiveMode": "IfAvailable"}}
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(read, [server.kubeconfig(user)] * 18)) == [FOUND] * 18
    assert list(scratch.iterdir()) == []


def test_a_failing_exec_plugin_is_named_and_what_it_wrote_is_not(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    user = plugin(tmp_path, {"token": CANARY}, code=3, noise=CANARY)
    with log_records() as logged:
        assert '"plugin-x"' in refused(kubeconfig({"server": "https://10.0.0.1"}, user))
    assert CANARY not in logged.text + "".join(capfd.readouterr())


def test_a_failing_exec_plugin_writes_nothing_to_the_terminal_without_a_logging_setup(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig({"server": "https://10.0.0.1"}, plugin(tmp_path, {}, code=3, noise=CANARY))))
    program = (
        "from tests.collection_path import link; link()\n"
        "from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import load_credentials\n"
        f"try: load_credentials('c1', {str(path)!r}, None)\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert (result.stdout, result.stderr) == ("CredentialsInvalid\n", "")


def test_a_missing_exec_plugin_is_named_without_its_arguments() -> None:
    user = {"exec": {"command": "/opt/no-such-plugin", "args": ["--password", CANARY], "apiVersion": EXEC_API, "interactiveMode": "Never"}}
    message = refused(kubeconfig({"server": "https://10.0.0.1"}, user))
    assert '"no-such-plugin"' in message and "/opt" not in message


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    assert refused(str(path)) == f"Kubeconfig {path} does not exist."
    for content in (f"a: [{CANARY}", f"- {CANARY}", "", CANARY, "\x00"):
        path.write_text(content)
        assert f"Kubeconfig {path}" in refused(str(path))
    path.write_bytes(b"\xff\xfe" + CANARY.encode())
    assert refused(str(path)) == f"Kubeconfig {path} cannot be used: it is neither in UTF-8 nor in UTF-16 with its mark."
    assert "cannot be read" in refused(str(tmp_path))


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig({"server": "https://10.0.0.1"}, {"token": CANARY})))
    assert refused(str(path), "other") == f'Kubeconfig {path} cannot be used: it has no context "other".'
    assert load(str(path), "here").address == "10.0.0.1:443"


def good(**user: Any) -> dict[str, Any]:
    return kubeconfig({"server": "https://10.0.0.1"}, user or {"token": CANARY})


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in good().items() if k != key}


@one_test(
    "document",
    {},
    without("contexts"),
    without("clusters"),
    without("current-context"),
    {**good(), "users": [{"user": {"token": CANARY}}]},
    {**good(), "contexts": CANARY},
    kubeconfig({}, {"token": CANARY}),
    kubeconfig({"server": CANARY}, {"token": CANARY}),
    kubeconfig({"server": f"ftp://{CANARY}"}, {"token": CANARY}),
    kubeconfig({"server": "https://10.0.0.1", "certificate-authority-data": b64(CANARY.encode())}, {}),
    kubeconfig({"server": "https://10.0.0.1", "certificate-authority": f"/{CANARY}"}, {}),
    good(**{"tokenFile": f"/{CANARY}"}),
    good(**{"client-certificate-data": CANARY, "client-key-data": CANARY}),
    good(**{"client-certificate-data": b64(make("x").pem), "client-key-data": b64(CANARY.encode())}),
    good(**{"client-certificate-data": b64(make("x").pem), "client-key-data": b64(make("y").key)}),
    good(**{"exec": {"command": "true"}}),
    good(**{"exec": CANARY}),
)
def test_a_document_that_is_no_complete_kubeconfig_is_refused_without_quoting_it(document: dict[str, Any]) -> None:
    assert refused(document)


def test_text_where_a_path_belongs_is_refused_without_quoting_it() -> None:
    assert "neither a path nor a mapping" in refused(f"apiVersion: v1\ntoken: {CANARY}")


def test_a_host_without_kubeconfig_gets_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsInvalid, match="Set cilium_mesh_kubeconfig"):
        load(None)


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


def test_the_proxy_of_the_kubeconfig_counts_whatever_no_proxy_says(no_proxies: pytest.MonkeyPatch) -> None:
    document = kubeconfig({"server": "https://10.0.0.1", "proxy-url": "http://proxy:3128"}, {"token": "t"})
    no_proxies.setenv("no_proxy", "10.0.0.0/8,*")
    no_proxies.setenv("https_proxy", "http://other:3128")
    found = load(document).proxy
    assert found and found.url == "http://proxy:3128"


@one_test(
    "server environment proxy",
    ("https://10.0.0.1", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
    ("https://10.0.0.1", {"https_proxy": "p:1"}, "http://p:1"),
    ("https://10.0.0.1", {"HTTP_PROXY": "http://p:1"}, None),
    ("http://10.0.0.1", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
    ("https://10.0.0.1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
    ("https://api.example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com"}, None),
    ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, None),
    ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, None),
    ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, None),
)
def test_the_proxy_of_the_environment_is_that_of_the_scheme_and_of_no_proxy(
    server: str, environment: dict[str, str], proxy: str | None
) -> None:
    with mock.patch.dict(os.environ, environment, clear=True):
        found = load(kubeconfig({"server": server}, {"token": "t"})).proxy
        assert (found.url if found else None) == proxy


def test_a_proxy_of_the_environment_that_is_none_is_not_left_out_silently() -> None:
    for proxy in ("ftp://p:1", f"http://{CANARY}:x", "http://"):
        with mock.patch.dict(os.environ, {"HTTPS_PROXY": proxy}, clear=True):
            assert "The proxy that the environment names is no URL" in refused(kubeconfig({"server": "https://10.0.0.1"}, {"token": "t"}))


def test_user_and_password_in_a_server_url_are_refused() -> None:
    assert "has a server with a user in its URL" in refused(kubeconfig({"server": f"https://me:{CANARY}@10.0.0.1:6443/clusters/a"}, {}))


def test_an_encrypted_key_is_refused_and_not_asked_for_on_the_terminal() -> None:
    from cryptography.hazmat.primitives import serialization

    made = make("x")
    locked = made.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    user = {"client-certificate-data": b64(made.pem), "client-key-data": b64(locked)}
    assert "cannot be used together" in refused(kubeconfig({"server": "https://10.0.0.1"}, user))


def test_memory_is_preferred_for_temporary_files() -> None:
    folder = kube_credentials.private_folder()
    try:
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert folder.startswith("/dev/shm/") or not os.access("/dev/shm", os.W_OK)
    finally:
        os.rmdir(folder)


def test_a_temporary_folder_in_memory_is_preferred_to_that_of_all_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of a run, which is removed also when its processes are killed."""
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
    with tempfile.TemporaryDirectory(dir=shared) as own:
        monkeypatch.setattr(tempfile, "tempdir", own)
        folder = kube_credentials.private_folder()
        assert os.path.dirname(folder) == own


def status(code: int, message: str) -> Answer:
    return Answer(code, {"kind": "Status", "status": "Failure", "code": code, "message": message})


@pytest.mark.parametrize(
    ("user", "answer", "says"),
    [
        ({}, status(401, "Unauthorized"), "The kubeconfig has no credentials, and 127"),
        (
            {"as": "sam"},
            status(403, 'secrets is forbidden: User "system:anonymous" cannot impersonate'),
            "The kubeconfig has no credentials",
        ),
        ({}, status(403, 'secrets is forbidden: User "of-a-proxy" cannot get'), "RBAC forbids to get secrets"),
        ({"token": "t"}, status(403, 'secrets is forbidden: User "system:anonymous" cannot get'), "RBAC forbids to get secrets"),
    ],
)
def test_a_kubeconfig_without_credentials_is_said_to_have_none_and_no_rights_are_asked_for(
    tmp_path: Path, user: dict[str, Any], answer: Answer, says: str
) -> None:
    with ScriptedServer(tmp_path) as server:
        server.answer = lambda asked: answer
        with pytest.raises(ClusterError) as refused:
            read(server.kubeconfig(user))
    assert says in refused.value.message
    assert ("Give its user a token" in refused.value.remedy) is ("no credentials" in says)
