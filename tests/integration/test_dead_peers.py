# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A peer that falls silent is noticed at once, one that died can be taken out without it, and comes back only as the one it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.integration import credentials
from tests.integration.labs import THREE_120
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def link(run: PlaybookRun, cluster: str, peer: str) -> dict[str, Any]:
    rows = run.result["status"]["binding"]["links"]
    found: dict[str, Any] = next(row for row in rows if (row["cluster"], row["peer"]) == (cluster, peer))
    return found


def leases(lab: MeshLab, cluster: str) -> dict[str, str]:
    """Inventory name -> state, as the member's copy of the leases has it."""
    found = [item for item in lab.api(cluster).list(CONFIG_MAPS) if "leases.json" in (item.get("data") or {})]
    assert len(found) == 1, f"{cluster} has {len(found)} registries"
    return {lease["host"]: lease["state"] for lease in json.loads(found[0]["data"]["leases.json"])["leases"]}


def new_connection(lab: MeshLab, cluster: str, peer: str) -> str:
    """What Cilium's own troubleshoot says when the kvstoremesh of ``cluster`` dials ``peer`` anew."""
    access = ClusterAccess(host=cluster, kubeconfig=str(lab.lab.clusters[cluster].kubeconfig), context=None)
    pods = lab.api(cluster).list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=clustermesh-apiserver")
    command = ["/usr/bin/clustermesh-apiserver", "kvstoremesh-dbg", "troubleshoot", "--timeout=3s", peer]
    with open_cluster(access) as client:
        return client.exec(pods[-1]["metadata"]["name"], "kvstoremesh", command).stdout


@pytest.mark.lab(THREE_120, use=2)
def test_a_silent_partition_is_noticed_by_the_next_status(lab: MeshLab) -> None:
    connected = lab.play("connect")
    assert connected.rc == 0, connected.output
    assert link(connected, "c1", "c2")["proof"] == "proven"
    assert link(connected, "c1", "c2")["lastProof"]["by"] == "kvstoremesh"
    # 1.20 writes its first heartbeat after a minute, 1.15 at once (mesh/versions/minors.py, DELAYS).
    age = link(connected, "c1", "c2")["lastProof"]["heartbeatAgeSeconds"]
    if age is None:
        wait_for(lambda: link(lab.play("status"), "c1", "c2")["lastProof"]["heartbeatAgeSeconds"] is not None, what="the first heartbeat")
        age = link(lab.play("status"), "c1", "c2")["lastProof"]["heartbeatAgeSeconds"]
    assert 0 <= age <= 90

    lab.lab.freeze("c1", "c2", one_way=True)
    assert lab.kvstoremesh_status("c1")["c2"]["ready"], "kvstoremesh has noticed it, so that this test proves nothing"
    frozen = lab.play("status")
    assert frozen.rc != 0
    assert frozen.result["status"]["binding"]["phase"] == "Degraded"
    broken = link(frozen, "c1", "c2")  # its error is worded so only where kvstoremesh said ready to this very status
    assert (broken["proof"], broken["ready"], broken["stage"]) == ("refuted", False, "dialling")
    assert broken["error"].startswith("kvstoremesh still reports ready; a new connection fails:")
    assert (link(frozen, "c2", "c1")["proof"], link(frozen, "c2", "c1")["ready"]) == ("proven", True)
    lab.lab.heal("c1", "c2", one_way=True)

    lab.lab.cut("controller", "c2")
    lab.wait_connected()
    from_there = lab.play("status")
    assert from_there.rc == 0, from_there.output
    seen = link(from_there, "c1", "c2")
    assert (seen["proof"], seen["lastProof"]["by"], seen["lastProof"]["heartbeatAgeSeconds"]) == ("proven", "kvstoremesh", None)
    assert "controller" in seen["proofNote"] and "refused" in seen["proofNote"]
    assert link(from_there, "c2", "c1")["lastProof"]["heartbeatAgeSeconds"] <= 90
    assert "heartbeat" in from_there.output


