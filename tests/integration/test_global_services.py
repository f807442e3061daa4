# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Services become global and go back to what they were, on real API servers, and the real clustermesh-apiserver exports them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.integration.labs import TWO_118
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.api import ApiError
from tests.lab.tools.mcs_crds import mcs_crds
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.lab(TWO_118)

SHOP = "shop"
GLOBAL, SHARED = "service.cilium.io/global", "service.cilium.io/shared"
AFFINITY, OLD_AFFINITY = "service.cilium.io/affinity", "io.cilium/service-affinity"
OLD_GLOBAL = "io.cilium/global-service"
MCS = "multicluster.x-k8s.io"
SERVICES = f"/api/v1/namespaces/{SHOP}/services"
BEFORE = {OLD_GLOBAL: "false", OLD_AFFINITY: "remote", "team": "web"}
"""Annotations of Service web in c1 before anything."""


@pytest.fixture(scope="module")
def lab(module_lab: MeshLab) -> MeshLab:
    """Two connected clusters. Service web with two pods in both, Service solo in c1 alone."""
    made = module_lab
    assert made.play("connect").rc == 0
    for name in made.names:
        api = made.api(name)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        for service in ("web", "solo") if name == "c1" else ("web",):
            labels = {"app": service}
            container = {"name": "web", "image": "web:1"}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
            spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
            api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": service, "namespace": SHOP}, "spec": spec})
            ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]
            annotations = BEFORE if (name, service) == ("c1", "web") else {}
            metadata = {"name": service, "namespace": SHOP, "labels": labels, "annotations": annotations}
            api.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": ports}})
    for name, service in (("c1", "web"), ("c1", "solo"), ("c2", "web")):
        wait_for(partial(ready, made, name, service), equals(2), what=f"{service} has two ready endpoints in {name}")
    return made


def ready(lab: MeshLab, cluster: str, service: str) -> int:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices"
    found = lab.api(cluster).list(path, label_selector=f"kubernetes.io/service-name={service}")
    return sum(endpoint["conditions"].get("ready") is True for entry in found for endpoint in entry.get("endpoints") or [])


def item(name: str = "web", **fields: Any) -> dict[str, Any]:
    return {"name": name, "selector": {"namespace": SHOP, "name": name}, **fields}


def run(
    lab: MeshLab, *items: Mapping[str, Any], arguments: tuple[str, ...] = (), own_process: bool = False, permitted: tuple[str, ...] = ()
) -> PlaybookRun:
    mesh = {**lab.mesh(), "globalServices": list(items)}
    hosts = {name: {"cilium_mesh_allowed_annotations": list(permitted)} for name in lab.names}
    done = lab.play("services", mesh=mesh, arguments=arguments, own_process=own_process, hosts=hosts)
    assert "Traceback" not in done.output
    return done


def annotations_of(lab: MeshLab, cluster: str, service: str = "web") -> dict[str, str]:
    found = lab.api(cluster).get(f"{SERVICES}/{service}")
    assert found is not None
    return found["metadata"].get("annotations") or {}


def exported(lab: MeshLab, cluster: str, service: str = "web") -> dict[str, Any] | None:
    """What the cluster's real clustermesh-apiserver wrote for its peers about the Service; None: nothing."""
    answer = lab.etcdctl(cluster, "get", "--print-value-only", f"cilium/state/services/v1/{cluster}/{SHOP}/{service}")
    found: dict[str, Any] | None = json.loads(answer) if answer.strip() else None
    return found


def row(done: PlaybookRun, name: str = "web") -> dict[str, Any]:
    return next(entry for entry in done.result["status"]["globalServices"] if entry["name"] == name)


