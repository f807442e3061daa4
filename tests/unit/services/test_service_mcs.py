# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Backend MCS: ServiceExports where Cilium reads them, and its word on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, TrafficFacts
from tests.testing.facts_builders import cluster_facts
from tests.testing.traffic_builders import NAMESPACE, SERVED, object_facts, scene, service, slice_facts, traffic
from tests.unit.services.service_worlds import (
    AFFINITY,
    GLOBAL,
    KEY,
    codes,
    conditions,
    findings_of,
    one,
    run,
    spec,
    status_of,
    steps_of,
)

MCS = {*SERVED, "multicluster.x-k8s.io/v1alpha1"}
ON = {"clustermesh-enable-mcs-api": "true"}
ASKED = spec(backend="MCS")
VALID = [{"type": "Valid", "status": "True", "reason": "Valid"}, {"type": "Ready", "status": "True", "reason": "Ready"}]


def place(host: str, *, served: set[str] | None = None, **fields: Any) -> TrafficFacts:
    return traffic(host, services=[service()], slices=(slice_facts(),), served=MCS if served is None else served, **fields)


def world(*traffics: TrafficFacts, config: dict[str, str] | None = None, version: str = "1.19.5") -> Scene:
    found = traffics or (place("c1"), place("c2"))
    facts = {entry.host: cluster_facts(entry.host, version=version, config=ON if config is None else config) for entry in found}
    return scene(*found, facts=facts)


def said(before: Scene, host: str, conditions: list[dict[str, str]], imported: list[str] | None = None) -> Scene:
    """What Cilium's controllers write."""
    export = replace(before.traffic[host].exports[KEY], status={"conditions": conditions})
    clusters = [{"cluster": name} for name in imported or ()]
    found = imports(clusters) if imported is not None else {}
    return replace(before, traffic={**before.traffic, host: replace(before.traffic[host], exports={KEY: export}, imports=found)})


def imports(clusters: list[dict[str, str]]) -> dict[tuple[str, str], ObjectFacts]:
    found = object_facts("ServiceImport", "serviceimports", "nginx", namespace=NAMESPACE, api="/apis/multicluster.x-k8s.io/v1alpha1")
    return {KEY: replace(found, status={"clusters": clusters})}


def test_every_target_gets_a_service_export_and_no_annotation() -> None:
    after = run(world(), ASKED)
    for host in ("c1", "c2"):
        assert after.traffic[host].exports[KEY].path == f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/serviceexports/nginx"
        assert GLOBAL not in after.traffic[host].services[KEY].annotations
    assert codes(world(), ASKED) == []
    assert not run(after).traffic["c1"].exports


def test_affinity_goes_to_the_derived_services_and_is_taken_back() -> None:
    after = run(world(), spec(backend="MCS", affinity="Local"))
    assert after.traffic["c1"].exports[KEY].spec == {"exportedAnnotations": {AFFINITY: "local"}}
    assert run(after, ASKED).traffic["c1"].exports[KEY].spec == {}


def test_from_annotations_to_mcs_and_back() -> None:
    after = run(run(world(), spec()), ASKED)
    assert after.traffic["c1"].services[KEY].annotations == {}
    after = run(after, spec())
    assert after.traffic["c1"].services[KEY].annotations[GLOBAL] == "true"
    assert not after.traffic["c1"].exports


def test_an_item_with_another_name_and_mcs_gives_the_annotations_back() -> None:
    after = run(run(world(), spec("old", affinity="Local")), spec("new", backend="MCS"))
    assert after.traffic["c1"].services[KEY].annotations == {}
    assert KEY in after.traffic["c1"].exports
    after = run(after, spec("third"))
    assert after.traffic["c1"].services[KEY].annotations[GLOBAL] == "true"
    assert not after.traffic["c1"].exports


def test_a_foreign_export_is_enough_and_is_left() -> None:
    found = object_facts("ServiceExport", "serviceexports", "nginx", namespace=NAMESPACE, api="/apis/multicluster.x-k8s.io/v1alpha1")
    before = world(place("c1", exports={KEY: found}), place("c2"))
    assert [step.cluster for step in steps_of(before, ASKED)] == ["c2"]
    assert run(run(before, ASKED)).traffic["c1"].exports == {KEY: found}


def test_an_item_with_another_name_takes_the_export_over() -> None:
    after = run(world(), ASKED)
    assert all(step.verb != "delete" for step in steps_of(after, spec("new", backend="MCS")))
    after = run(after, spec("new", backend="MCS"))
    assert "globalServices/new" in after.traffic["c1"].exports[KEY].annotations.values()


