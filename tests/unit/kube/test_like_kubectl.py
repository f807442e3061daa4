# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A kubeconfig means what it means to kubectl: over generated ones, what is sent is what the documentation says, and what kubectl sends."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import load_credentials
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.testing.generated_kubeconfigs import Surroundings, Wanted, kubeconfigs, write
from tests.testing.kubeconfig_reading import Meant, Refused, read
from tests.testing.properties import examples
from tests.testing.recording_server import Recorded, Recorders

KUBECTL: Final = shutil.which("kubectl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kubeconfigs")


@pytest.fixture(scope="module")
def recorders(folder: Path) -> Iterator[Recorders]:
    with Recorders(folder).serving() as recorders:
        yield recorders


@pytest.fixture(scope="module")
def around(folder: Path, recorders: Recorders) -> Surroundings:
    proxy = f"127.0.0.1:{recorders.proxy_port}"
    found = Surroundings(
        servers=(f"https://127.0.0.1:{recorders.port}", f"https://localhost:{recorders.port}", f"http://127.0.0.1:{recorders.plain_port}"),
        proxies=(f"http://{proxy}", f"http://me:p%40ss%C3%A4@{proxy}", f"https://me@127.0.0.1:{recorders.proxy_tls_port}"),
        authority=recorders.server_ca,
        client=recorders.client,
    )
    found.write(folder)
    return found


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NO_PROXY", "*")  # which does not count for the proxy of a kubeconfig
    monkeypatch.setenv("HOME", str(folder))


def meant(wanted: Wanted, folder: Path) -> Meant | None:
    try:
        return read(wanted, folder)
    except Refused:
        return None


def loaded(wanted: Wanted, folder: Path) -> Meant | None:
    try:
        found = load_credentials("c1", write(wanted, folder), wanted.context)
        headers = tuple(sorted((name.lower(), value) for name, value in found.headers()))
    except ClusterError as error:
        assert "t0ken" not in str(error) and "pä:ss" not in str(error)
        return None
    certificate = found._authorization.certificate() if found.tls else None
    return Meant(
        found.server,
        found.tls_server_name or "",
        found.authority,
        found.verifies,
        (found.proxy.url, found.proxy.user, found.proxy.password) if found.proxy else (),
        headers,
        certificate.certificate if certificate else b"",
    )


@settings(examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_sent_is_what_the_documentation_says(data: st.DataObject, around: Surroundings, folder: Path) -> None:
    wanted = data.draw(kubeconfigs(around))
    assert loaded(wanted, folder) == meant(wanted, folder)


Sent = tuple[set[Recorded], set[str]] | None | str
"""What servers and proxies recorded; None where the kubeconfig is refused."""
ASKS: Final = "kubectl asks on the terminal for a username, and we find out whether a client without a name is served"


def asked_by_kubectl(wanted: Wanted, folder: Path, recorders: Recorders) -> Sent:
    assert KUBECTL
    recorders.clear()
    context = ["--context", wanted.context] if wanted.context else []
    environment = {**os.environ, "KUBECONFIG": write(wanted, folder)}
    done = subprocess.run(
        [KUBECTL, *context, "get", "--raw", "/version"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if b"Please enter Username" in done.stdout:
        return ASKS
    return None if done.returncode else (set(recorders.recorded), set(recorders.proxied))


def asked_by_us(wanted: Wanted, folder: Path, recorders: Recorders) -> Sent:
    recorders.clear()
    try:
        if "has no credentials" in load_credentials("c1", write(wanted, folder), wanted.context).nameless:
            return ASKS
        with open_cluster(ClusterAccess(host="c1", kubeconfig=write(wanted, folder), context=wanted.context)) as cluster:
            cluster.get("/version")
    except ClusterError as error:
        assume("names a user that is not there" not in error.message)  # kubectl asks for the name of one
        return None
    return set(recorders.recorded), set(recorders.proxied)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
@pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH")
@settings(examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_sent_is_what_kubectl_sends(data: st.DataObject, around: Surroundings, folder: Path, recorders: Recorders) -> None:
    wanted = data.draw(kubeconfigs(around))
    ours, theirs = asked_by_us(wanted, folder, recorders), asked_by_kubectl(wanted, folder, recorders)
    assert ours == theirs or (ours is None and theirs == ASKS), "kubectl asks before it looks at what is wrong in the cluster"