def conditions(entry: Mapping[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in entry["conditions"]}


def objects(done: PlaybookRun) -> list[tuple[str, str, str]]:
    return [(step["cluster"], step["verb"], step["object"]) for step in done.result["plan"]["steps"]]


def test_a_service_is_exported_and_all_is_restored_but_what_another_writer_changed(lab: MeshLab) -> None:
    wanted = item(affinity="Local", shared=True)
    assert exported(lab, "c1") is None
    promised = run(lab, wanted, arguments=("--check", "--diff"), own_process=True)
    assert promised.rc == 0, promised.output
    assert annotations_of(lab, "c1") == BEFORE, "check mode writes nothing"
    assert objects(promised) == [("c1", "patch", "Service shop/web"), ("c2", "patch", "Service shop/web")]
    assert f"+    {GLOBAL}: 'true'" in promised.output and f"-    {OLD_AFFINITY}: remote" in promised.output

    done = run(lab, wanted)
    assert (done.rc, objects(done)) == (0, objects(promised)), done.output
    here = annotations_of(lab, "c1")
    assert {key: here.get(key) for key in (GLOBAL, SHARED, AFFINITY, OLD_GLOBAL, OLD_AFFINITY, "team")} == {
        GLOBAL: "true",
        SHARED: "true",
        AFFINITY: "local",
        OLD_GLOBAL: None,
        OLD_AFFINITY: None,
        "team": "web",
    }
    entry = row(done)
    assert (entry["phase"], entry["exportedClusters"]) == ("Exported", ["c1", "c2"])
    assert [(r["clusterName"], r["endpoints"], r["ready"], r["affinity"]) for r in entry["endpointSummary"]] == [
        ("c1", 2, True, "Local"),
        ("c2", 2, True, "Local"),
    ]
    assert conditions(entry) == {"Accepted": "True", "Exported": "True", "Ready": "True", "Degraded": "False"}
    for cluster in lab.names:
        found = wait_for(partial(exported, lab, cluster), what=f"clustermesh-apiserver of {cluster} exports the Service")
        assert (found["shared"], found["includeExternal"], len(found["backends"])) == (True, True, 2)

    again = run(lab, wanted)
    assert (again.rc, again.changed, objects(again)) == (0, 0, [])

    lab.api("c2").patch(f"{SERVICES}/web", {"metadata": {"annotations": {AFFINITY: "remote"}}})
    gone = run(lab)
    assert gone.rc == 0, gone.output
    assert "CM-GS-04" in gone.finding_codes()
    assert annotations_of(lab, "c1") == BEFORE
    assert annotations_of(lab, "c2") == {AFFINITY: "remote"}
    for cluster in lab.names:
        wait_for(
            partial(exported, lab, cluster),
            lambda found: found is None,
            what=f"clustermesh-apiserver of {cluster} no longer exports the Service",
        )
    assert run(lab).changed == 0
    lab.api("c2").patch(f"{SERVICES}/web", {"metadata": {"annotations": {AFFINITY: None}}})


def test_a_cluster_without_the_service_gets_one_for_its_clients_and_loses_it_with_the_item(lab: MeshLab) -> None:
    missing = run(lab, item("solo"))
    assert "CM-GS-01" in missing.finding_codes()
    assert (row(missing, "solo")["phase"], row(missing, "solo")["exportedClusters"]) == ("Degraded", ["c1"])

    wanted = item("solo", createMissingServices=True)
    done = run(lab, wanted)
    assert done.rc == 0, done.output
    entry = row(done, "solo")
    assert (entry["phase"], entry["exportedClusters"]) == ("Exported", ["c1"])
    assert [(r["clusterName"], r["usable"], r["remoteReadyEndpoints"], r["stub"]) for r in entry["consumers"]] == [("c2", True, 2, True)]
    stub = lab.api("c2").get(f"{SERVICES}/solo") or {}
    assert "selector" not in stub["spec"]
    assert [(port["name"], port["protocol"], port["port"]) for port in stub["spec"]["ports"]] == [("http", "TCP", 80), ("dns", "UDP", 53)]
    assert run(lab, wanted).changed == 0, "what the API server adds to a Service is no change"
    wait_for(lambda: exported(lab, "c1", "solo"), what="clustermesh-apiserver of c1 exports the Service")
    assert exported(lab, "c2", "solo") is None, "a stub has nothing to export"
    wait_for(lambda: lab.kvstoremesh_status("c2")["c1"].get("num-shared-services", 0), equals(1), what="kvstoremesh of c2 has it")

    assert run(lab).rc == 0
    assert lab.api("c2").get(f"{SERVICES}/solo") is None
    assert annotations_of(lab, "c1", "solo") == {}


def test_a_wrong_spec_leaves_what_an_earlier_one_made_and_stops_no_other_item(lab: MeshLab) -> None:
    assert run(lab, item(affinity="Local")).rc == 0
    before = annotations_of(lab, "c1")
    odd = run(lab, item(globalAnnotations={"admin": "true"}))
    finding = next(finding for finding in odd.result["findings"] if finding["code"] == "CM-ITEM-01")
    assert "globalAnnotations.admin: is not the key of an annotation that an item may set" in finding["evidence"]
    done = run(lab, item(selector={"namespace": SHOP, "labelSelector": {}}), item("solo", targetClusters=["c1"]))
    assert done.rc != 0
    assert (row(done)["phase"], conditions(row(done))["Accepted"]) == ("Error", "False")
    finding = next(finding for finding in done.result["findings"] if finding["code"] == "CM-ITEM-01")
    assert "would match every Service" in finding["evidence"]
    assert annotations_of(lab, "c1") == before
    assert annotations_of(lab, "c1", "solo")[GLOBAL] == "true"
    assert run(lab).rc == 0
    assert annotations_of(lab, "c1") == BEFORE


def test_an_annotation_of_another_reader_is_written_only_where_the_inventory_permits_it(lab: MeshLab) -> None:
    asked, team = item(globalAnnotations={"example.com/team": "Shop"}), "example.com/team"
    refused = run(lab, asked)
    assert (refused.rc != 0, refused.finding_codes().count("CM-GS-23"), refused.result["plan"]["steps"]) == (True, 1, [])
    assert annotations_of(lab, "c1") == BEFORE
    assert run(lab, asked, permitted=(team,)).rc == 0
    assert [annotations_of(lab, name)[team] for name in lab.names] == ["Shop", "Shop"]
    assert not run(lab, asked, permitted=(team,)).changed
    withdrawn = run(lab, asked)
    assert (withdrawn.rc != 0, withdrawn.changed) == (True, False)
    assert run(lab, permitted=(team,)).rc == 0
    assert annotations_of(lab, "c1") == BEFORE


def test_with_mcs_api_exports_are_made_and_what_cilium_says_of_them_is_reported(lab: MeshLab) -> None:
    wanted = item(backend="MCS", affinity="Local")
    refused = run(lab, wanted)
    assert refused.finding_codes().count("CM-GS-18") == 2
    assert refused.result["plan"]["steps"] == []
    for cluster in lab.names:
        for crd in mcs_crds():
            lab.api(cluster).create(crd)
        config = {"data": {"clustermesh-enable-mcs-api": "true"}}
        lab.api(cluster).patch(f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config", config)
        wait_for(partial(served, lab, cluster), what=f"{cluster} serves {MCS}")
    done = run(lab, wanted)
    assert row(done)["phase"] == "Exporting", done.output
    path = f"/apis/{MCS}/v1alpha1/namespaces/{SHOP}/serviceexports/web"
    for cluster in lab.names:
        export = lab.api(cluster).get(path) or {}
        assert export["spec"] == {"exportedAnnotations": {AFFINITY: "local"}}
        assert GLOBAL not in annotations_of(lab, cluster)
    assert run(lab, wanted).changed == 0

    say(lab, "c1", path, Valid="True", Conflict="False")
    say(lab, "c2", path, Valid="True", Conflict="True")
    conflicting = run(lab, wanted)
    assert (row(conflicting)["phase"], row(conflicting)["exportedClusters"]) == ("Degraded", ["c1", "c2"])
    assert (conditions(row(conflicting))["Conflict"], conditions(row(conflicting))["Exported"]) == ("True", "True")
    finding = next(entry for entry in conflicting.result["findings"] if entry["code"] == "CM-GS-19")
    assert (finding["cluster"], finding["evidence"]) == ("c2", "Conflicting port name")

    assert run(lab, item(affinity="Local")).rc == 0
    assert lab.api("c1").get(path) is None and annotations_of(lab, "c1")[GLOBAL] == "true"
    assert run(lab).rc == 0
    assert annotations_of(lab, "c1") == BEFORE


def served(lab: MeshLab, cluster: str) -> bool:
    groups = {group["name"] for group in (lab.api(cluster).get("/apis") or {})["groups"]}
    try:
        return MCS in groups and lab.api(cluster).get(f"/apis/{MCS}/v1alpha1/serviceexports") is not None
    except ApiError as error:  # the API server needs a moment for the storage of a new kind, and says so
        assert "429" in str(error), error
        return False


def say(lab: MeshLab, cluster: str, path: str, **said: str) -> None:
    """As cilium-operator writes the conditions of a ServiceExport."""
    messages = {("Conflict", "True"): ("PortConflict", "Conflicting port name"), ("Conflict", "False"): ("NoConflicts", "no conflicts")}
    found = []
    for kind, status in said.items():
        reason, message = messages.get((kind, status), (kind, f"ServiceExport is {kind.lower()}"))
        found.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )
    lab.api(cluster).patch(f"{path}/status", {"status": {"conditions": found}})
