# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Taking a mesh over and giving it back: no value changes, nothing is left behind, whatever breaks off is completed by the next run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.adopt.hand_back import plan_hand_back
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.adopt.plan import plan_adopt
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.diff import diff_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.adopted_values import AdoptionStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApplySecret, PlanOptions
from tests.testing.facts_builders import HELM_ANNOTATIONS, HELM_LABELS, NOW, mesh_of
from tests.testing.ledger import Ledger
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples

MESH = mesh_of("c1", "c2")
OURS = MESH.binding.manager
KVSTOREMESH, AGENTS, USERS = "cilium-kvstoremesh", "cilium-clustermesh", "clustermesh-remote-users"
HELM = {"labels": HELM_LABELS, "annotations": HELM_ANNOTATIONS}
ARGO = {"annotations": {"argocd.argoproj.io/tracking-id": "cilium:/Secret:kube-system/x"}}


def config(name: str) -> str:
    return f"endpoints:\n- https://{name}.mesh.cilium.io:2379\ntrusted-ca-file: /x\n"


def made_by(
    manager: str = "cilium", *, peers: Mapping[str, tuple[str, ...]] | None = None, marks: Mapping[str, Mapping[str, str]] | None = None
) -> Ledger:
    """c1 and c2 meshed by a tool."""
    ledger = Ledger("c1", "c2")
    metadata = HELM if marks is None else marks
    for host, names in (peers or {"c1": ("c2",), "c2": ("c1",)}).items():
        for name in (AGENTS, KVSTOREMESH):
            ledger.create(host, name, {peer: config(peer) for peer in names}, manager, **metadata)
        users = "users:\n" + "".join(f"- name: remote-{peer}\n  role: remote\n" for peer in names)
        ledger.create(host, USERS, {"users.yaml": users}, manager, **metadata)
    return ledger


def adopt(ledger: Ledger, *, handed_over: bool = True) -> int:
    """Number of steps that were needed."""
    plan = plan_adopt(MESH, ledger.facts(), handed_over=handed_over).plan
    assert not plan.blocked
    ledger.run(plan)
    return len(plan.steps)


def hand_back(ledger: Ledger) -> int:
    plan = plan_hand_back(MESH, ledger.facts())
    ledger.run(plan)
    return len(plan.steps)


def problems(ledger: Ledger, *, handed_over: bool = False) -> dict[str, Finding]:
    return {f.code: f for f in plan_adopt(MESH, ledger.facts(), handed_over=handed_over).plan.problems}


def test_what_helm_holds_is_prepared_and_the_value_to_set_is_named() -> None:
    ledger = made_by()
    before = ledger.contents()
    adoption = plan_adopt(MESH, ledger.facts())
    assert set(adoption.stages.values()) == {AdoptionStage.HELD}
    finding = problems(ledger)["CM-OWN-06"]
    assert not finding.blocks and "--set clustermesh.config.enabled=false" in finding.fix
    assert adopt(ledger, handed_over=False) == 6
    assert all(annotations["helm.sh/resource-policy"] == "keep" for _, annotations in ledger.marks().values())
    assert adopt(ledger, handed_over=False) == 0
    assert ledger.contents() == before
    assert ledger.holders("c1", KVSTOREMESH, "c2") == {("cilium", "Update")}


def test_what_helm_released_becomes_ours_and_no_value_changes() -> None:
    ledger = made_by()
    before = ledger.contents()
    adopt(ledger, handed_over=False)
    assert adopt(ledger) > 0
    assert adopt(ledger) == 0 and adopt(ledger, handed_over=False) == 0
    assert ledger.contents() == before
    for name in (KVSTOREMESH, AGENTS):
        assert ledger.holders("c1", name, "c2") == {(OURS, "Apply")}
    for labels, notes in ledger.marks().values():
        assert "app.kubernetes.io/managed-by" not in labels and "meta.helm.sh/release-name" not in notes
    assert ledger.facts()["c1"].users.annotations[f"users.cilium-mesh.edge-portal.eu/{MESH.binding.owner}"] == "remote-c2"


def test_it_goes_back_as_it_was_with_the_marks_and_without_a_trace_of_ours() -> None:
    ledger = made_by()
    before, marks, managers = ledger.contents(), ledger.marks(), ledger.managers()
    adopt(ledger, handed_over=False)
    adopt(ledger)
    assert hand_back(ledger) == 6
    assert (ledger.contents(), ledger.marks(), ledger.managers()) == (before, marks, managers)
    assert ledger.holders("c1", KVSTOREMESH, "c2") == {("cilium", "Update")}
    assert hand_back(ledger) == 0


