# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names and ids on lease: kept by every member, restored by any, never handed out twice, never changed under a running mesh."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import registry_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from tests.integration.labs import THREE_119, THREE_120, UNNAMED
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.rights import grant

REGISTRY = registry_name(Binding(name="edge-mesh-eu", cluster_refs=()))
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def leases(lab: MeshLab, cluster: str) -> dict[str, dict[str, Any]]:
    """The copy that a member keeps, by inventory name; {} without one."""
    item = lab.api(cluster).get(f"{CONFIG_MAPS}/{REGISTRY}")
    rows = json.loads(item["data"]["leases.json"])["leases"] if item else []
    return {row["host"]: row for row in rows if row["state"] in ("active", "claimed")}


def config(lab: MeshLab, cluster: str) -> dict[str, str]:
    item = lab.api(cluster).get(f"{CONFIG_MAPS}/cilium-config")
    assert item is not None
    return {key: item["data"].get(key, "") for key in ("cluster-name", "cluster-id")}


def set_config(lab: MeshLab, cluster: str, **values: str) -> None:
    data = {key.replace("_", "-"): value for key, value in values.items()}
    lab.api(cluster).patch(f"{CONFIG_MAPS}/cilium-config", {"data": data})


def codes(run: Any) -> set[str]:
    return {finding["code"] for finding in run.result["findings"]}


@pytest.mark.lab(THREE_119, gate=THREE_120)
def test_members_keep_the_leases_of_all_and_restore_each_other(lab: MeshLab) -> None:
    untouched = lab.snapshot()
    assert lab.play("connect").rc == 0
    kept = [leases(lab, cluster) for cluster in lab.names]
    assert kept[0] == kept[1] == kept[2]
    assert {host: (row["name"], row["id"]) for host, row in kept[0].items()} == {f"c{n}": (f"c{n}", n) for n in (1, 2, 3)}
    assert all(row["uid"] and len(row["ca"]) == 64 and row["podCidrs"] for row in kept[0].values())
    before = lab.snapshot(volatile=True)
    assert lab.play("connect").result["changed"] is False
    assert lab.snapshot(volatile=True) == before

    lab.api("c2").delete(f"{CONFIG_MAPS}/{REGISTRY}")
    assert "CM-LEASE-05" in codes(lab.play("verify"))
    repaired = lab.play("connect")
    assert repaired.rc == 0 and [step["cluster"] for step in repaired.result["plan"]["steps"]] == ["c2"]
    assert leases(lab, "c2") == kept[0]

    set_config(lab, "c3", cluster_id="9")
    before = lab.snapshot(volatile=True)
    for playbook in ("connect", "identity"):
        refused = lab.play(playbook)
        assert refused.rc != 0 and "CM-LEASE-01" in codes(refused), refused.output
    assert lab.snapshot(volatile=True) == before

    # A member that takes the id of another loses its own links: the others are written all the same.
    set_config(lab, "c3", cluster_id="1")
    lab.api("c2").delete(f"{CONFIG_MAPS}/{REGISTRY}")
    thief = lab.play("connect")
    assert thief.rc != 0 and {"CM-ID-05", "CM-LEASE-03"} <= codes(thief), thief.output
    assert {finding["cluster"] for finding in thief.result["findings"] if finding["severity"] == "blocking"} == {"c3"}
    assert [step["cluster"] for step in thief.result["plan"]["steps"]] == ["c2"] and leases(lab, "c2") == kept[0]
    assert "c3 cannot take part" in thief.output and thief.result["status"]["binding"]["phase"] == "Degraded"
    set_config(lab, "c3", cluster_id="3")

    assert lab.play("disconnect", mesh_connect_clusters=["c3"]).rc == 0
    assert set(leases(lab, "c1")) == {"c1", "c2"} and leases(lab, "c3") == {}
    assert lab.play("disconnect").rc == 0
    assert lab.snapshot() == untouched


@pytest.mark.lab(UNNAMED)
def test_new_clusters_get_free_ids_also_from_two_controllers_at_once_and_a_meshed_one_is_refused(lab: MeshLab, tmp_path: Path) -> None:
    """c1 and c2 are a mesh that c9 has just left; c3 and c4 were never meshed. The documented rights are enough to assign."""
    hosts = grant(lab, tmp_path)
    assert lab.play("connect", mesh=lab.mesh("c1", "c2", "c9")).rc == 0
    assert lab.play("disconnect", mesh=lab.mesh("c1", "c2", "c9"), mesh_connect_clusters=["c9"]).rc == 0

    meshed = lab.snapshot(volatile=True)
    refused = lab.play("identity", mesh=lab.mesh("c1", "c2"), cluster_identity_policy="assign", cluster_identity_names={"c2": {"id": 8}})
    assert refused.rc != 0 and "CM-LEASE-09" in codes(refused), refused.output
    (finding,) = [f for f in refused.result["findings"] if f["code"] == "CM-LEASE-09"]
    assert "disconnect" in finding["fix"] and "cluster.id=8" in finding["fix"] and "rollout restart" in finding["fix"]
    foretold = lab.play(
        "identity", mesh=lab.mesh("c1", "c2", "c3"), cluster_identity_policy="assign", arguments=("--check", "--diff"), own_process=True
    )
    assert foretold.rc == 0 and foretold.result["changed"] is True and "CM-LEASE-10" in codes(foretold)
    assert lab.snapshot(volatile=True) == meshed

    def assign(playbook: str, *added: str, **how: Any) -> Any:
        return lab.play(playbook, mesh=lab.mesh("c1", "c2", *added), hosts=hosts, cilium_mesh_lock_timeout=600, **how)

    with ThreadPoolExecutor(2) as pool:
        both = (
            pool.submit(assign, "identity", "c3", cluster_identity_policy="assign"),
            pool.submit(assign, "mesh", "c3", "c4", cilium_mesh_assign_identities=True),  # and connects
        )
        runs = [run.result() for run in both]
    for run in runs:
        assert run.rc == 0, run.output
    given = {cluster: config(lab, cluster) for cluster in ("c3", "c4")}
    assert {cluster: found["cluster-name"] for cluster, found in given.items()} == {"c3": "c3", "c4": "c4"}
    ids = sorted(int(found["cluster-id"]) for found in given.values())
    assert len(set(ids)) == 2 and not set(ids) & {0, 1, 2, 3}, f"{ids}: 3 rests in quarantine"
    assert ids[0] == 4
    on_record = leases(lab, "c1")
    assert {cluster: on_record[cluster]["id"] for cluster in given} == {c: int(found["cluster-id"]) for c, found in given.items()}
    assert {on_record[cluster]["state"] for cluster in given} == {"active"}

    whole = lab.mesh("c1", "c2", "c3", "c4")
    connected = lab.play("connect", mesh=whole)
    assert connected.rc == 0 and connected.result["status"]["binding"]["phase"] == "Connected", connected.output
    assert set(lab.kvstoremesh_status("c3")) == {"c1", "c2", "c4"}
    before = lab.snapshot(volatile=True)
    again = lab.play("identity", mesh=whole, hosts=hosts, cluster_identity_policy="assign")
    assert again.rc == 0 and again.result["changed"] is False, again.output
    assert lab.snapshot(volatile=True) == before
