# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who did what to our keys, and when, as far as managedFields tell it; a tool that comes back by itself is not fought."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.drift import Drift, drifts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, WriterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.gitops import ARGO, FLUX, FLUX_HELM
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.managed_fields import Owner as Holder
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.managed_fields import add_owner, annotation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import HELM_ANNOTATIONS, HELM_LABELS, NOW, cluster_facts, context_of, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

MESH = mesh_of("c1", "c2")
OURS = MESH.binding.manager
KVSTOREMESH = "Secret cilium-kvstoremesh"
WRITTEN, LATER, EARLIER = "2026-09-01T12:00:00Z", "2026-09-02T12:00:00Z", "2026-08-01T12:00:00Z"


def connected() -> dict[str, ClusterFacts]:
    clusters = SimulatedClusters({host: cluster_facts(host, version="1.20.0") for host in ("c1", "c2")}, NOW)
    clusters.run(plan_links(MESH, clusters.facts(), PlanOptions(), NOW))
    return clusters.facts()


def writer(manager: str, time: str, *, release: bool = False) -> WriterFacts:
    entry = add_owner([], Holder(manager, "Update"), [annotation("meta.helm.sh/release-name")], time=time)[0] if release else {}
    return WriterFacts(manager=manager, operation="Update", time=time, entry=json.dumps(entry) if entry else "")


def without_keys(
    facts: ClusterFacts, *keys: str, writers: Mapping[str, tuple[WriterFacts, ...]] | None = None, **secret: Any
) -> ClusterFacts:
    kept = {key: value for key, value in facts.kvstoremesh.keys.items() if key not in keys}
    ours = {KVSTOREMESH: (WriterFacts(manager=OURS, operation="Apply", time=WRITTEN),)}
    found = {title: (*ours.get(title, ()), *rows) for title, rows in {**dict.fromkeys(ours, ()), **(writers or {})}.items()}
    return replace(facts, kvstoremesh=replace(facts.kvstoremesh, keys=kept, **secret), writers=found)


def only(facts: ClusterFacts) -> Drift:
    (found,) = drifts(MESH.binding, facts, ["c2"])
    return found


def helm_marks(facts: ClusterFacts) -> dict[str, Any]:
    return {"labels": HELM_LABELS, "annotations": {**facts.kvstoremesh.annotations, **HELM_ANNOTATIONS}}


def of_code(c1: ClusterFacts, c2: ClusterFacts, code: str) -> list[Finding]:
    return [finding for finding in run_checks(context_of(c1, c2, mesh=MESH)) if finding.code == code]


def test_a_mesh_as_it_was_written_has_no_drift() -> None:
    facts = connected()
    assert all(drifts(MESH.binding, cluster, MESH.clusters) == () for cluster in facts.values())


def test_a_key_that_is_gone_is_reported_and_written_again() -> None:
    facts = connected()
    facts["c1"] = without_keys(facts["c1"], "c2")
    assert only(facts["c1"]).gone == ("c2",) and only(facts["c1"]).peers == ("c2",)
    (finding,) = of_code(facts["c1"], facts["c2"], "CM-DRIFT-01")
    assert not finding.blocks and "no later writer" in finding.evidence and WRITTEN in finding.evidence
    assert [step.object for step in plan_links(MESH, facts, PlanOptions(), NOW).steps] == ["Secret kube-system/cilium-kvstoremesh"]


def test_a_file_that_the_configuration_names_and_that_is_gone_counts_and_one_that_was_never_there_does_not() -> None:
    facts = connected()
    assert only(without_keys(facts["c1"], "c2.etcd-client.key")).gone == ("c2.etcd-client.key",)
    secret = facts["c1"].kvstoremesh
    shared = replace(secret.keys["c2"], config="endpoints:\n- https://c2.mesh.cilium.io:2379\nkey-file: /common-etcd-client.key\n")
    files = {key: value for key, value in secret.keys.items() if "etcd-client" not in key}
    assert drifts(MESH.binding, replace(facts["c1"], kvstoremesh=replace(secret, keys={**files, "c2": shared})), ["c2"]) == ()


def test_a_peer_that_the_mesh_no_longer_links_is_no_drift() -> None:
    facts = connected()
    assert drifts(MESH.binding, without_keys(facts["c1"], "c2"), []) == ()