def test_a_run_that_breaks_off_anywhere_is_completed_by_the_next() -> None:
    whole = made_by()
    steps = len(plan_adopt(MESH, whole.facts(), handed_over=True).plan.steps)
    for cut in range(steps):
        ledger = made_by()
        before, marks = ledger.contents(), ledger.marks()
        ledger.run(plan_adopt(MESH, ledger.facts(), handed_over=True).plan, steps=cut)
        adopt(ledger)
        assert adopt(ledger) == 0
        assert ledger.holders("c1", KVSTOREMESH, "c2") == {(OURS, "Apply")}, cut
        assert ledger.facts()["c1"].kvstoremesh.annotations[f"peers.cilium-mesh.edge-portal.eu/{MESH.binding.owner}"] == '{"c2":"c2"}'
        hand_back(ledger)
        assert (ledger.contents(), ledger.marks()) == (before, marks), cut


def test_a_change_between_planning_and_writing_stops_it() -> None:
    ledger = made_by()
    plan = plan_adopt(MESH, ledger.facts(), handed_over=True).plan
    ledger.patch("c1", AGENTS, {"data": {"c2": "c29tZXRoaW5nIGVsc2U="}}, "kubectl-edit")
    with pytest.raises(WriteConflict):
        ledger.run(plan)
    assert ledger.contents()[("c1", AGENTS)]["c2"] == "c29tZXRoaW5nIGVsc2U="


def test_connect_keeps_what_is_remembered_and_changes_values_with_a_plan() -> None:
    ledger = made_by()
    adopt(ledger, handed_over=False)
    adopt(ledger)
    facts = ledger.facts()
    plan = plan_links(MESH, facts, PlanOptions(), NOW)
    assert not plan.blocked
    written = {(step.cluster, step.action.name): step.action for step in plan.steps if isinstance(step.action, ApplySecret)}
    assert set(written) == {(host, name) for host in MESH.clusters for name in (AGENTS, KVSTOREMESH)}
    record = f"adopted.cilium-mesh.edge-portal.eu/{MESH.binding.owner}"
    for (host, name), action in written.items():
        secret = facts[host].kvstoremesh if name == KVSTOREMESH else facts[host].clustermesh
        assert action.annotations[record] == secret.annotations[record] != ""
        assert action.annotations["helm.sh/resource-policy"] == "keep"


def test_peers_that_the_mesh_does_not_know_stay_with_their_owner() -> None:
    ledger = made_by(peers={"c1": ("c2", "c9"), "c2": ("c1",)})
    found = problems(ledger, handed_over=True)["CM-OWN-09"]
    assert found.cluster == "c1" and '"c9"' in found.summary
    adopt(ledger)
    assert ledger.holders("c1", KVSTOREMESH, "c9") == {("cilium", "Update")}
    assert ledger.holders("c1", KVSTOREMESH, "c2") == {(OURS, "Apply")}


def test_keys_of_another_binding_are_not_adopted() -> None:
    other = Binding(name="other", cluster_refs=()).manager
    ledger = made_by(other, marks={})
    assert adopt(ledger) == 2  # only the users of the links are noted
    assert ledger.holders("c1", KVSTOREMESH, "c2") == {(other, "Update")}


def test_a_mesh_without_marks_is_adopted_at_once() -> None:
    ledger = made_by("cilium-cli", marks={})
    before = ledger.contents()
    assert adopt(ledger, handed_over=False) > 0
    assert ledger.contents() == before
    assert ledger.holders("c2", AGENTS, "c1") == {(OURS, "Apply")}
    hand_back(ledger)
    assert ledger.holders("c2", AGENTS, "c1") == {("cilium-cli", "Update")}
    assert ledger.contents() == before


def test_argo_must_not_prune_and_its_tracking_comes_back() -> None:
    ledger = made_by("argocd-controller", marks=ARGO)
    marks = ledger.marks()
    finding = problems(ledger)["CM-OWN-06"]
    assert "Argo CD" in finding.summary and "valuesObject" in finding.fix
    adopt(ledger, handed_over=False)
    assert all(a["argocd.argoproj.io/sync-options"] == "Prune=false" for _, a in ledger.marks().values())
    adopt(ledger)
    assert not any("argocd.argoproj.io/tracking-id" in a for _, a in ledger.marks().values())
    hand_back(ledger)
    assert ledger.marks() == marks


