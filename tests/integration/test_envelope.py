# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the envelope says of one more cluster is held against what its peers then hold: a third cluster of known size joins two others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.labs import THREE_120
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

IDENTITIES, ENDPOINTS = 3, 4
KINDS = ("nodes", "identities", "ip", "services")


def populate(api: LabApi, number: int) -> None:
    """Identities and endpoints, as agents would write them, and one global Service, in the cluster with this id."""
    for place in range(IDENTITIES):
        labels = {"k8s:app": f"app-{place}", "k8s:io.kubernetes.pod.namespace": "default", "k8s:io.cilium.k8s.policy.cluster": f"c{number}"}
        metadata = {"name": str((number << 16) + 300 + place), "labels": {}}
        api.create({"apiVersion": "cilium.io/v2", "kind": "CiliumIdentity", "metadata": metadata, "security-labels": labels})
    for place in range(ENDPOINTS):
        identity = {"id": (number << 16) + 300 + place % IDENTITIES, "labels": ["k8s:app=app"]}
        networking = {"addressing": [{"ipv4": f"10.{number}.0.{100 + place}"}], "node": f"127.0.0.{number}"}
        status = {"id": 100 + place, "identity": identity, "networking": networking, "state": "ready"}
        metadata = {"name": f"pod-{place}", "namespace": "default"}
        api.create({"apiVersion": "cilium.io/v2", "kind": "CiliumEndpoint", "metadata": metadata, "status": status})
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    metadata = {"name": "web", "namespace": "default", "annotations": {"service.cilium.io/global": "true"}}
    api.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": ports}})


def cached(lab: MeshLab, cluster: str) -> int:
    """Keys that kvstoremesh of the cluster keeps of its peers."""
    lines = [lab.etcdctl(cluster, "get", f"cilium/cache/{kind}/", "--prefix", "--keys-only") for kind in KINDS]
    return sum(bool(line.strip()) for text in lines for line in text.splitlines())


def load(run: PlaybookRun, cluster: str) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in run.result["envelope"]["loads"] if row["cluster"] == cluster)
    return found


@pytest.mark.full
@pytest.mark.lab(THREE_120)
def test_one_more_cluster_brings_the_keys_that_the_envelope_says(lab: MeshLab) -> None:
    for number, name in enumerate(lab.names, 1):
        populate(lab.api(name), number)
    two = lab.mesh("c1", "c2")
    assert lab.play("connect", mesh=two).rc == 0
    nodes = len(lab.api("c3").list("/api/v1/nodes"))
    size = {"nodes": nodes, "identities": IDENTITIES, "endpoints": ENDPOINTS, "services": 1, "backends": 0}
    before = lab.snapshot(volatile=True)
    said = lab.play("envelope", mesh=two, cilium_mesh_one_more=size, cilium_mesh_fail_at=90)
    assert said.rc == 0, said.output
    assert "clusters" in said.output and lab.snapshot(volatile=True) == before, "an envelope writes nothing"
    now = load(said, "c1")
    wait_for(lambda: cached(lab, "c1"), equals(now["cachedKeys"]), what="c1 keeps as many keys of c2 as the envelope says")

    assert lab.play("connect").rc == 0
    wait_for(lambda: cached(lab, "c1"), equals(now["withOneMore"]["cachedKeys"]), what="c1 keeps as many keys more as was said of c3")