@pytest.mark.parametrize(
    ("version", "config", "served", "words"),
    [
        ("1.19.5", {}, None, "clustermesh.mcsapi.enabled"),
        ("1.18.11", {}, None, "clustermesh.enableMCSAPISupport"),
        ("1.18.11", ON, set(SERVED), "not served"),
        ("1.16.19", ON, None, "1.16.19 does not export"),
    ],
)
def test_what_is_missing_is_named_with_the_helm_value(version: str, config: dict[str, str], served: set[str] | None, words: str) -> None:
    before = world(place("c1", served=served), place("c2", served=served), config=config, version=version)
    assert steps_of(before, ASKED) == []
    found = [entry for entry in findings_of(before, ASKED) if entry.code == "CM-GS-18"]
    assert [entry.cluster for entry in found] == ["c1", "c2"]
    assert words in found[0].summary
    status = status_of(before, ASKED)
    assert (status["phase"], status["exportedClusters"]) == ("Error", [])


@pytest.mark.parametrize(
    ("in_c2", "words"),
    [
        ({"ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}, "port http is 80/TCP in c1, 8080/TCP in c2"),
        ({"ports": [{"name": "http", "port": 80, "protocol": "UDP"}]}, "port http is 80/TCP in c1, 80/UDP in c2"),
        ({"clusterIP": "None"}, "kind is not headless in c1, headless in c2"),
        ({"sessionAffinity": "ClientIP"}, "sessionAffinity is None in c1, ClientIP in c2"),
        ({"ports": [{"name": "other", "port": 8080, "protocol": "TCP"}]}, ""),  # a port more, which clients of c1 get
        ({"sessionAffinity": "None"}, ""),
    ],
)
def test_exports_that_will_be_in_conflict_are_said_before_they_are_written(in_c2: dict[str, Any], words: str) -> None:
    c2 = traffic("c2", services=[service(**in_c2)], slices=(slice_facts(),), served=MCS)
    found = [entry for entry in findings_of(world(place("c1"), c2), ASKED) if entry.code == "CM-GS-24"]
    assert [entry.summary.partition("decides: ")[2] for entry in found] == ([words] if words else [])
    assert all((entry.cluster == "c1" and entry.peer == "c2") or "c2" in entry.others for entry in found)
    assert not [entry for entry in findings_of(world(place("c1"), c2), spec()) if entry.code == "CM-GS-24"]


def test_an_export_stays_when_mcs_is_switched_off() -> None:
    after = run(world(), ASKED)
    off = replace(after, facts={host: cluster_facts(host, version="1.19.5") for host in after.facts})
    assert steps_of(off, ASKED) == []


def test_without_the_right_to_read_exports_none_is_written() -> None:
    unread = (Unread(what="serviceexports", message="may not list serviceexports", remedy="Grant list."),)
    before = world(place("c1", unread=unread), place("c2"))
    assert {step.cluster for step in steps_of(before, ASKED)} == {"c2"}
    assert "may not read" in one(findings_of(before, ASKED), "CM-GS-18").summary


def test_until_cilium_speaks_the_export_is_under_way() -> None:
    status = status_of(world(), ASKED)
    assert status["phase"] == "Exporting"
    assert conditions(status)["Exported"] == ("False", "ExportPending")


def test_what_cilium_says_is_reported() -> None:
    after = run(world(), ASKED)
    after = said(said(after, "c1", VALID, imported=["c1", "c2"]), "c2", VALID)
    status = status_of(after, ASKED)
    assert (status["phase"], status["exportedClusters"]) == ("Exported", ["c1", "c2"])
    assert conditions(status)["Conflict"] == ("False", "NoConflicts")
    assert status["exports"][0]["importedClusters"] == ["c1", "c2"]
    assert codes(after, ASKED) == []


def test_a_conflict_is_a_condition_and_a_finding_with_its_message() -> None:
    conflict = {"type": "Conflict", "status": "True", "reason": "PortConflict", "message": "Conflicting port name\non http"}
    after = said(said(run(world(), ASKED), "c1", VALID), "c2", [*VALID, conflict])
    found = one(findings_of(after, ASKED), "CM-GS-19")
    assert (found.cluster, found.evidence) == ("c2", "Conflicting port name?on http")
    status = status_of(after, ASKED)
    assert status["phase"] == "Degraded"
    assert conditions(status)["Conflict"] == ("True", "ExportConflict")
    assert conditions(status)["Degraded"] == ("True", "ExportConflict")
    assert "PortConflict" in next(entry["message"] for entry in status["conditions"] if entry["type"] == "Conflict")


def test_an_export_that_is_not_valid_is_not_exported() -> None:
    invalid = [{"type": "Valid", "status": "False", "reason": "NoService", "message": "Service doesn't exist"}]
    after = said(said(run(world(), ASKED), "c1", VALID), "c2", invalid)
    status = status_of(after, ASKED)
    assert (status["phase"], status["exportedClusters"]) == ("Degraded", ["c1"])
    assert "NoService" in one(findings_of(after, ASKED), "CM-GS-19").summary
