# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The archive of a bug report from a mesh that works: what a maintainer needs is in it, and no key is."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.integration.labs import TWO_118
from tests.integration.mesh_lab import MeshLab
from tests.integration.test_secrets_stay_secret import key_bodies, leaks


def read(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive.getmembers()}
        return {name: file.read().decode() for name, file in found.items() if file is not None}


@pytest.mark.lab(TWO_118)
def test_the_archive_has_what_a_maintainer_needs_and_no_key(lab: MeshLab, tmp_path: Path) -> None:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    annotations = {"service.cilium.io/global": "true", "example.com/note": "canary-annotation"}
    metadata = {"name": "web", "namespace": "default", "annotations": annotations}
    lab.api("c1").create(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": ports}}
    )
    connected = lab.play("connect")
    assert connected.rc == 0, connected.output
    earlier = tmp_path / "mesh_result.json"
    earlier.write_text(json.dumps(connected.result))
    before = lab.snapshot(volatile=True)

    target = tmp_path / "report.tar.gz"
    run = lab.play("gather", cilium_mesh_gather_path=str(target), cilium_mesh_gather_results=[str(earlier)])
    assert run.rc == 0, run.output
    assert not run.changed and lab.snapshot(volatile=True) == before, "gathering writes nothing"
    files = read(target)
    assert run.result["archive"]["missing"] == [], "everything could be read"

    assert json.loads(files["links.json"])["phase"] == "Connected"
    assert {(link["cluster"], link["peer"]): link["stage"] for link in json.loads(files["links.json"])["links"]} == {
        ("c1", "c2"): "ready",
        ("c2", "c1"): "ready",
    }
    assert json.loads(files["plan.json"])["steps"] == [], "there is nothing left to connect"
    for cluster in lab.names:
        of_cluster = {name.rpartition("/")[2]: json.loads(text) for name, text in files.items() if name.startswith(f"clusters/{cluster}/")}
        config = lab.api(cluster).get("/api/v1/namespaces/kube-system/configmaps/cilium-config")
        assert config is not None and of_cluster["config.json"]["cilium-config"] == config["data"]
        assert of_cluster["certificates.json"]["pairs"]["clustermesh-apiserver-server-cert"]["certificate"]["not_after"]
        (peer,) = set(lab.names) - {cluster}
        assert peer in {row["entry"] for row in of_cluster["peers.json"]["cilium-kvstoremesh"]["entries"]}
        assert {row["container"] for row in of_cluster["pods.json"]["containers"]} >= {"kvstoremesh", "apiserver"}
        assert of_cluster["leases.json"]["leases"]
    assert [row["name"] for row in json.loads(files["clusters/c1/services.json"])] == ["web"]
    assert json.loads(files["results/01-mesh_result.json"])["status"]["binding"]["phase"] == connected.result["status"]["binding"]["phase"]

    canaries = [*key_bodies(lab), "canary-annotation", "PRIVATE KEY"]
    assert len(canaries) > 10
    assert [name for name, text in files.items() if leaks([text], canaries)] == []
    assert leaks([run.output, *run.events], canaries) == []