def test_a_helm_upgrade_is_named_with_its_time_also_when_only_another_object_shows_it() -> None:
    facts = connected()
    trail = {
        KVSTOREMESH: (writer("cilium", EARLIER, release=True),),
        "Secret clustermesh-apiserver-server-cert": (writer("cilium", LATER),),
        "DaemonSet cilium": (writer("kube-controller-manager", LATER),),
    }
    c1 = without_keys(facts["c1"], "c2", writers=trail, **helm_marks(facts["c1"]))
    (seen,) = only(c1).writers
    assert (seen.manager, seen.time, seen.object, seen.helm) == ("cilium", LATER, "Secret clustermesh-apiserver-server-cert", True)
    (finding,) = of_code(c1, facts["c2"], "CM-DRIFT-01")
    assert f"a Helm upgrade took them out at {LATER}" in finding.summary and "adopt" in finding.fix
    kept = replace(c1, kvstoremesh=replace(c1.kvstoremesh, annotations={**c1.kvstoremesh.annotations, "helm.sh/resource-policy": "keep"}))
    (finding,) = of_code(kept, facts["c2"], "CM-DRIFT-01")
    assert "took them out" not in finding.summary and f"the last Helm upgrade was at {LATER}" in finding.summary


def test_who_wrote_before_us_did_not_take_it_out() -> None:
    facts = connected()
    c1 = without_keys(facts["c1"], "c2", writers={KVSTOREMESH: (writer("kubectl-edit", EARLIER),)})
    assert only(c1).writers == ()
    late = without_keys(facts["c1"], "c2", writers={KVSTOREMESH: (writer("kubectl-edit", LATER),)})
    assert [str(w) for w in only(late).writers] == [f"kubectl-edit (Update) wrote {KVSTOREMESH} at {LATER}"]


def test_users_that_another_writer_removed_are_reported() -> None:
    facts = connected()
    users = replace(facts["c1"].users, users={}, text="users:\n")
    gone = drifts(MESH.binding, replace(facts["c1"], users=users), ["c2"])
    assert [(drift.object, drift.gone) for drift in gone] == [("ConfigMap clustermesh-remote-users", ("remote-c2",))]


@pytest.mark.parametrize(
    ("manager", "tool", "place"),
    [
        ("argocd-controller", ARGO, "ignoreDifferences"),
        ("argocd-application-controller", ARGO, "RespectIgnoreDifferences"),
        ("kustomize-controller", FLUX, "spec.ignore"),
        ("helm-controller", FLUX_HELM, "spec.driftDetection"),
    ],
)
def test_a_tool_that_undoes_us_is_not_fought(manager: str, tool: object, place: str) -> None:
    facts = connected()
    c1 = without_keys(facts["c1"], "c2", writers={KVSTOREMESH: (writer(manager, LATER),)})
    assert only(c1).tool is tool
    (finding,) = of_code(c1, facts["c2"], "CM-DRIFT-03")
    assert finding.blocks and place in finding.fix and "cilium-kvstoremesh" in finding.fix and LATER in finding.evidence
    assert of_code(c1, facts["c2"], "CM-DRIFT-01") == []
    accepted = context_of(c1, facts["c2"], mesh=MESH, accept=["CM-DRIFT-03"])
    assert [f.blocks for f in run_checks(accepted) if f.code == "CM-DRIFT-03"] == [False]


def test_a_tool_that_holds_the_right_value_undid_nothing() -> None:
    facts = connected()
    secret = facts["c1"].kvstoremesh
    for digest, expected in ((secret.keys["c2"].digest, 0), ("0" * 64, 1)):
        entry = replace(secret.keys["c2"], managers=("argocd-controller",), digest=digest)
        writers = {KVSTOREMESH: (WriterFacts(manager=OURS, operation="Apply", time=WRITTEN), writer("argocd-controller", LATER))}
        c1 = replace(facts["c1"], kvstoremesh=replace(secret, keys={**secret.keys, "c2": entry}), writers=writers)
        assert len(of_code(c1, facts["c2"], "CM-DRIFT-03")) == expected
        assert len(of_code(c1, facts["c2"], "CM-DRIFT-02")) == expected


def test_an_annotation_that_cannot_be_parsed_claims_nothing() -> None:
    facts = connected()
    spoiled = dict.fromkeys(facts["c1"].kvstoremesh.annotations, "{")
    assert drifts(MESH.binding, without_keys(facts["c1"], "c2", annotations=spoiled), ["c2"]) == ()