def condition(run: PlaybookRun, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition of the mesh."""
    found = next(row for row in run.result["status"]["binding"]["conditions"] if row["type"] == kind)
    return found["status"], found["reason"], found["message"]


@pytest.mark.lab(THREE_120, use=2)
def test_a_blocked_port_between_nodes_shows_with_its_number_and_goes_when_it_is_open(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    whole = lab.play("status")
    assert (whole.rc, *condition(whole, "NodesReachable")[:2]) == (0, "True", "NodesReached"), whole.output
    row = link(whole, "c1", "c2")
    assert (row["nodePaths"]["reached"], row["nodePaths"]["asked"], row["arrived"]["nodes"]) == (1, 1, 1)
    assert whole.result["status"]["binding"]["meshStatus"][0]["probedFrom"] == ["c1-node1"]

    lab.lab.block("c1", "c2", "udp/8472", one_way=True)
    lost = lab.play("status")
    assert lost.rc != 0 and "PacketsLost" in condition(lost, "Ready"), lost.output
    assert condition(lost, "MeshConnected")[0] == "True", "the links themselves are as they were"
    status, reason, message = condition(lost, "NodesReachable")
    assert (status, reason) == ("False", "PodNetworkBlocked") and "UDP 8472 (vxlan)" in message and "c2 -> c1" not in message
    assert link(lost, "c1", "c2")["nodePaths"]["failed"] == ["c1-node1 -> c2-node1 (pod network)"]
    assert link(lost, "c1", "c2")["proof"] == "proven" and link(lost, "c2", "c1")["nodePaths"]["reached"] == 1
    assert "CM-NET-08" in lost.finding_codes() and "UDP 8472 (vxlan)" in lost.output

    lab.lab.heal("c1", "c2")
    lab.lab.block("c1", "c2", "tcp/4240")
    probes = lab.play("status")
    assert probes.rc == 0, probes.output
    assert condition(probes, "NodesReachable")[:2] == ("False", "HealthPortBlocked")
    assert "CM-NET-09" in probes.finding_codes() and "TCP 4240" in probes.output

    lab.lab.heal("c1", "c2")
    healed = lab.play("status")
    assert (healed.rc, condition(healed, "NodesReachable")[0]) == (0, "True"), healed.output
    assert not {"CM-NET-08", "CM-NET-09"} & set(healed.finding_codes())


@pytest.mark.lab(THREE_120, use=2)
def test_a_member_whose_api_server_is_silent_is_measured_by_the_others(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    lab.lab.freeze_api("c2")
    half = lab.play("status")
    assert half.rc != 0
    forth, back = link(half, "c1", "c2"), link(half, "c2", "c1")
    assert (forth["ready"], forth["proof"], forth["lastProof"]["by"]) == (True, "proven", "kvstoremesh"), half.output
    assert (back["stage"], back["proof"]) == ("unknown", "unknown")
    assert forth["nodePaths"]["reached"] == 1, "the nodes of the silent cluster are reached"
    assert (half.result["status"]["binding"]["phase"], condition(half, "NodesReachable")[0]) == ("Degraded", "Unknown")
    assert condition(half, "Ready")[2].endswith("(its mesh endpoint is alive: c1 reads from it)")
    assert "(its mesh endpoint is alive: c1 reads from it)" in half.output

    lab.lab.kill("c2")
    dead = lab.play("status")
    assert dead.rc != 0
    assert (link(dead, "c1", "c2")["proof"], link(dead, "c1", "c2")["ready"]) == ("refuted", False), dead.output
    assert dead.result["status"]["binding"]["phase"] == "Degraded", "it got milder as the outage was confirmed"
    assert condition(dead, "Ready")[2].endswith("(its mesh endpoint does not answer c1 either)")
    lab.lab.thaw_api("c2")


@pytest.mark.lab(THREE_120, use=2)
def test_a_link_that_is_lost_just_after_it_was_written_is_not_taken_for_a_new_one(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    lab.lab.cut("c1", "c2")
    wait_for(
        lambda: [lab.kvstoremesh_status(host)[peer].get("ready") for host, peer in (("c1", "c2"), ("c2", "c1"))],
        equals([None, None]),
        what="kvstoremesh of both clusters notices the cut",
        stall=180,
    )
    for run in (lab.play("status"), lab.play("connect", mesh_connect_wait_timeout=0)):
        assert run.rc != 0 and not run.changed
        lost = link(run, "c1", "c2")
        assert (lost["stage"], lost["reader"], lost["arrived"]["nodes"]) == ("dialling", "kvstoremesh", 1), run.output
        assert run.result["status"]["binding"]["phase"] == "Degraded", run.output
    lab.lab.heal("c1", "c2")
    lab.wait_connected()


@pytest.mark.lab(THREE_120)
def test_a_dead_cluster_is_taken_out_without_it_and_proves_itself_when_it_returns(lab: MeshLab, tmp_path: Path) -> None:
    assert lab.play("connect").rc == 0
    lab.lab.kill("c3")
    without = credentials.unreachable(lab, "c3", tmp_path / "kubeconfig")

    def take_out() -> None:
        run = lab.play("disconnect", hosts=without, mesh_connect_clusters=["c3"])
        assert run.rc == 0, run.output
        for member in ("c1", "c2"):
            assert "c3" not in lab.secret(member, "cilium-kvstoremesh") and "c3" not in lab.secret(member, "cilium-clustermesh")
            assert leases(lab, member)["c3"] == "dead"
            assert {user["name"] for user in lab.users(member)}.isdisjoint({"remote-c3"})

    take_out()
    two = lab.play("status", mesh=lab.mesh("c1", "c2"))
    assert (two.rc, link(two, "c1", "c2")["proof"]) == (0, "proven"), two.output

    lab.lab.restart("c3")
    lab.wait_for_mesh_pods()
    assert "c1" in lab.secret("c3", "cilium-kvstoremesh"), "it still holds what it was given"
    refused = new_connection(lab, "c3", "c1")
    assert "successfully established\n" not in refused.split("Etcd client:")[-1] and "❌" in refused.split("Etcd client:")[-1], refused

    back = lab.play("connect", mesh_connect_wait=False)
    assert back.rc == 0, back.output
    assert "c3 is taken back" in back.output
    assert {member: leases(lab, member)["c3"] for member in lab.names} == dict.fromkeys(lab.names, "active")
    assert all("c3" in lab.secret(member, "cilium-kvstoremesh") for member in ("c1", "c2"))

    take_out()
    credentials.replace_ca(lab, "c3")
    stranger(lab, "c3", {"cluster-pool-ipv4-cidr": "10.3.0.0/16 10.77.0.0/16"})
    before = lab.snapshot(volatile=True)
    imposter = lab.play("connect", mesh_connect_wait=False)
    assert imposter.rc != 0
    assert "CM-TOMB-01" in imposter.finding_codes()
    evidence = next(f["evidence"] for f in imposter.result["findings"] if f["code"] == "CM-TOMB-01")
    assert "the CA behind its server certificate" in evidence and "10.77.0.0/16" in evidence
    assert lab.snapshot(volatile=True) == before, "something was written"

    vouched = lab.play("connect", mesh_connect_wait=False, mesh_connect_take_back=["c3"])
    assert vouched.rc == 0, vouched.output
    assert "as take_back says" in vouched.output
    assert {member: leases(lab, member)["c3"] for member in lab.names} == dict.fromkeys(lab.names, "active")


def stranger(lab: MeshLab, cluster: str, config: Mapping[str, str]) -> None:
    lab.api(cluster).patch(f"{CONFIG_MAPS}/cilium-config", {"data": dict(config)})
