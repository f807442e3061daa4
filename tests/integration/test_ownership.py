# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A mesh that Helm made is taken over and given back without a link that drops; what others do to our keys is reported, and not fought."""

from __future__ import annotations

import base64
import json
import re
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from tests.integration.labs import HELM, HELM_118, ONE_OF_HELM
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.peer_objects import SECRETS, contents, managers_of, object_path, objects, secret_path, watched
from tests.lab.api import APPLY, MERGE
from tests.testing.known import known
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

FOREIGN = "endpoints:\n- https://elsewhere.example.com:2379\n"
OURS = Binding(name="edge-mesh-eu", cluster_refs=()).manager


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def peer_address(lab: MeshLab, cluster: str) -> str:
    return str(known(lab.api(cluster).get(object_path("services", "clustermesh-apiserver")))["status"]["loadBalancer"]["ingress"][0]["ip"])


def wait_ready(lab: MeshLab, peers: Mapping[str, tuple[str, ...]]) -> None:
    """Until kvstoremesh of every cluster says that it is ready for its peers. It is asked when rollouts are over: before that, a pod that
    is about to end says that it is ready."""

    def late() -> list[str]:
        return [f"{c} -> {p}" for c, names in peers.items() for p in names if not (is_rolled_out(lab, c) and is_ready(lab, c, p))]

    wait_for(late, lambda found: not found, what="kvstoremesh of every cluster is ready for its peers")