def test_a_foreign_annotation_is_not_overwritten() -> None:
    ledger = made_by(
        "argocd-controller", marks={"annotations": {**ARGO["annotations"], "argocd.argoproj.io/sync-options": "Validate=false"}}
    )
    finding = problems(ledger)["CM-OWN-08"]
    assert finding.blocks and "Validate=false,Prune=false" in finding.fix


def test_hand_back_prints_the_peers_as_values() -> None:
    ledger = made_by()
    findings = {f.cluster: f for f in plan_hand_back(MESH, ledger.facts()).problems}
    assert findings["c1"].code == "CM-OWN-11"
    rows = "--set clustermesh.config.clusters.c2.address=c2.mesh.cilium.io --set clustermesh.config.clusters.c2.port=2379"
    helm, cli, elsewhere = findings["c1"].fix.splitlines()
    assert helm.startswith("helm upgrade ") and helm.endswith(rows)
    assert cli.startswith("or, with the cilium CLI: cilium upgrade ") and cli.endswith(rows)
    assert 'clusters: {"c2":{"address":"c2.mesh.cilium.io","port":2379}}' in elsewhere


def test_the_diff_shows_who_owns_what_and_no_value() -> None:
    ledger = made_by()
    adopt(ledger, handed_over=False)
    facts = ledger.facts()
    entries = diff_plan(plan_adopt(MESH, facts, handed_over=True).plan, facts)
    ledger_step = next(entry for entry in entries if "managedFields" in entry["after"] and "secrets" in entry["after_header"])
    assert "cilium (Update)" in ledger_step["before"] and "data.c2" in ledger_step["before"]
    assert f"{OURS} (Apply)" in ledger_step["after"] and "data.c2" in ledger_step["after"]
    marks = next(entry for entry in entries if "managed-by" in entry["before"] and "managedFields" not in entry["before"])
    assert "Helm" in marks["before"] and "Helm" not in marks["after"]


TOUCHED = {
    "Secret kube-system/cilium-clustermesh",
    "Secret kube-system/cilium-kvstoremesh",
    "ConfigMap kube-system/clustermesh-remote-users",
}
"""All objects that adopting and handing back write here. They know host aliases of workloads and the lease registry too, and no policy."""


@examples(30)
@given(marks=st.sampled_from(({}, HELM, ARGO)), steps=st.lists(st.sampled_from(("prepare", "adopt", "hand back")), min_size=1, max_size=4))
def test_adopting_and_handing_back_touch_no_policy_and_delete_nothing(marks: dict[str, dict[str, str]], steps: list[str]) -> None:
    ledger = made_by(marks=marks)
    for what in steps:
        facts = ledger.facts()
        plan = plan_hand_back(MESH, facts) if what == "hand back" else plan_adopt(MESH, facts, handed_over=what == "adopt").plan
        assert {step.object for step in plan.steps} <= TOUCHED and "delete" not in {step.verb for step in plan.steps}
        ledger.run(plan)


KEYS = st.sampled_from(("c2", "c2.etcd-client.crt", "c2.etcd-client.key", "c9", "note"))


@examples(40)
@given(
    keys=st.dictionaries(KEYS, st.sampled_from(("cilium", "helm", "kubectl-edit", "argocd-controller")), max_size=5),
    marks=st.sampled_from(({}, HELM, ARGO)),
    prepared=st.booleans(),
)
def test_whatever_stands_there_adopting_and_handing_back_changes_no_value_and_no_mark(
    keys: dict[str, str], marks: dict[str, dict[str, str]], prepared: bool
) -> None:
    ledger = made_by(marks=marks)
    for key, manager in keys.items():
        ledger.patch("c1", KVSTOREMESH, {"data": {key: "c29tZXRoaW5n"}}, manager)
    before, seen = ledger.contents(), ledger.marks()
    if prepared:
        adopt(ledger, handed_over=False)
    adopt(ledger)
    assert adopt(ledger) == 0
    held = {key for key in ledger.contents()[("c1", KVSTOREMESH)] if (OURS, "Apply") in ledger.holders("c1", KVSTOREMESH, key)}
    assert held == {key for key in {*keys, "c2"} if key.partition(".")[0] == "c2"}
    hand_back(ledger)
    assert hand_back(ledger) == 0
    assert (ledger.contents(), ledger.marks()) == (before, seen)
    assert OURS not in ledger.managers()
