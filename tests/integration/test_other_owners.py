# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What belongs to others stays as it is, and what we may not touch stops the run before the first write."""

from __future__ import annotations

import base64

import pytest

from tests.integration.labs import HELM, OTHER_THREE_120, THREE_119
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.api import change_object
from tests.testing.waiting import wait_for

FOREIGN = "endpoints:\n- https://elsewhere.example.com:2379\n"


def put_foreign_entries(lab: MeshLab, cluster: str) -> None:
    api = lab.api(cluster)
    for name in ("cilium-clustermesh", "cilium-kvstoremesh"):
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {"elsewhere": base64.b64encode(FOREIGN.encode()).decode()},
        }
        api.create(secret)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/clustermesh-remote-users"
    change_object(api, path, lambda users: {**users, "data": {"users.yaml": "users:\n- name: remote-elsewhere\n  role: remote\n"}})


@pytest.mark.lab(THREE_119, use=2)
def test_foreign_keys_and_users_survive_connect_and_disconnect(lab: MeshLab) -> None:
    put_foreign_entries(lab, "c1")
    before = lab.snapshot()
    run = lab.play("connect")
    assert run.rc == 0, run.output
    for name in ("cilium-clustermesh", "cilium-kvstoremesh"):
        assert lab.secret("c1", name)["elsewhere"] == FOREIGN.encode()
        assert "c2" in lab.secret("c1", name)
    assert {"remote-elsewhere", "remote-c2"} <= {user["name"] for user in lab.users("c1")}
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
    assert lab.snapshot() == before


@pytest.mark.lab(OTHER_THREE_120, use=2)
def test_a_key_that_another_writer_has_for_our_peer_is_not_overwritten(lab: MeshLab) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cilium-kvstoremesh", "namespace": NAMESPACE},
        "data": {"c2": base64.b64encode(FOREIGN.encode()).decode()},
    }
    lab.api("c1").create(body)
    before = lab.snapshot(volatile=True)
    run = lab.play("connect")
    assert run.rc != 0
    assert "CM-OWN-02" in run.finding_codes()
    assert lab.snapshot(volatile=True) == before


@pytest.mark.lab(HELM)
def test_a_mesh_that_helm_owns_is_refused_until_it_is_allowed(lab: MeshLab) -> None:
    before = lab.snapshot(volatile=True)
    refused = lab.play("connect")
    assert refused.rc != 0
    assert "CM-OWN-01" in refused.finding_codes()
    assert "helm.sh/resource-policy" in refused.output
    assert lab.snapshot(volatile=True) == before
    allowed = lab.play("connect", mesh_connect_accept=["CM-OWN-01"])
    assert allowed.rc == 0, allowed.output
    lab.lab.helm_upgrade("c1")
    assert "c2" not in lab.secret("c1", "cilium-kvstoremesh"), "the replay of a Helm upgrade drops keys that Helm does not know"
    repaired = lab.play("connect", mesh_connect_accept=["CM-OWN-01"])
    assert repaired.rc == 0 and repaired.changed > 0, repaired.output
    assert lab.play("disconnect", mesh_connect_accept=["CM-OWN-01"]).rc == 0


@pytest.mark.lab(OTHER_THREE_120)
def test_two_meshes_that_share_a_cluster_leave_each_other_alone(lab: MeshLab) -> None:
    assert lab.play("connect", mesh=lab.mesh("c1", "c2", binding="first")).rc == 0
    assert lab.play("connect", mesh=lab.mesh("c1", "c3", binding="second")).rc == 0
    assert {"c2", "c3"} <= set(lab.secret("c1", "cilium-kvstoremesh"))
    assert lab.play("connect", mesh=lab.mesh("c1", "c2", binding="first")).changed == 0
    assert lab.play("disconnect", mesh=lab.mesh("c1", "c2", binding="first")).rc == 0
    left = lab.secret("c1", "cilium-kvstoremesh")
    assert "c3" in left and "c2" not in left
    wait_for(lambda: lab.kvstoremesh_status("c1")["c3"].get("ready"), what="kvstoremesh of c1 is ready for the peer of the other mesh")