def is_rolled_out(lab: MeshLab, cluster: str) -> bool:
    """As ``kubectl rollout status`` decides it, and no pod of the old template is left."""
    deployment = known(lab.api(cluster).get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/clustermesh-apiserver"))
    replicas, status = deployment["spec"]["replicas"], deployment.get("status") or {}
    counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")}
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    pods = lab.api(cluster).list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=clustermesh-apiserver")
    return seen and counts == {replicas} and len(pods) == replicas


def is_ready(lab: MeshLab, cluster: str, peer: str) -> bool:
    try:
        return bool(lab.kvstoremesh_status(cluster).get(peer, {}).get("ready"))
    except Exception:  # while Helm's own rollout replaces the pod, there may be none to ask
        return False


def ours_in(item: Mapping[str, Any]) -> list[str]:
    """Everything in an object that speaks of this collection."""
    return re.findall(r"cilium-mesh\.edge-portal\.eu[^\"]*", json.dumps(item["metadata"]))


def finding(run: PlaybookRun, code: str, cluster: str = "") -> dict[str, Any]:
    found = [f for f in run.result["findings"] if f["code"] == code and cluster in ("", f["cluster"])]
    assert found, (code, run.output)
    return dict(found[0])


def helm_mesh(lab: MeshLab) -> dict[str, str]:
    """Two clusters that Helm meshed; the value of ``clustermesh.config.clusters`` by cluster."""
    values = {}
    for cluster, peer in (("c1", "c2"), ("c2", "c1")):
        values[cluster] = f"[{{name: {peer}, ips: [{peer_address(lab, peer)}], port: 2379}}]"
        lab.lab.helm_upgrade(cluster, (f"clustermesh.config.clusters={values[cluster]}",))
    return values


@pytest.mark.lab(HELM)
def test_a_mesh_that_helm_made_is_adopted_and_handed_back_and_no_link_drops(lab: MeshLab) -> None:
    peers = {"c1": ("c2",), "c2": ("c1",)}
    helm_mesh(lab)
    wait_ready(lab, peers)
    made_by_helm, data = {c: objects(lab, c) for c in lab.names}, contents(lab)

    # Helm still owns it: prepared, and the user reads what to set.
    before = lab.snapshot(volatile=True)
    planned = lab.play("adopt", arguments=("--check", "--diff"), own_process=True)
    assert planned.rc == 0 and planned.changed > 0, planned.output
    assert lab.snapshot(volatile=True) == before
    with watched(lab, peers) as dropped:
        prepared = lab.play("adopt")
        again = lab.play("adopt")
        untrue = lab.play("adopt", cilium_mesh_handed_over=True)
    assert prepared.rc == 0 and prepared.changed > 0, prepared.output
    assert "clustermesh.config.enabled=false" in finding(prepared, "CM-OWN-06", "c1")["fix"]
    assert again.rc == 0 and again.changed == 0 and "CM-OWN-06" in again.finding_codes(), again.output
    assert untrue.rc != 0 and "CM-OWN-07" in untrue.finding_codes(), untrue.output
    assert dropped == [] and contents(lab) == data

    # The user hands it over. That rollout is Helm's: its host aliases go.
    for cluster in lab.names:
        done = lab.lab.helm_upgrade(cluster, ("clustermesh.config.enabled=false", "clustermesh.config.clusters=null"))
        assert len(done["kept"]) == 3 and done["deleted"] == []
    wait_ready(lab, peers)
    assert contents(lab) == data
    with watched(lab, peers) as dropped:
        adopted = lab.play("adopt")
        again = lab.play("adopt")
    assert adopted.rc == 0 and adopted.changed > 0, adopted.output
    assert adopted.result["status"]["binding"]["phase"] == "Connected"
    assert again.rc == 0 and again.changed == 0, again.output
    assert dropped == [] and contents(lab) == data
    for cluster, peer in (("c1", "c2"), ("c2", "c1")):
        found = objects(lab, cluster)
        for name in SECRETS:
            assert managers_of(found[name], peer) == {OURS}
        for item in found.values():
            assert "app.kubernetes.io/managed-by" not in item["metadata"].get("labels", {})
            assert "meta.helm.sh/release-name" not in item["metadata"].get("annotations", {})
    verified = lab.play("verify")
    assert verified.rc == 0 and not {"CM-OWN-01", "CM-OWN-04"} & set(verified.finding_codes()), verified.output

    # What connect writes in another way is changed by connect, with a plan.
    connected = lab.play("connect")
    assert connected.rc == 0 and connected.changed > 0, connected.output
    assert lab.play("connect").changed == 0
    ours = contents(lab)
    assert ours != data

    # And back again, as it is now.
    with watched(lab, peers) as dropped:
        handed = lab.play("hand_back", own_process=True)
        again = lab.play("hand_back")
    assert handed.rc == 0 and handed.changed > 0, handed.output
    assert again.rc == 0 and again.changed == 0, again.output
    assert dropped == [] and contents(lab) == ours
    for cluster in lab.names:
        for name, item in objects(lab, cluster).items():
            assert ours_in(item) == []
            was = made_by_helm[cluster][name]["metadata"]
            assert (item["metadata"].get("labels"), item["metadata"].get("annotations")) == (was.get("labels"), was.get("annotations"))

    # With the printed values Helm takes it over and keeps it.
    for cluster in lab.names:
        fix = finding(handed, "CM-OWN-11", cluster)["fix"]
        command = shlex.split(fix.splitlines()[0])  # a person pastes it
        values = tuple(value for flag, value in pairwise(command) if flag == "--set")
        assert values[0] == "clustermesh.config.enabled=true" and len(values) > 1, fix
        lab.lab.helm_upgrade(cluster, values)
    wait_ready(lab, peers)
    assert contents(lab) == data


def write_key(lab: MeshLab, cluster: str, secret: str, key: str, value: str | None, manager: str) -> None:
    """Another writer sets a key, or takes it out."""
    data = {key: None if value is None else encoded(value)}
    lab.api(cluster).patch(secret_path(secret), {"data": data}, kind=MERGE, field_manager=manager)


def reconcile(lab: MeshLab, cluster: str, secret: str, key: str, value: str) -> None:
    """What Argo CD's self-healing does with ServerSideApply=true: it applies what it rendered, by force."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": NAMESPACE}, "data": {key: encoded(value)}}
    lab.api(cluster).patch(secret_path(secret), body, kind=APPLY, field_manager="argocd-controller", force=True)


@pytest.mark.lab(ONE_OF_HELM)
def test_what_others_do_to_our_keys_is_reported_repaired_on_demand_and_never_fought(lab: MeshLab) -> None:
    accept: dict[str, Any] = {"mesh_connect_accept": ["CM-OWN-01"]}
    assert lab.play("connect", **accept).rc == 0
    written = contents(lab)

    # A Helm upgrade in the middle takes out what Helm does not know; the next run says so and restores it.
    second = int(time.time())
    wait_for(lambda: int(time.time()) > second, what="the clock shows another second, as managedFields have whole ones")
    lab.lab.helm_upgrade("c1")
    assert "c2" not in lab.secret("c1", "cilium-kvstoremesh")
    restored = lab.play("connect", mesh_connect_wait=False, **accept)
    assert restored.rc == 0 and restored.changed > 0, restored.output
    drift = finding(restored, "CM-DRIFT-01", "c1")
    assert re.search(r"a Helm upgrade took them out at \d{4}-\d\d-\d\dT", drift["summary"]), drift
    assert "cilium (Update) wrote" in drift["evidence"] and drift["severity"] == "advisory"
    quiet = lab.play("connect", **accept)
    assert quiet.rc == 0 and quiet.changed == 0 and "CM-DRIFT-01" not in quiet.finding_codes(), quiet.output
    assert set(contents(lab)["c1/cilium-kvstoremesh"]) == set(written["c1/cilium-kvstoremesh"])

    # An administrator takes a key out here, changes one there, and adds a new one.
    write_key(lab, "c3", "cilium-kvstoremesh", "c1", None, "kubectl-edit")
    write_key(lab, "c2", "cilium-kvstoremesh", "c1", FOREIGN, "kubectl-edit")
    write_key(lab, "c2", "cilium-kvstoremesh", "elsewhere", FOREIGN, "kubectl-edit")
    before = lab.snapshot(volatile=True)
    refused = lab.play("connect", **accept)
    assert refused.rc != 0 and lab.snapshot(volatile=True) == before
    changed = finding(refused, "CM-DRIFT-02", "c2")
    assert changed["peer"] == "c1" and "kubectl-edit (Update)" in changed["evidence"], changed
    assert "cilium-kvstoremesh" in finding(refused, "CM-DRIFT-01", "c3")["evidence"]
    repaired = lab.play("connect", mesh_connect_repair=True, mesh_connect_wait=False, **accept)
    assert repaired.rc == 0 and repaired.changed > 0, repaired.output
    assert lab.secret("c2", "cilium-kvstoremesh") == {**written["c2/cilium-kvstoremesh"], "elsewhere": FOREIGN.encode()}
    assert lab.secret("c3", "cilium-kvstoremesh")["c1"] == written["c3/cilium-kvstoremesh"]["c1"]
    assert lab.play("connect", **accept).changed == 0

    # Argo CD undoes a key: that is said, with what to declare, and nothing is written until the user takes it on.
    reconcile(lab, "c2", "cilium-clustermesh", "c3", FOREIGN)
    before = lab.snapshot(volatile=True)
    for repair in (False, True):
        undone = lab.play("connect", mesh_connect_repair=repair, **accept)
        assert undone.rc != 0 and lab.snapshot(volatile=True) == before, undone.output
        reverted = finding(undone, "CM-DRIFT-03", "c2")
        assert "argocd-controller (Apply)" in reverted["evidence"] and "ignoreDifferences" in reverted["fix"], reverted
    settled = lab.play("connect", mesh_connect_accept=["CM-OWN-01", "CM-DRIFT-03"], mesh_connect_repair=True, mesh_connect_wait=False)
    assert settled.rc == 0, settled.output
    assert lab.secret("c2", "cilium-clustermesh") == written["c2/cilium-clustermesh"]
    assert lab.play("connect", **accept).changed == 0

    # Leaving takes our keys and no other, also where they were fought over.
    assert lab.play("disconnect", **accept).rc == 0
    assert lab.secret("c2", "cilium-kvstoremesh") == {"elsewhere": FOREIGN.encode()}
    for cluster in lab.names:
        for item in objects(lab, cluster).values():
            marks = {**item["metadata"].get("labels", {}), **item["metadata"].get("annotations", {})}
            assert "cilium-mesh.edge-portal.eu" not in json.dumps(marks)


@pytest.mark.lab(HELM_118)
def test_before_120_a_binding_that_adopts_brings_the_names_back_that_went_with_helm(lab: MeshLab) -> None:
    """The playbooks that connect adopt first where the binding says so, and connect in the same run."""
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    mesh = lab.mesh()
    mesh["binding"]["adopt"] = {"reason": "Helm made it", "until": until}
    peers = {"c1": ("c2",), "c2": ("c1",)}
    helm_mesh(lab)
    wait_ready(lab, peers)
    aliases = {cluster: host_aliases(lab, cluster) for cluster in lab.names}
    foreseen = lab.play("plan", mesh=mesh)
    assert foreseen.rc == 0 and foreseen.result["plan"]["steps"], foreseen.output
    prepared = lab.play("connect", mesh=mesh)
    assert prepared.rc != 0 and prepared.result["changed"], "the tool still renders the objects"
    assert "no link was written" in prepared.output and "nothing was written" not in prepared.output
    assert {"CM-OWN-02", "CM-OWN-06", "CM-OWN-10"} <= set(prepared.finding_codes()), prepared.output
    assert "clusters=null" not in finding(prepared, "CM-OWN-06")["fix"], "users.yaml is rendered from it before 1.19"
    for cluster in lab.names:
        lab.lab.helm_upgrade(cluster, ("clustermesh.config.enabled=false",))
        assert host_aliases(lab, cluster) == []
    adopted = lab.play("connect", mesh=mesh)
    assert adopted.rc == 0 and adopted.changed > 0, adopted.output
    assert adopted.result["status"]["binding"]["phase"] == "Connected"
    assert {cluster: host_aliases(lab, cluster) for cluster in lab.names} == aliases
    wait_ready(lab, peers)
    data = contents(lab)  # the adoption changed no value, and connecting then wrote the binding's own
    assert lab.play("connect", mesh=mesh).changed == 0 and contents(lab) == data
    # Helm goes on rendering users.yaml, so its marks stay there, and its upgrades leave our Secrets alone.
    lab.lab.helm_upgrade("c1")
    assert contents(lab) == data
    handed = lab.play("hand_back")
    assert handed.rc == 0 and host_aliases(lab, "c2") == aliases["c2"], handed.output
    assert contents(lab) == data and lab.play("hand_back").changed == 0


def host_aliases(lab: MeshLab, cluster: str) -> list[dict[str, Any]]:
    found = known(lab.api(cluster).get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/clustermesh-apiserver"))
    return list(found["spec"]["template"]["spec"].get("hostAliases", []))
