# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where the peers dial: addresses that move, nodes and names that come and go, what a handshake proves, a reserved load balancer."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.labs import AGENTS, NODES, OTHER_THREE_120, SHARED_CA
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.api import STRATEGIC
from tests.testing.known import known
from tests.testing.made_certificates import make
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver"
ELB, OTHER_ELB = "41fae315-2964-49c4-afde-bc6d358cd031", "c582b56c-2b4e-4c83-9d9e-29e12893c6f6"
ELB_ID = "kubernetes.io/elb.id"
SECRETS = ("cilium-clustermesh", "cilium-kvstoremesh")
MESH_NAME, OWN_NAME = "lb-c3.mesh.cilium.io", "lb.c3.example.com"  # the first is covered by every certificate of a mesh


def keys(lab: MeshLab) -> dict[tuple[str, str, str], bytes]:
    """Everything that names peers: cluster, Secret, key -> value."""
    return {
        (cluster, secret, key): value for cluster in lab.names for secret in SECRETS for key, value in lab.secret(cluster, secret).items()
    }


def changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> set[Any]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def at(lab: MeshLab, cluster: str, last: int) -> str:
    """An address of the cluster's own network in the lab, which a Service of type LoadBalancer may have."""
    server = lab.lab.clusters[cluster].server.partition("://")[2]
    return f"{server.rpartition('.')[0]}.{last}"


def give(lab: MeshLab, cluster: str, *ingress: Mapping[str, str]) -> None:
    """Play the cloud: the load balancer of the mesh endpoint has these addresses or names now."""
    lab.api(cluster).patch(f"{SERVICE}/status", {"status": {"loadBalancer": {"ingress": [dict(entry) for entry in ingress]}}})


def reads(lab: MeshLab, cluster: str, peer: str) -> bool:
    """Return whether kvstoremesh of a cluster reads the peer."""
    return bool(lab.kvstoremesh_status(cluster).get(peer, {}).get("ready"))


def ready(run: PlaybookRun) -> bool:
    links = run.result["status"]["binding"]["links"]
    return bool(links) and all(row["ready"] for row in links)


def probes(document: Path) -> dict[str, list[str]]:
    """Cluster -> outcomes, from the JSON report."""
    found: dict[str, list[str]] = {}
    for row in json.loads(document.read_bytes())["probes"]:
        found.setdefault(row["cluster"], []).append(row["outcome"])
    return found


