# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The preflight on three real control planes of three releases: silent about a sound mesh, right about a broken one, and read-only."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.workloads import CLOCKS
from tests.integration.labs import RELEASES
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.rights import ROLES, Row, give, grant, rules_of
from tests.lab.api import change_object
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

pytestmark = pytest.mark.lab(RELEASES)

CORE = f"/api/v1/namespaces/{NAMESPACE}"
CONFIG = f"{CORE}/configmaps/cilium-config"
SERVICE = f"{CORE}/services/clustermesh-apiserver"
LOCAL_CERT = f"{CORE}/secrets/clustermesh-apiserver-local-cert"
KEY, OTHER_KEY = "5eed" * 10, "c0de" * 10
Change = Callable[[dict[str, Any]], Any]


def verify(lab: MeshLab, *, hub: str = "", **how: Any) -> PlaybookRun:
    """Run verify, of a full mesh or of spokes around a hub, and hold that it writes nothing."""
    mesh = lab.mesh()
    if hub:
        mesh["binding"]["topology"] = {"mode": "HubAndSpoke", "hubs": [hub]}
    before = lab.snapshot(volatile=True)
    run = lab.play("verify", mesh=mesh, **how)
    assert "Traceback" not in run.output
    assert lab.snapshot(volatile=True) == before, "something was written"
    return run


def rows(run: PlaybookRun, severity: str = "") -> set[tuple[str, str, str]]:
    """(code, cluster, peer) of the findings, of one severity or of all."""
    return {(f["code"], f["cluster"], f["peer"]) for f in run.result["findings"] if severity in ("", f["severity"])}


def test_sound_clusters_of_three_releases_are_eligible_where_no_link_spans_two_minors(lab: MeshLab) -> None:
    spokes = verify(lab, hub="c2")
    assert spokes.rc == 0, spokes.output
    assert rows(spokes, "blocking") == set() == rows(spokes, "remediable")
    assert {code for code, _, _ in rows(spokes)} == {"CM-CFG-01"}, "1.18 has another default for policy-default-local-cluster"
    full = verify(lab)
    assert full.rc != 0 and {code for code, _, _ in rows(full, "blocking")} == {"CM-VER-01"}


@contextmanager
def changed(lab: MeshLab, cluster: str, path: str, change: Change) -> Iterator[None]:
    """An object with a fault in it, and put back afterwards."""
    api = lab.api(cluster)

    def apply(item: dict[str, Any]) -> dict[str, Any]:
        change(item)
        return item

    original = change_object(api, path, apply)
    kept = {key: value for key, value in original.items() if key in ("data", "spec")}
    notes = original["metadata"].get("annotations")
    # Their times too, which say whether pods started before a change. A server takes them with an update that changes nothing else.
    managers = original["metadata"]["managedFields"]
    try:
        yield
    finally:
        change_object(api, path, lambda current: {**current, **kept, "metadata": {**current["metadata"], "annotations": notes}})
        change_object(api, path, lambda current: {**current, "metadata": {**current["metadata"], "managedFields": managers}})


def config(**keys: str) -> Change:
    return lambda item: item["data"].update({key.replace("_", "-"): value for key, value in keys.items()})


@contextmanager
def without(lab: MeshLab, cluster: str, path: str) -> Iterator[None]:
    api = lab.api(cluster)
    original = api.get(path)
    assert original is not None
    api.delete(path)
    try:
        yield
    finally:
        metadata = {key: original["metadata"][key] for key in ("name", "namespace", "labels", "annotations") if key in original["metadata"]}
        api.create({**original, "apiVersion": "v1", "kind": "Secret", "metadata": metadata})


@contextmanager
def ipsec_key(lab: MeshLab, cluster: str, key: str) -> Iterator[None]:
    api = lab.api(cluster)
    data = {"keys": base64.b64encode(f"3+ rfc4106(gcm(aes)) 0x{key} 128\n".encode()).decode()}
    metadata = {"name": "cilium-ipsec-keys", "namespace": NAMESPACE}
    api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    try:
        yield
    finally:
        api.delete(f"{CORE}/secrets/cilium-ipsec-keys")


def tracked_by_argo(item: dict[str, Any]) -> None:
    item["metadata"].setdefault("annotations", {})["argocd.argoproj.io/tracking-id"] = "edge-net:/ConfigMap:kube-system/cilium-config"
    config(enable_ipsec="true", ipam="eni", cluster_id="200")(item)


