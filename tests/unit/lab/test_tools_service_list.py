# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The agent stand-in lists Services as agents do: own backends from the API, others from etcd, chosen by Cilium's rules of the version.

Real etcd and real certificates; the API server is two lists over TLS. Skipped where the programs are not built yet.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from tests.lab.patience import scaled
from tests.unit.lab.test_tools_agent import Peer, etcd, peer, publish

pytestmark = pytest.mark.slow

__all__ = ["etcd", "peer"]  # fixtures

PORT = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}
List = Callable[..., list[str]]


def service(affinity: str = "", annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Service shop/cart, global unless ``annotations`` (keys of service.cilium.io; "" removes one) say otherwise."""
    given = {"global": "true", "affinity": affinity, **(annotations or {})}
    texts = {f"service.cilium.io/{key}": value for key, value in given.items() if value}
    return {
        "metadata": {"namespace": "shop", "name": "cart", "annotations": texts},
        "spec": {"type": "ClusterIP", "clusterIPs": ["10.96.0.20"], "ports": [dict(PORT)]},
    }


def endpoint_slice(*addresses: str, port: str = "http", **conditions: bool) -> dict[str, Any]:
    """The slice of shop/cart with endpoints in that state; ready when nothing is said."""
    return {
        "metadata": {"namespace": "shop", "name": "cart-x", "labels": {"kubernetes.io/service-name": "cart"}},
        "addressType": "IPv4",
        "ports": [{"name": port, "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": conditions, "nodeName": "node-1"} for address in addresses],
    }


def exported(*addresses: str, cluster: str = "c2", port: str = "http", **fields: Any) -> str:
    """What clustermesh-apiserver writes for shop/cart."""
    ports = {port: {"Protocol": "TCP", "Port": 8080}}
    value = {
        "cluster": cluster,
        "namespace": "shop",
        "name": "cart",
        "frontends": {"10.97.0.20": {port: {"Protocol": "TCP", "Port": 80}}},
        "backends": dict.fromkeys(addresses, ports),
        "labels": {},
        "selector": {"app": "cart"},
        "includeExternal": True,
        "shared": True,
        "clusterID": 7,
    }
    return json.dumps({**value, **fields})


@pytest.fixture
def api(etcd: Peer) -> Iterator[dict[str, list[Any]]]:
    """The API of the own cluster: its lists, by the last part of the path; a kubeconfig for it lies beside etcd's certificates."""
    lists: dict[str, list[Any]] = {"services": [], "endpointslices": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"items": lists[self.path.rpartition("/")[2]]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.load_cert_chain(etcd.folder / "server.crt", etcd.folder / "server.key")
    settings.load_verify_locations(etcd.folder / "ca.crt")
    settings.verify_mode = ssl.CERT_REQUIRED
    server.socket = settings.wrap_socket(server.socket, server_side=True)
    files = {name: base64.b64encode((etcd.folder / name).read_bytes()).decode() for name in ("ca.crt", "root.crt", "root.key")}
    cluster = {"server": f"https://127.0.0.1:{server.server_port}", "certificate-authority-data": files["ca.crt"]}
    user = {"client-certificate-data": files["root.crt"], "client-key-data": files["root.key"]}
    (etcd.folder / "kubeconfig").write_text(yaml.safe_dump({"clusters": [{"cluster": cluster}], "users": [{"user": user}]}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield lists
    server.shutdown()
    thread.join()
    server.server_close()


def ask(peer: Peer, *arguments: str, version: str = "1.16") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "CILIUM_CLUSTERMESH_CONFIG": str(peer.folder / "mesh"),
        "LAB_CLUSTER_NAME": "c1",
        "LAB_KUBECONFIG": str(peer.folder / "kubeconfig"),
        "LAB_CILIUM_VERSION": version,
    }
    argv = [str(peer.tools["lab-agent"]), "service", "list", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=scaled(20), check=False)


def backends(peer: Peer, version: str = "1.16") -> list[str]:
    """Backends of the only frontend, without their numbers."""
    answer = ask(peer, "--clustermesh-affinity", version=version)
    assert answer.returncode == 0, answer.stderr
    return [line.partition(" => ")[2].strip() for line in answer.stdout.splitlines() if " => " in line]


@pytest.fixture
def mesh(peer: Peer, api: dict[str, list[Any]]) -> Peer:
    """One local backend, and c2 with one, through the own kvstoremesh."""
    publish(peer, cached=True)
    peer.put("cilium/cache/services/v1/c2/shop/cart", exported("10.2.0.5"))
    peer.configure("c2")
    api["services"] = [service("local")]
    api["endpointslices"] = [endpoint_slice("10.1.0.5")]
    return peer


@pytest.mark.parametrize(
    ("affinity", "old", "new"),
    [
        ("local", ["10.1.0.5:8080 (active) (preferred)", "10.2.0.5:8080 (active)"], ["10.1.0.5"]),
        ("Remote", ["10.1.0.5:8080 (active)", "10.2.0.5:8080 (active) (preferred)"], ["10.2.0.5"]),
        ("none", ["10.1.0.5:8080 (active)", "10.2.0.5:8080 (active)"], ["10.1.0.5", "10.2.0.5"]),
        ("nearby", ["10.1.0.5:8080 (active)", "10.2.0.5:8080 (active)"], ["10.1.0.5", "10.2.0.5"]),
    ],
)
def test_up_to_1_17_all_are_listed_and_from_1_18_those_that_are_used(
    mesh: Peer, api: dict[str, list[Any]], affinity: str, old: list[str], new: list[str]
) -> None:
    api["services"] = [service(affinity)]
    assert backends(mesh, "1.17") == old
    assert backends(mesh, "1.18") == [f"{address}:8080/TCP (active) (preferred)" for address in new]


def test_the_table_is_ciliums(mesh: Peer) -> None:
    assert [line.rstrip() for line in ask(mesh, "--clustermesh-affinity").stdout.splitlines()] == [
        "ID   Frontend        Service Type   Backend",
        "1    10.96.0.20:80   ClusterIP      1 => 10.1.0.5:8080 (active) (preferred)",
        "                                    2 => 10.2.0.5:8080 (active)",
    ]
    assert "(preferred)" not in ask(mesh).stdout, "only with --clustermesh-affinity"


def test_as_json_it_has_the_fields_of_ciliums_api(mesh: Peer) -> None:
    (found,) = json.loads(ask(mesh, "-o", "json").stdout)
    assert found["spec"] == found["status"]["realized"]
    assert found["spec"]["frontend-address"] == {"ip": "10.96.0.20", "port": 80, "protocol": "TCP", "scope": "external"}
    assert found["spec"]["flags"]["name"] == "cart" and found["spec"]["flags"]["namespace"] == "shop"
    assert found["spec"]["backend-addresses"] == [
        {"ip": "10.1.0.5", "nodeName": "node-1", "port": 8080, "preferred": True, "state": "active", "weight": 100},
        {"ip": "10.2.0.5", "port": 8080, "state": "active", "weight": 100},
    ]


@pytest.mark.parametrize("version", ["1.16", "1.20"])
def test_remote_backends_are_used_when_no_local_one_is_active(mesh: Peer, api: dict[str, list[Any]], version: str) -> None:
    proto = "" if version == "1.16" else "/TCP"
    mark = "" if version == "1.16" else " (preferred)"
    remote = f"10.2.0.5:8080{proto} (active){mark}"
    api["endpointslices"] = []
    assert backends(mesh, version) == [remote]
    api["endpointslices"] = [endpoint_slice("10.1.0.5", ready=False)]
    assert backends(mesh, version) == [remote]
    api["endpointslices"] = [endpoint_slice("10.1.0.5", ready=False, serving=True, terminating=True)]
    assert backends(mesh, version) == [f"10.1.0.5:8080{proto} (terminating) (preferred)", remote]


@pytest.mark.parametrize("version", ["1.16", "1.20"])
def test_both_sides_have_to_be_global_and_the_other_one_shared(mesh: Peer, api: dict[str, list[Any]], version: str) -> None:
    api["services"] = [service("none", {"global": "false"})]
    assert len(backends(mesh, version)) == 1
    api["services"] = [service("none", {"shared": "false"})]
    assert len(backends(mesh, version)) == 2, "not shared: it still uses what others share"
    mesh.put("cilium/cache/services/v1/c2/shop/cart", exported("10.2.0.5", shared=False))
    assert len(backends(mesh, version)) == 1
    mesh.etcdctl("del", "cilium/cache/services/v1/c2/shop/cart")
    assert len(backends(mesh, version)) == 1


def test_the_older_annotations_count_where_the_newer_are_absent(mesh: Peer, api: dict[str, list[Any]]) -> None:
    older = service()
    older["metadata"]["annotations"] = {"io.cilium/global-service": "true", "io.cilium/service-affinity": "local"}
    api["services"] = [older]
    assert backends(mesh, "1.18") == ["10.1.0.5:8080/TCP (active) (preferred)"]
    older["metadata"]["annotations"]["service.cilium.io/global"] = "false"
    assert backends(mesh, "1.16") == ["10.1.0.5:8080 (active)"]


def test_ports_match_by_name(mesh: Peer, api: dict[str, list[Any]]) -> None:
    api["services"] = [service("none")]
    mesh.put("cilium/cache/services/v1/c2/shop/cart", exported("10.2.0.5", port="web"))
    assert len(backends(mesh, "1.16")) == len(backends(mesh, "1.18")) == 1
    mesh.put("cilium/cache/services/v1/c2/shop/cart", exported("10.2.0.5", port=""))
    assert (len(backends(mesh, "1.16")), len(backends(mesh, "1.18"))) == (1, 2), "from 1.18 on an unnamed port fits all"


def test_without_kvstoremesh_the_peer_itself_is_asked(peer: Peer, api: dict[str, list[Any]]) -> None:
    publish(peer)
    peer.put("cilium/state/services/v1/c2/shop/cart", exported("10.2.0.5"))
    peer.configure("c2")
    api["services"] = [service()]
    assert backends(peer) == ["10.2.0.5:8080 (active)"]


def test_a_peer_that_cannot_be_asked_is_an_error_and_no_empty_answer(mesh: Peer) -> None:
    mesh.configure("c3", endpoint="https://127.0.0.1:9")
    answer = ask(mesh)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "what c3 exports cannot be read now" in answer.stderr and "refused" in answer.stderr


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (exported("10.2.0.5", surprise=1), 'unknown field "surprise"'),
        (exported("10.2.0.5", cluster="c9"), "unexpected cluster name: got c9, expected c2"),
        (exported("10.2.0.5", name="other"), "namespaced name does not match key"),
        (exported("ten"), "unable to parse IP"),
        ("[]", "cannot unmarshal array"),
    ],
)
def test_what_cilium_would_not_accept_is_an_error(mesh: Peer, value: str, why: str) -> None:
    mesh.put("cilium/cache/services/v1/c2/shop/cart", value)
    answer = ask(mesh)
    assert answer.returncode == 1 and why in answer.stderr, answer.stderr