@pytest.mark.lab(OTHER_THREE_120)
def test_an_address_that_moves_rewrites_one_key_in_each_cluster_that_dials_it(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    before, snapshot = keys(lab), lab.snapshot()
    give(lab, "c2", {"ip": at(lab, "c2", 120), "ipMode": "VIP"})
    moved = lab.play("connect")
    assert moved.rc == 0, moved.output
    assert ready(moved)
    after = keys(lab)
    assert changed(before, after) == {("c1", "cilium-kvstoremesh", "c2"), ("c3", "cilium-kvstoremesh", "c2")}
    assert at(lab, "c2", 120) in after["c1", "cilium-kvstoremesh", "c2"].decode()
    touched = {path for path in changed(snapshot, lab.snapshot()) if "/services/" not in path}
    assert touched == {f"{cluster}/api/v1/namespaces/{NAMESPACE}/secrets/cilium-kvstoremesh" for cluster in ("c1", "c3")}
    assert len(moved.result["plan"]["steps"]) == 2
    for cluster in ("c1", "c3"):  # the former address works too; a reader that gets its new file connects anew, and is not ready meanwhile
        wait_for(partial(reads, lab, cluster, "c2"), what=f"kvstoremesh of {cluster} reads c2 at its new address")
    assert lab.play("connect").changed == 0


@pytest.mark.lab(AGENTS)
def test_an_address_that_flaps_does_not_restart_the_agents_of_the_others_again(lab: MeshLab) -> None:
    """Before Cilium 1.20 the addresses stand in the template of DaemonSet cilium."""

    def generation() -> int:
        return int(known(lab.api("c1").get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/cilium"))["metadata"]["generation"])

    assert lab.play("connect").rc == 0
    first = at(lab, "c2", 120)
    give(lab, "c2", {"ip": first, "ipMode": "VIP"})
    moved = lab.play("connect", mesh_connect_wait=False)
    assert moved.changed == 1 and "CM-EP-09" not in moved.finding_codes(), moved.output
    before = generation()
    for last in (121, 120, 122):
        give(lab, "c2", {"ip": at(lab, "c2", last), "ipMode": "VIP"})
        held = lab.play("connect", mesh_connect_wait=False)
        assert (held.rc, held.changed) == (0, 0), held.output
        assert ("CM-EP-09" in held.finding_codes()) == (last != 120)
    assert generation() == before
    accepted = lab.play("connect", mesh_connect_wait=False, mesh_connect_accept=["CM-EP-09"])
    assert accepted.changed == 1 and generation() == before + 1


@pytest.mark.lab(NODES)
def test_a_node_that_is_away_and_comes_back_changes_nothing(lab: MeshLab) -> None:
    nodes = sorted(node["metadata"]["name"] for node in lab.api("c2").list("/api/v1/nodes"))

    def set_ready(node: str, status: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": "Test", "message": "a test says so"}
        lab.api("c2").patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [condition]}}, kind=STRATEGIC)

    set_ready(nodes[0], "False")
    first = lab.play("connect")
    assert first.rc == 0, first.output
    assert ready(first)
    config = lab.secret("c1", "cilium-kvstoremesh")["c2"].decode()
    assert [at(lab, "c2", 10 + i) in config for i in range(3)] == [False, True, True], config
    set_ready(nodes[0], "True")
    assert lab.play("connect").changed == 0
    set_ready(nodes[2], "False")
    again = lab.play("connect")
    assert again.changed == 0, again.output
    assert ready(again)


@contextmanager
def resolver(folder: Path, names: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Environment in which ansible-playbook runs with an /etc/hosts of its own, in a mount namespace of its own."""
    hosts, shim = folder / "hosts", folder / "bin" / "ansible-playbook"
    shim.parent.mkdir(parents=True, exist_ok=True)
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
    hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    real = Path(sys.executable).parent / "ansible-playbook"
    inner = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
    shim.write_text(
        f"#!/bin/sh\nexec unshare --map-root-user --mount /bin/sh -c '{inner}' sh '{hosts}' '{real}' \"$@\"\n", encoding="utf-8"
    )
    shim.chmod(0o755)
    yield {"PATH": os.pathsep.join([str(shim.parent), str(real.parent), os.environ.get("PATH", "")])}


def second_door(lab: MeshLab, cluster: str) -> str:
    """Another Service of type LoadBalancer before the same pods: the address that a DNS name stands for."""
    service = known(lab.api(cluster).get(SERVICE))
    port = {"name": "apiserv", "port": 2379, "protocol": "TCP", "targetPort": service["spec"]["ports"][0]["targetPort"]}
    spec = {"type": "LoadBalancer", "selector": service["spec"]["selector"], "ports": [port]}
    lab.api(cluster).create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "behind-a-name", "namespace": NAMESPACE}, "spec": spec}
    )
    while True:
        made = lab.api(cluster).get(f"/api/v1/namespaces/{NAMESPACE}/services/behind-a-name")
        ingress = ((made or {}).get("status") or {}).get("loadBalancer", {}).get("ingress")
        if ingress:
            return str(ingress[0]["ip"])
        threading.Event().wait(0.2)


@pytest.mark.lab(OTHER_THREE_120)
def test_a_load_balancer_with_a_name_is_dialled_by_name_or_by_what_the_name_resolves_to(lab: MeshLab, tmp_path: Path) -> None:
    address = second_door(lab, "c3")

    def dialled() -> str:
        return lab.secret("c1", "cilium-kvstoremesh")["c3"].decode()

    give(lab, "c3", {"hostname": OWN_NAME})
    with resolver(tmp_path, {OWN_NAME: address, MESH_NAME: address}) as environment:
        unknown = lab.play("connect")
        assert unknown.rc != 0 and "CM-EP-02" in unknown.finding_codes()
        first = lab.play("connect", environment=environment)
        assert first.rc == 0, first.output
        assert ready(first)
        assert "https://c3.mesh.cilium.io:2379" in dialled() and f"- {address}\n" in dialled()
        away = lab.play("connect")
        assert (away.rc, away.changed) == (0, 0), away.output
        assert "CM-EP-07" in away.finding_codes()

        before = keys(lab)
        give(lab, "c3", {"hostname": MESH_NAME})
        named = lab.play("connect", environment=environment, mesh_connect_wait=False)
        assert named.rc == 0, named.output
        assert f"https://{MESH_NAME}:2379" in dialled() and "cilium-host-aliases" not in dialled()
        assert changed(before, keys(lab)) == {(cluster, "cilium-kvstoremesh", "c3") for cluster in ("c1", "c2")}
        assert lab.play("connect", mesh_connect_wait=False).changed == 0  # the clusters look the name up, not who writes it
        document = tmp_path / "found.json"
        proven = lab.play("verify", environment=environment, cilium_verify_json=str(document))
        assert proven.rc == 0, proven.output
        assert probes(document) == {"c1": ["proven"], "c2": ["proven"], "c3": ["proven"]}


@contextmanager
def impostor(folder: Path) -> Iterator[str]:
    """A TLS server with the right name in a certificate of its own making: HOST:PORT."""
    made = make("impostor", names=["*.mesh.cilium.io"])
    (folder / "impostor.pem").write_bytes(made.pem + made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "impostor.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def failed_cases(report: Path) -> set[str]:
    root = ET.parse(report).getroot()
    return {
        f"{suite.get('name')}: {(case.get('name') or '').partition(' ')[0]}"
        for suite in root
        for case in suite.iter("testcase")
        if case.find("failure") is not None
    }


@pytest.mark.lab(SHARED_CA)
def test_verify_proves_endpoints_refutes_impostors_and_only_advises_on_what_it_cannot_reach(lab: MeshLab, tmp_path: Path) -> None:
    document, report = tmp_path / "found.json", tmp_path / "found.xml"
    files: dict[str, Any] = {"cilium_verify_json": str(document), "cilium_verify_junit": str(report)}

    healthy = lab.play("verify", **files)
    assert healthy.rc == 0, healthy.output
    assert probes(document) == {"c1": ["proven"], "c2": ["proven"]}
    assert failed_cases(report) == set()
    assert "c2  eligible, ready" in healthy.output

    wrong_cluster = lab.play("verify", hosts={"c2": {"cilium_mesh_endpoint_override": at(lab, "c1", 2)}}, **files)
    assert wrong_cluster.rc != 0
    assert wrong_cluster.finding_codes()[0] == "CM-PROBE-02"
    assert "the certificate of c1" in wrong_cluster.output
    assert failed_cases(report) == {"cluster c2: CM-PROBE-02"}

    with impostor(tmp_path) as place:
        planted = lab.play("verify", hosts={"c2": {"cilium_mesh_endpoint_override": place}}, **files, own_process=True)
    assert planted.rc != 0
    assert planted.finding_codes()[0] == "CM-PROBE-01"
    assert probes(document)["c2"] == ["refuted"]
    assert failed_cases(report) == {"cluster c2: CM-PROBE-01"}
    assert "c2  eligible, not ready (CM-PROBE-01)" in planted.output

    lab.lab.cut("controller", "c2", one_way=True)
    cut = lab.play("verify", arguments=["--check"], **files, own_process=True)
    assert (cut.rc, cut.changed) == (0, 0), cut.output
    assert [f["severity"] for f in cut.result["findings"] if f["code"] == "CM-PROBE-03"] == ["advisory"]
    assert probes(document) == {"c1": ["proven"], "c2": ["unreachable"]}
    assert failed_cases(report) == set()
    off = lab.play("verify", cilium_verify_probe=False)
    assert off.rc == 0 and "CM-PROBE-03" not in off.finding_codes()
    lab.lab.heal("controller", "c2")

    # The reserved load balancer, on the same clusters.
    before = lab.snapshot()
    hosts = {"c2": {"cilium_mesh_elb_id": ELB}}

    def annotation(cluster: str) -> str | None:
        value: str | None = (known(lab.api(cluster).get(SERVICE))["metadata"].get("annotations") or {}).get(ELB_ID)
        return value

    bad = lab.play("connect", hosts={"c2": {"cilium_mesh_elb_id": "the big one"}})
    assert bad.finding_codes() == ["CM-INPUT-01"] and "c2: cilium_mesh_elb_id" in bad.output
    connected = lab.play("connect", hosts=hosts)
    assert connected.rc == 0, connected.output
    assert ready(connected)
    assert (annotation("c1"), annotation("c2")) == (None, ELB)
    assert lab.play("connect", hosts=hosts).changed == 0
    assert lab.play("disconnect", hosts=hosts).rc == 0
    assert lab.snapshot() == before

    lab.api("c2").patch(SERVICE, {"metadata": {"annotations": {ELB_ID: OTHER_ELB}}}, field_manager="cloud-provider")
    held = lab.snapshot(volatile=True)
    refused = lab.play("connect", hosts=hosts)
    assert refused.rc != 0 and refused.finding_codes()[0] == "CM-ELB-01"
    assert lab.snapshot(volatile=True) == held
    accepted = lab.play("connect", hosts=hosts, mesh_connect_accept=["CM-ELB-01"])
    assert accepted.rc == 0, accepted.output
    assert annotation("c2") == OTHER_ELB
    assert lab.play("disconnect", hosts=hosts).rc == 0
    assert annotation("c2") == OTHER_ELB