def planted(lab: MeshLab, stack: ExitStack) -> None:
    """Faults of every family, in all three clusters at once."""
    address = lab.api("c1").list("/api/v1/nodes")[0]["status"]["addresses"]
    node_of_c1 = next(a["address"] for a in address if a["type"] == "InternalIP")
    faults = (
        ("c1", CONFIG, config(tunnel_protocol="geneve", clustermesh_enable_endpoint_sync="true", enable_ipsec="true")),
        ("c1", SERVICE, lambda item: item["spec"].update(selector={"k8s-app": "clustermesh"})),
        ("c2", CONFIG, config(disable_endpoint_crd="true", enable_ipsec="true")),
        ("c2", SERVICE, lambda item: item["spec"].update(externalTrafficPolicy="Local")),
        ("c3", CONFIG, tracked_by_argo),
        (
            "c3",
            "/apis/cilium.io/v2/ciliumnodes/c3-node1",
            lambda item: item["spec"].update(addresses=[{"type": "InternalIP", "ip": node_of_c1}]),
        ),
    )
    for cluster, path, change in faults:
        stack.enter_context(changed(lab, cluster, path, change))
    stack.enter_context(without(lab, "c2", LOCAL_CERT))
    for cluster, key in (("c1", KEY), ("c2", KEY), ("c3", OTHER_KEY)):
        stack.enter_context(ipsec_key(lab, cluster, key))


def youngest_pod(lab: MeshLab) -> timedelta:
    """The time since the last pod of Cilium started."""
    pods = [pod for name in lab.names for pod in lab.api(name).list(f"{CORE}/pods")]
    return datetime.now(UTC) - max(datetime.fromisoformat(pod["status"]["startTime"]) for pod in pods if "startTime" in pod["status"])


def test_faults_of_every_family_are_reported_for_the_right_clusters_at_once(lab: MeshLab) -> None:
    wait_for(lambda: youngest_pod(lab) > 2 * CLOCKS, what="a change is certainly later than every pod")
    with ExitStack() as stack:
        planted(lab, stack)
        run = verify(lab, hub="c2")
    assert run.rc != 0
    assert rows(run, "blocking") == {
        ("CM-SVC-03", "c1", ""),
        ("CM-CERT-07", "c2", ""),
        ("CM-INST-10", "c2", ""),
        ("CM-ID-09", "c3", ""),
        ("CM-NODE-01", "c1", "c3"),
        ("CM-NET-02", "c1", ""),
        ("CM-ENC-03", "c1", ""),
    }
    assert {
        ("CM-INST-08", "c1", ""),
        ("CM-INST-07", "c2", ""),
        ("CM-SVC-02", "c2", ""),
        ("CM-NODE-05", "c3", ""),
        ("CM-DIST-01", "c3", ""),
    } <= rows(run)
    by_code = {finding["code"]: finding for finding in run.result["findings"]}
    assert 'Application "edge-net": cluster.name=UNIQUE_NAME' in by_code["CM-ID-09"]["fix"], "helm would be undone by Argo CD"
    assert "in c1 and c2" in by_code["CM-ENC-03"]["evidence"] and "in c3" in by_code["CM-ENC-03"]["evidence"]
    assert all(finding["fix"] and finding["evidence"] for finding in run.result["findings"])
    assert KEY not in "".join(run.events).lower() and OTHER_KEY not in "".join(run.events).lower()
    assert rows(verify(lab, hub="c2"), "blocking") == set(), "all is as it was"


def without_the_sensitive_rights(rules: list[Row]) -> list[Row]:
    """The rules, less cilium-ca and the list of Deployments."""
    kept = [row for row in rules if (row["resources"], row["verbs"]) != (["deployments"], ["list"])]
    return [row for row in kept if row.get("resourceNames") != ["cilium-ca"]]


def test_a_role_without_the_sensitive_rights_still_gets_an_answer(lab: MeshLab, tmp_path: Path) -> None:
    hosts = grant(lab, tmp_path, ["verify"])
    for cluster in lab.names:
        poorer = {kind: without_the_sensitive_rights(rules_of(lab, cluster, kind)) for kind in ROLES}
        assert sum(map(len, poorer.values())) == sum(len(rules_of(lab, cluster, kind)) for kind in ROLES) - 2
        give(lab, hosts, cluster, poorer)
    run = verify(lab, hub="c2", hosts=hosts)
    assert run.rc == 0, run.output
    assert {(code, name, "") for code in ("CM-RBAC-01", "CM-RBAC-02") for name in lab.names} <= rows(run)
    links = (("c1", "c2"), ("c2", "c1"), ("c2", "c3"), ("c3", "c2"))
    assert {row for row in rows(run) if row[0] == "CM-TRUST-02"} == {("CM-TRUST-02", *link) for link in links}
    assert 'get secrets "cilium-ca"' in next(f["evidence"] for f in run.result["findings"] if f["code"] == "CM-RBAC-02")
