# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters become members of Karmada, stay members, and leave, over API servers in memory."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import (
    NAME_LABEL,
    NAMESPACE_LABEL,
    WORKSPACE_LABEL,
    Tenant,
    karmada_namespace,
    member_name,
    stands_for,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.names import (
    CLUSTERS,
    EARLIER_ANNOTATION,
    EXPIRES_ANNOTATION,
    SECRETS,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Interrupted, Outcome
from tests.testing.members_world import NOW, PLANES, TOKEN, WORKS, World

TENANT = Tenant("shop", "default")
C1, C2 = member_name(TENANT, "c1"), member_name(TENANT, "c2")
NAMESPACE = karmada_namespace(TENANT)
FLEET: dict[str, Any] = {
    "clusters": [{"name": "c1", "provider": "otc", "region": "eu-de", "zone": "a", "labels": {"tier": "edge"}}, {"name": "c2"}]
}
ONE: dict[str, Any] = {"clusters": [{"name": "c1"}]}


def cluster(world: World, name: str = C1) -> dict[str, Any]:
    return world.karmada.objects[f"{CLUSTERS}/{name}"]


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings]


def phases(outcome: Outcome) -> dict[str, str]:
    return {row["name"]: row["phase"] for row in outcome.extra["clusters"]}


def joined(fleet: dict[str, Any] = ONE, **more: Any) -> World:
    world = World("c1", "c2")
    assert world.run(fleet, **more).changed
    return world


def bring(world: World, host: str = "c1") -> str:
    """Let Karmada bring the tenant's namespace and a workload; return the path of the namespace."""
    path, labels = f"/api/v1/namespaces/{NAMESPACE}", {**TENANT.labels, "karmada.io/managed": "true"}
    server = world.servers[host]
    server.put(path, {"metadata": {"name": NAMESPACE, "labels": labels}})
    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web"
    server.put(deployment, {"metadata": {"name": "web", "labels": {"karmada.io/managed": "true"}}})
    return path


def leave(world: World, *names: str, **options: Any) -> Outcome:
    return world.run({"clusters": [{"name": name} for name in names or ("c1",)]}, state="absent", **options)


def test_two_clusters_join_and_a_second_run_changes_nothing() -> None:
    world = World("c1", "c2")
    first = world.run(FLEET)
    assert (first.changed, first.unmet, phases(first)) == (True, "", {"c1": "Ready", "c2": "Ready"})
    spec, labels = cluster(world)["spec"], cluster(world)["metadata"]["labels"]
    uid = world.servers["c1"].objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"]
    assert (spec["syncMode"], spec["id"], spec["apiEndpoint"]) == ("Push", uid, "https://c1.example.com:6443")
    assert (spec["provider"], spec["region"], spec["zones"]) == ("otc", "eu-de", ["a"])
    assert labels == {"tier": "edge", **TENANT.labels_of("c1")}
    for name in (C1, f"{C1}-impersonator"):
        assert world.karmada.objects[f"{SECRETS}/{name}"]["metadata"]["ownerReferences"][0]["uid"] == cluster(world)["metadata"]["uid"]
    before = world.objects()
    second = world.run(FLEET)
    assert (second.changed, (second.plan or {})["steps"], second.findings) == (False, [], ())
    assert world.objects() == before


def test_check_mode_plans_what_a_run_then_writes_and_writes_nothing() -> None:
    world = World("c1", "c2")
    before = world.objects()
    planned = world.run(FLEET, check=True)
    assert planned.changed and world.objects() == before
    done = world.run(FLEET)
    assert planned.plan == done.plan


def test_the_joiner_neither_reads_nor_patches_a_secret() -> None:
    world = joined(FLEET)
    world.now = NOW + timedelta(days=350)
    assert world.run(FLEET).changed
    verbs = {request.partition(" ")[0] for request in world.karmada.requests if "/secrets" in request}
    assert verbs == {"create", "delete"}


def test_no_token_reaches_a_plan_a_diff_or_a_result() -> None:
    world = World("c1", "c2")
    outcome = world.run(FLEET)
    world.now = NOW + timedelta(days=350)
    renewed = world.run(FLEET)
    assert TOKEN in json.dumps(world.objects()) or any("token" in o.get("data", {}) for o in world.karmada.objects.values())
    for made in (outcome, renewed):
        said = json.dumps(made.to_result()) + repr(made) + repr(asdict(made))
        assert TOKEN not in said
        assert made.diff


def test_tokens_are_renewed_before_their_end_and_the_cluster_always_names_a_secret_that_is_there() -> None:
    world = joined()
    ends = []
    step = world.step

    def checked_step() -> None:
        name = cluster(world)["spec"]["secretRef"]["name"]
        assert f"{SECRETS}/{name}" in world.karmada.objects
        step()

    world.step = checked_step  # type: ignore[method-assign]  # the step of the world is what a test puts there
    for days in (330, 340, 700):
        world.now = NOW + timedelta(days=days)
        outcome = world.run(ONE)
        ends.append((outcome.changed, cluster(world)["spec"]["secretRef"]["name"]))
    assert ends == [(False, C1), (True, f"{C1}.2"), (True, C1)]
    assert {key.rpartition("/")[2] for key in world.karmada.objects if key.startswith(SECRETS)} == {
        C1,
        f"{C1}.2",
        f"{C1}-impersonator",
        f"{C1}-impersonator.2",
    }


def test_after_a_renewal_the_user_learns_until_when_karmada_may_use_the_earlier_tokens() -> None:
    world = joined()
    earlier = cluster(world)["metadata"]["annotations"][EXPIRES_ANNOTATION]
    world.now = NOW + timedelta(days=340)
    world.run(ONE)
    assert cluster(world)["metadata"]["annotations"][EARLIER_ANNOTATION] == earlier
    assert codes(world.run(ONE)) == ["CM-MEMBER-13"]
    world.now = NOW + timedelta(days=366)
    assert "CM-MEMBER-13" not in codes(world.run(ONE))


def test_short_tokens_are_renewed_in_the_last_third_of_their_life_and_reported() -> None:
    world = World("c1", "c2")
    world.servers["c1"].longest = timedelta(hours=24)
    assert world.run(ONE).changed
    world.now = NOW + timedelta(hours=15)
    outcome = world.run(ONE)
    assert (outcome.changed, codes(outcome)) == (False, ["CM-MEMBER-11"])
    world.now = NOW + timedelta(hours=17)
    assert world.run(ONE).changed


@pytest.mark.parametrize("lost", ["karmada-impersonator", f"karmada-{C1}"])
def test_an_account_that_was_deleted_comes_back_with_new_tokens(lost: str) -> None:
    world = joined()
    world.servers["c1"].delete(f"/api/v1/namespaces/karmada-cluster/serviceaccounts/{lost}")
    assert world.run(ONE).changed
    assert cluster(world)["spec"]["secretRef"]["name"] == f"{C1}.2"
    assert not world.run(ONE).changed


def test_a_new_ca_of_a_cluster_reaches_karmada() -> None:
    world = joined()
    server = world.servers["c1"]
    server.endpoint = server.endpoint._replace(authority="another one")
    assert world.run(ONE).changed
    assert not world.run(ONE).changed


def test_changed_fields_and_labels_are_written_and_labels_that_others_set_stay() -> None:
    world = joined({"clusters": [{"name": "c1", "region": "eu-de", "labels": {"tier": "edge", "gpu": "yes"}}]})
    cluster(world)["metadata"]["labels"]["other"] = "of-an-administrator"
    outcome = world.run({"clusters": [{"name": "c1", "region": "eu-nl", "labels": {"tier": "core"}}]})
    assert outcome.changed and cluster(world)["spec"]["region"] == "eu-nl"
    assert cluster(world)["metadata"]["labels"] == {"tier": "core", "other": "of-an-administrator", **TENANT.labels_of("c1")}


@pytest.mark.parametrize("request_number", range(1, 40, 2))
def test_a_run_that_ends_at_any_place_is_taken_up_by_the_next_one(request_number: int) -> None:
    world, count = World("c1", "c2"), 0
    step = world.step

    def end() -> None:
        nonlocal count
        count += 1
        if count == request_number:
            raise KeyboardInterrupt
        step()

    world.step = end  # type: ignore[method-assign]  # the step of the world is what a test puts there
    with suppress(KeyboardInterrupt, Interrupted):
        world.run(ONE)
    world.step = step  # type: ignore[method-assign]  # the step of the world is what a test puts there
    world.run(ONE)
    outcome = world.run(ONE)
    assert (outcome.changed, phases(outcome)) == (False, {"c1": "Ready"})
    assert cluster(world)["metadata"]["annotations"][EXPIRES_ANNOTATION]


# --- refusals ---


def test_a_cluster_that_is_a_member_under_another_name_is_refused_and_no_other_tenant_is_named() -> None:
    world = World("c1", "c2")
    other = {"workspace": "bank", "clusters": [{"name": "vault", "host": "c1"}]}
    assert world.run(other).changed
    before = world.objects()
    outcome = world.run(ONE)
    assert (outcome.changed, codes(outcome), phases(outcome)) == (False, ["CM-MEMBER-01"], {"c1": "Error"})
    assert outcome.unmet and world.objects() == before
    assert "bank" not in json.dumps(outcome.to_result()) and "vault" not in json.dumps(outcome.to_result())


def test_a_refused_cluster_keeps_no_other_one_from_joining() -> None:
    world = World("c1", "c2")
    world.karmada.put(f"{CLUSTERS}/{C1}", {"metadata": {"name": C1}, "spec": {}})
    outcome = world.run(FLEET)
    assert (codes(outcome), phases(outcome)) == (["CM-MEMBER-02"], {"c1": "Error", "c2": "Ready"})
    assert cluster(world)["spec"] == {} and (outcome.plan or {})["notCarriedOut"] == ["clusters/c1"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"authority": ""}, "no CA"),
        ({"url": "http://c1.example.com"}, "not https"),
        ({"server_name": "other"}, "tls-server-name"),
        ({"host": "127.0.0.1"}, "loopback"),
        ({"host": "::1"}, "loopback"),
        ({"host": "::ffff:127.0.0.1"}, "loopback"),
        ({"host": "169.254.169.254"}, "link-local"),
        ({"host": "localhost"}, "loopback"),
    ],
)
def test_an_api_server_that_karmada_could_not_use_safely_is_refused(change: dict[str, str], word: str) -> None:
    world = World("c1", "c2")
    server = world.servers["c1"]
    server.endpoint = server.endpoint._replace(**change)
    outcome = world.run(ONE)
    assert codes(outcome) == ["CM-MEMBER-04"] and word in outcome.findings[0].evidence
    assert not outcome.changed


def test_another_cluster_at_the_address_of_a_member_is_refused() -> None:
    world = joined()
    world.servers["c1"].put("/api/v1/namespaces/kube-system", {"metadata": {"name": "kube-system"}})
    outcome = world.run(ONE)
    assert (outcome.changed, codes(outcome)) == (False, ["CM-MEMBER-03"])


def test_a_namespace_that_is_still_being_deleted_is_awaited_by_the_next_run() -> None:
    world = World("c1", "c2")
    terminating = {"name": "karmada-cluster", "deletionTimestamp": "2026-11-24T08:00:00Z"}
    world.servers["c1"].put("/api/v1/namespaces/karmada-cluster", {"metadata": terminating})
    assert codes(world.run(ONE)) == ["CM-MEMBER-05"]


def test_a_silent_cluster_is_reported_and_the_others_join() -> None:
    world = World("c1", "c2")
    world.servers["c1"].dead = True
    outcome = world.run(FLEET)
    assert (codes(outcome), phases(outcome)) == (["CM-API-01"], {"c1": "Error", "c2": "Ready"})


def test_an_api_server_without_clusters_is_not_taken_for_karmada() -> None:
    world = World("c1")
    world.karmada.list_if_served = lambda *_, **__: None  # type: ignore[method-assign]  # an API server that does not serve the kind
    with pytest.raises(Interrupted, match="not Karmada's"):
        world.run(ONE)


# --- leaving ---


def test_a_cluster_leaves_and_nothing_of_it_stays() -> None:
    world = World("c1", "c2")
    empty = world.objects()
    world.run(FLEET)
    bring(world)
    outcome = leave(world, "c1", "c2")
    assert (outcome.changed, outcome.unmet, outcome.extra["clusters"]) == (True, "", [])
    assert world.objects() == empty
    assert not leave(world, "c1", "c2").changed


ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/karmada-controller-manager:karmada-{C1}"
ACCOUNT = f"/api/v1/namespaces/karmada-cluster/serviceaccounts/karmada-{C1}"
TENANTS = f"/api/v1/namespaces/{NAMESPACE}"
STONE = f"/api/v1/namespaces/karmada-cluster/configmaps/tombstone-{C1}"


def hold(world: World, path: str, *finalizers: str, host: str = "c1") -> None:
    world.servers[host].objects[path]["metadata"]["finalizers"] = [*finalizers]


@pytest.mark.parametrize(
    ("path", "name", "follows"),
    [
        (ROLE, f"ClusterRoleBinding karmada-controller-manager:karmada-{C1}", "accounts or rights of Karmada are still in the cluster"),
        ("/api/v1/namespaces/karmada-cluster", "Namespace karmada-cluster", "it cannot count as clean"),
        (TENANTS, f"Namespace {NAMESPACE}", "it cannot count as clean"),
    ],
)
def test_a_run_that_deleted_what_a_finalizer_holds_fails_until_it_is_gone(path: str, name: str, follows: str) -> None:
    world = World("c1", "c2")
    empty = world.objects()
    world.run(ONE)
    bring(world)
    hold(world, path, "example.com/local")
    for number in range(2):
        kept = leave(world, wait_timeout=5)
        (found,) = kept.findings
        assert (found.code, found.cluster, found.item, phases(kept)) == ("CM-MEMBER-14", "c1", "clusters/c1", {"c1": "Deleting"})
        assert found.summary == f"c1 has not left within 5 s: {name} of c1 is still there, so {follows}"
        assert found.evidence == f'{name}: finalizers "example.com/local"' and path in found.fix
        assert kept.unmet.startswith("Of 1 cluster, 1 did not leave: c1")
        assert (kept.changed, [step["verb"] for step in (kept.plan or {})["steps"]] == []) == (number == 0, number == 1)
        assert f"{CLUSTERS}/{C1}" not in world.karmada.objects
    world.servers["c1"].release(path)
    assert (leave(world).unmet, world.objects()) == ("", empty)
    assert not leave(world).changed


def test_an_account_that_is_held_keeps_its_namespace_and_both_are_named() -> None:
    world = joined()
    hold(world, ACCOUNT, "example.com/local")
    (found,) = leave(world, wait_timeout=5).findings
    assert f"ServiceAccount karmada-cluster/karmada-{C1} and Namespace karmada-cluster of c1 are still there" in found.summary
    assert "Namespace karmada-cluster: it is being deleted, and has no finalizer" in found.evidence
    world.servers["c1"].release(ACCOUNT)
    assert not leave(world).unmet


def test_a_finalizer_that_goes_while_the_run_waits_is_no_failure() -> None:
    world = World("c1", "c2")
    empty = world.objects()
    world.run(ONE)
    hold(world, ROLE, "example.com/slow")
    steps = 0
    step = world.step

    def slow() -> None:
        nonlocal steps
        step()
        if "deletionTimestamp" in world.servers["c1"].objects.get(ROLE, {"metadata": {}})["metadata"]:
            steps += 1
            if steps == 6:
                world.servers["c1"].objects.pop(ROLE)

    world.step = slow  # type: ignore[method-assign]  # the step of the world is what a test puts there
    outcome = leave(world)
    assert (outcome.unmet, outcome.findings, world.objects()) == ("", (), empty)


def test_the_conditions_of_a_namespace_say_what_holds_it() -> None:
    world = joined()
    path = bring(world)
    hold(world, path, "example.com/local")
    said = "Some resources are remaining: configmaps. has 1 resource instances"
    world.servers["c1"].objects[path]["status"] = {
        "conditions": [
            {"type": "NamespaceContentRemaining", "status": "True", "message": said},
            {"type": "NamespaceFinalizersRemaining", "status": "False", "message": "All content-preserving finalizers finished"},
        ]
    }
    (found,) = leave(world, wait_timeout=3).findings
    assert found.evidence == f'Namespace {NAMESPACE}: finalizers "example.com/local"; "{said}"'


def test_without_waiting_a_run_ends_at_once_and_its_cluster_is_reported_until_nothing_is_left() -> None:
    """As the operator runs it, which keeps the KubernetesCluster while a row of it is there."""
    world = World("c1", "c2")
    empty = world.objects()
    world.run(ONE)
    hold(world, ROLE, "example.com/local")
    for number in range(4):
        held = leave(world, wait=False)
        assert (held.findings, phases(held)) == ((), {"c1": "Deleting"}), number
    dry = leave(world, wait=False, check=True)
    assert ((dry.plan or {})["steps"], phases(dry)) == ([], {"c1": "Deleting"}), "no run is made while there is nothing to write"
    world.servers["c1"].release(ROLE)
    while (outcome := leave(world, wait=False)).changed:
        continue
    assert (outcome.unmet, outcome.extra["clusters"], world.objects()) == ("", [], empty)


def test_a_member_that_is_held_keeps_no_other_one_and_both_share_one_time() -> None:
    world = joined(FLEET)
    hold(world, ROLE, "example.com/local")
    outcome = leave(world, "c1", "c2", wait_timeout=20)
    assert (codes(outcome), phases(outcome)) == (["CM-MEMBER-14"], {"c1": "Deleting"})
    assert not [key for key in world.servers["c2"].objects if "karmada" in key] and f"{CLUSTERS}/{C2}" not in world.karmada.objects
    assert world.clock < 40, "20 s are the time of the whole run"


def test_a_cluster_that_falls_silent_before_it_was_cleaned_is_not_reported_as_left() -> None:
    world = World("c1", "c2")
    empty = world.objects()
    world.run(ONE)
    step = world.step

    def die() -> None:
        step()
        world.servers["c1"].dead = world.servers["c1"].dead or f"{CLUSTERS}/{C1}" not in world.karmada.objects

    world.step = die  # type: ignore[method-assign]  # the step of the world is what a test puts there
    first = leave(world, deadline=600)
    world.step = step  # type: ignore[method-assign]  # the step of the world is what a test puts there
    for outcome in (first, leave(world, deadline=600)):
        assert (codes(outcome), phases(outcome)) == (["CM-MEMBER-09"], {"c1": "Deleting"}) and outcome.unmet
        assert "although its Cluster is gone" in outcome.findings[0].summary
    assert ROLE in world.servers["c1"].objects and STONE in world.karmada.objects
    world.now = NOW + timedelta(seconds=601)
    gone = leave(world, deadline=600)
    assert (codes(gone), gone.unmet, gone.changed) == (["CM-MEMBER-12"], "", False)
    world.servers["c1"].dead = False
    assert (leave(world).unmet, world.objects()) == ("", empty)


@pytest.mark.parametrize("request_number", range(1, 80, 3))
def test_no_run_says_that_a_cluster_left_while_karmada_has_rights_in_it(request_number: int) -> None:
    """Wherever a run ends, and although the cluster does not answer to the next one."""
    world = World("c1", "c2")
    empty = world.objects()
    world.run(ONE)
    bring(world)
    step, count = world.step, 0

    def end() -> None:
        nonlocal count
        count += 1
        if count == request_number:
            raise KeyboardInterrupt
        step()

    world.step = end  # type: ignore[method-assign]  # the step of the world is what a test puts there
    with suppress(KeyboardInterrupt, Interrupted):
        leave(world)
    world.step = step  # type: ignore[method-assign]  # the step of the world is what a test puts there
    world.servers["c1"].dead = True
    silent = leave(world, wait_timeout=3)
    assert silent.unmet or not [key for key in world.servers["c1"].objects if "karmada" in key]
    world.servers["c1"].dead = False
    assert not leave(world).unmet
    assert set(world.objects()) == set(empty)


def test_what_local_users_put_into_the_namespace_stays_with_it() -> None:
    world = joined()
    path = bring(world)
    server = world.servers["c1"]
    server.put(f"{path}/configmaps/notes", {"metadata": {"name": "notes"}})
    outcome = leave(world)
    assert codes(outcome) == ["CM-MEMBER-10"] and outcome.unmet == ""
    assert f"{path}/configmaps/notes" in server.objects
    assert not [key for key in server.objects if "karmada" in key]
    assert f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web" not in server.objects


def test_a_namespace_of_that_name_without_the_tenants_labels_stays() -> None:
    world = joined()
    path = f"/api/v1/namespaces/{NAMESPACE}"
    world.servers["c1"].put(path, {"metadata": {"name": NAMESPACE}})
    leave(world)
    assert path in world.servers["c1"].objects


def test_accounts_of_another_karmada_keep_what_they_need() -> None:
    world = joined()
    server, accounts = world.servers["c1"], "/api/v1/namespaces/karmada-cluster/serviceaccounts"
    server.put(f"{accounts}/karmada-other", {"metadata": {"name": "karmada-other"}})
    leave(world)
    assert f"{accounts}/karmada-impersonator" in server.objects and f"{accounts}/karmada-other" in server.objects
    assert f"{accounts}/karmada-{C1}" not in server.objects


def place(world: World, name: str, *, going: bool = False) -> None:
    """Place a Deployment in c1. ``going``: it is not wanted any more, and Karmada keeps its binding until it is out of every cluster."""
    path = f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/{name}-deployment"
    leaving = {"deletionTimestamp": "2026-11-24T08:00:00Z", "finalizers": ["karmada.io/binding-controller"]} if going else {}
    spec = {"resource": {"kind": "Deployment", "name": name}, "clusters": [{"name": C1}]}
    world.karmada.put(path, {"metadata": {"name": f"{name}-deployment", **leaving}, "spec": spec})


def test_a_cluster_with_workloads_does_not_leave() -> None:
    world = joined()
    place(world, "web")
    before = world.objects()
    outcome = leave(world)
    assert codes(outcome) == ["CM-MEMBER-06"] and "Deployment web" in outcome.findings[0].summary
    assert not outcome.changed and world.objects() == before


def test_a_workload_that_is_being_deleted_keeps_a_cluster_that_answers_and_no_dead_one() -> None:
    world = joined()
    place(world, "old", going=True)
    held = leave(world)
    assert codes(held) == ["CM-MEMBER-06"] and held.findings[0].summary.startswith("Deployment old would be deleted in c1")
    world.servers["c1"].dead = True
    silent = leave(world, deadline=600)
    assert (codes(silent), silent.changed) == (["CM-MEMBER-09"], True), "its time begins"
    world.now = NOW + timedelta(seconds=601)
    gone = leave(world, deadline=600)
    assert (codes(gone), gone.unmet, f"{CLUSTERS}/{C1}" in world.karmada.objects) == (["CM-MEMBER-12"], "", False)
    assert not leave(world, deadline=600).changed


def test_a_wanted_workload_keeps_also_a_cluster_that_is_given_up() -> None:
    world = joined()
    place(world, "old", going=True)
    place(world, "web")
    world.servers["c1"].dead = True
    for options in ({"deadline": 0}, {"abandon": ["c1"]}):
        kept = leave(world, **options)
        assert (codes(kept), kept.changed) == (["CM-MEMBER-06"], False)
        assert "Deployment web" in kept.findings[0].summary and "old" not in kept.findings[0].summary
    assert f"{CLUSTERS}/{C1}" in world.karmada.objects
    world.karmada.delete(f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/web-deployment")
    assert (codes(leave(world, abandon=["c1"])), f"{CLUSTERS}/{C1}" in world.karmada.objects) == (["CM-MEMBER-12"], False)


def test_a_dead_member_leaves_after_the_deadline_and_is_cleaned_when_it_is_back() -> None:
    world = World("c1", "c2")
    empty = world.objects()
    world.run(ONE)
    bring(world)
    world.servers["c1"].dead = True
    first = leave(world, deadline=600)
    assert (codes(first), phases(first)) == (["CM-MEMBER-09"], {"c1": "Deleting"}) and first.changed
    assert not leave(world, deadline=600).changed  # the time runs, and nothing is to be written
    world.now = NOW + timedelta(seconds=601)
    gone = leave(world, deadline=600)
    assert f"{CLUSTERS}/{C1}" not in world.karmada.objects and "CM-MEMBER-12" in codes(gone)
    world.servers["c1"].dead = False
    assert leave(world, deadline=600).unmet == ""
    assert world.objects() == empty


def test_one_cluster_leaves_while_another_one_that_is_dead_is_given_up() -> None:
    world = joined(FLEET)
    path = bring(world)
    world.servers["c2"].dead = True
    outcome = leave(world, "c1", "c2", abandon=["c2"], wait_timeout=9)
    assert (codes(outcome), outcome.unmet) == (["CM-MEMBER-12"], "")
    assert path not in world.servers["c1"].objects and not [name for name in world.karmada.objects if name.startswith(f"{CLUSTERS}/")]


def test_an_abandoned_member_leaves_at_once_although_karmada_waits_for_it() -> None:
    world = joined()
    world.servers["c1"].dead = True
    finalizers = ["karmada.io/execution-controller", "other/one"]
    work = {"metadata": {"name": "ns", "finalizers": finalizers}, "spec": {"preserveResourcesOnDeletion": True}}
    world.karmada.put(f"{WORKS.format(C1)}/ns", work)
    kept = leave(world, deadline=0, wait_timeout=3)  # not given up: Karmada waits for ever
    assert kept.unmet and "CM-MEMBER-14" in codes(kept)
    assert world.karmada.objects[f"{WORKS.format(C1)}/ns"]["metadata"]["finalizers"] == finalizers
    world.karmada.objects[f"{WORKS.format(C1)}/ns"]["metadata"]["finalizers"] = finalizers[:1]
    outcome = leave(world, abandon=["c1"], wait_timeout=9)
    assert f"{CLUSTERS}/{C1}" not in world.karmada.objects and codes(outcome) == ["CM-MEMBER-12"]


def test_a_member_that_is_back_may_join_again_and_its_tombstone_goes() -> None:
    world = joined()
    world.servers["c1"].dead = True
    leave(world, abandon=["c1"])
    stone = f"/api/v1/namespaces/karmada-cluster/configmaps/tombstone-{C1}"
    assert world.karmada.objects[stone]["data"]["id"]
    world.servers["c1"].dead = False
    assert phases(world.run(ONE)) == {"c1": "Ready"}
    assert stone not in world.karmada.objects and not world.run(ONE).changed


# --- the management plane ---

PLANNED: dict[str, Any] = {"managementPlane": "plane", "clusters": [{"name": "c1", "spec": {"region": "eu-de"}}]}


def ready(world: World, state: str = "True", reason: str = "Provisioned") -> None:
    world.plane.objects[f"{PLANES}/{C1}"]["status"] = {"conditions": [{"type": "Ready", "status": state, "reason": reason}]}


def test_a_cluster_of_which_something_is_left_in_time_has_a_finding_that_says_what_holds_it() -> None:
    world = joined()
    world.moves = False
    world.karmada.objects[f"{CLUSTERS}/{C1}"]["metadata"]["finalizers"] = ["karmada.io/cluster-controller"]
    kept = leave(world, wait_timeout=3)
    (found,) = kept.findings
    assert (found.code, found.item, phases(kept)) == ("CM-MEMBER-14", "clusters/c1", {"c1": "Deleting"})
    assert "has not left Karmada within 3 s" in found.summary and '"karmada.io/cluster-controller"; the cluster is Ready' in found.evidence
    assert leave(world, wait=False).findings == (), "where a run does not wait, no time is over"
    world.moves = True
    assert (codes(leave(world)), leave(world).unmet) == ([], "")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Error", "conditions": [{"type": "Ready", "status": "False", "reason": "QuotaExceeded"}]}, "QuotaExceeded"),
        ({"phase": "Provisioning", "conditions": [{"type": "Ready", "status": "False", "reason": "QuotaExceeded"}]}, "QuotaExceeded"),
        ({"phase": "Failed"}, "Failed"),
        ({"phase": "Error"}, "Error"),
        ({"conditions": [{"type": "Available", "status": "Unknown", "reason": "NodePoolFailed"}]}, "NodePoolFailed"),
    ],
)
def test_a_provider_that_has_given_up_is_an_error_with_its_reason(status: dict[str, Any], reason: str) -> None:
    world = World("c1")
    world.run(PLANNED, wait=False)
    world.plane.objects[f"{PLANES}/{C1}"]["status"] = status
    outcome = world.run(PLANNED, wait=False)
    assert (codes(outcome), phases(outcome)) == (["CM-MEMBER-07"], {"c1": "Error"})
    assert f'could not make c1: "{reason}"' in outcome.findings[0].summary
    (row,) = outcome.extra["clusters"]
    assert [entry["reason"] for entry in row["conditions"] if entry["type"] == "Provisioned"] == [reason]
    ready(world)
    assert phases(world.run(PLANNED)) == {"c1": "Ready"}


def test_the_management_plane_makes_a_cluster_before_it_joins_and_removes_it_last() -> None:
    world = World("c1")
    first = world.run(PLANNED, wait=False)
    assert (codes(first), phases(first)) == (["CM-MEMBER-07"], {"c1": "Pending"}) and first.changed
    made = world.plane.objects[f"{PLANES}/{C1}"]
    assert (made["metadata"]["labels"], made["spec"]) == (TENANT.labels_of("c1"), {"region": "eu-de"})
    assert not world.servers["c1"].requests
    ready(world, "False", "CreatingNodes")
    second = world.run(PLANNED, wait=False)
    assert (second.changed, phases(second)) == (False, {"c1": "Provisioning"}) and "CreatingNodes" in second.findings[0].evidence
    world.plane.objects[f"{PLANES}/{C1}"]["status"] = {"phase": "WaitingForRacks"}
    assert phases(world.run(PLANNED, wait=False)) == {"c1": "Provisioning"}, "a word that is not known is no error"
    ready(world)
    assert phases(world.run(PLANNED)) == {"c1": "Ready"}
    assert not world.run(PLANNED).changed
    world.run(PLANNED, state="absent")
    assert f"{PLANES}/{C1}" not in world.plane.objects and f"{CLUSTERS}/{C1}" not in world.karmada.objects


def test_a_run_that_waits_joins_as_soon_as_the_management_plane_is_ready() -> None:
    world = World("c1")
    step = world.step

    def made() -> None:
        if f"{PLANES}/{C1}" in world.plane.objects:
            ready(world)
        step()

    world.step = made  # type: ignore[method-assign]  # the step of the world is what a test puts there
    outcome = world.run(PLANNED)
    assert phases(outcome) == {"c1": "Ready"}
    assert {step["cluster"] for step in (outcome.plan or {})["steps"]} == {"plane", "c1", "karmada"}


def planned(world: World) -> World:
    world.run(PLANNED, wait=False)
    ready(world)
    assert phases(world.run(PLANNED)) == {"c1": "Ready"}
    return world


def test_the_management_plane_keeps_a_cluster_until_it_was_cleaned() -> None:
    world = planned(World("c1"))
    hold(world, ROLE, "example.com/local")
    held = world.run(PLANNED, state="absent", wait_timeout=5)
    assert codes(held) == ["CM-MEMBER-14"] and "deletionTimestamp" not in world.plane.objects[f"{PLANES}/{C1}"]["metadata"]
    assert STONE in world.karmada.objects
    world.servers["c1"].release(ROLE)
    gone = world.run(PLANNED, state="absent")
    assert (gone.unmet, f"{PLANES}/{C1}" in world.plane.objects, STONE in world.karmada.objects) == ("", False, False)


def test_what_comes_after_a_finalizer_is_announced_before_it_is_written() -> None:
    world = planned(World("c1"))
    hold(world, ROLE, "example.com/local")
    world.run(PLANNED, state="absent", wait_timeout=5)
    step, steps = world.step, 0

    def slow() -> None:
        nonlocal steps
        step()
        steps += 1
        if steps == 60:
            world.servers["c1"].objects.pop(ROLE)

    world.step = slow  # type: ignore[method-assign]  # the step of the world is what a test puts there
    gone = world.run(PLANNED, state="absent")
    assert [step["object"] for step in (gone.plan or {})["steps"]] == [f"ConfigMap karmada-cluster/tombstone-{C1}", f"Cluster default/{C1}"]
    assert (gone.unmet, gone.changed, f"{PLANES}/{C1}" in world.plane.objects) == ("", True, False)


def test_a_cluster_that_the_management_plane_still_has_has_not_left() -> None:
    world = planned(World("c1"))
    hold(world, f"{PLANES}/{C1}", "platform.edge-portal.eu/provider", host="plane")
    for _ in range(2):
        held = world.run(PLANNED, state="absent", wait_timeout=5)
        (found,) = held.findings
        assert (found.code, found.cluster, phases(held)) == ("CM-MEMBER-14", "plane", {"c1": "Deleting"}) and held.unmet
        assert f"its Cluster default/{C1} of the management plane was not gone within 5 s" in found.summary
        assert 'finalizers "platform.edge-portal.eu/provider"' in found.evidence
        world.servers["c1"].dead = True  # the provider has taken it away already
    assert not held.changed
    assert phases(world.run(PLANNED, state="absent", wait=False, check=True)) == {"c1": "Deleting"}
    assert not world.run(PLANNED, state="absent", abandon=["c1"]).unmet, "who gives the cluster up does not wait for its provider"
    world.plane.release(f"{PLANES}/{C1}")
    last = world.run(PLANNED, state="absent")
    assert (last.unmet, last.changed, last.findings) == ("", False, ())


def test_a_foreign_cluster_of_the_management_plane_is_never_overwritten() -> None:
    world = World("c1")
    foreign = world.plane.put(
        f"{PLANES}/{C1}", {"metadata": {"name": C1, "labels": {"edge-connect.eu/source-workspace": "bank"}}, "spec": {}}
    )
    for state in ("present", "absent"):
        world.run(PLANNED, state=state)
        assert world.plane.objects[f"{PLANES}/{C1}"] == foreign
    assert codes(world.run(PLANNED)) == ["CM-MEMBER-02"]


def test_a_cluster_with_the_labels_is_adopted_whatever_its_name() -> None:
    world = World("c1")
    world.plane.put(f"{PLANES}/grown", {"metadata": {"name": "grown", "labels": TENANT.labels_of("c1")}, "spec": {"region": "eu-de"}})
    outcome = world.run(PLANNED, wait=False)
    assert not outcome.changed and f"{PLANES}/{C1}" not in world.plane.objects


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("c1-shop", {WORKSPACE_LABEL: TENANT.workspace, NAME_LABEL: "c1"}),
        ("c1", {WORKSPACE_LABEL: TENANT.workspace}),
    ],
)
def test_a_cluster_that_another_program_made_for_it_is_used_as_it_is_and_no_second_one_is_made(name: str, labels: dict[str, str]) -> None:
    """A mesh finds the credentials of a KubernetesCluster by exactly one Cluster, so a second one would break a mesh that is there."""
    world = World("c1")
    west, status = {"region": "west"}, {"conditions": [{"type": "Ready", "status": "True"}]}
    present = world.plane.put(
        f"{PLANES}/{name}", {"metadata": {"name": name, "labels": labels}, "spec": {"region": "west"}, "status": status}
    )
    others = {WORKSPACE_LABEL: TENANT.workspace, NAME_LABEL: "c1", NAMESPACE_LABEL: "another"}
    world.plane.put(f"{PLANES}/neighbour", {"metadata": {"name": "neighbour", "labels": others}, "spec": {}})
    before = copy.deepcopy(world.plane.objects)
    assert stands_for(present, TENANT.namespace, "c1")
    joined = world.run(PLANNED)
    assert (phases(joined), codes(joined)) == ({"c1": "Ready"}, ["CM-MEMBER-15"])
    assert "for c1, and it is not as it is asked for: region." in joined.findings[0].summary and "west" not in joined.findings[0].evidence
    assert codes(world.run({**PLANNED, "clusters": [{"name": "c1", "spec": west}]})) == []
    left = world.run(PLANNED, state="absent")
    assert (left.unmet, world.plane.objects == before, world.plane.objects[f"{PLANES}/{name}"] == present) == ("", True, True)


# --- properties ---

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,2}", fullmatch=True)
VALUES = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?)?", fullmatch=True)
LABELS = st.dictionaries(st.from_regex(r"(example\.com/)?[a-z][-a-z0-9]{0,10}[a-z0-9]", fullmatch=True), VALUES, max_size=4)
ENTRIES: st.SearchStrategy[dict[str, Any]] = st.builds(dict, name=NAMES, provider=VALUES, region=VALUES, zone=VALUES, labels=LABELS)


@given(before=ENTRIES, after=ENTRIES, workspace=VALUES.filter(bool))
def test_whatever_is_written_is_found_as_it_should_be_and_leaves_without_a_trace(
    before: dict[str, Any], after: dict[str, Any], workspace: str
) -> None:
    world = World("c1")
    empty = world.objects()
    for entry in (before, {**after, "name": before["name"]}):
        fleet = {"workspace": workspace, "clusters": [{**entry, "host": "c1"}]}
        assert not world.run(fleet).unmet
        again = world.run(fleet)
        assert (again.changed, (again.plan or {})["steps"]) == (False, [])
        found = next(entry for key, entry in world.karmada.objects.items() if key.startswith(CLUSTERS))
        assert {key: value for key, value in found["metadata"]["labels"].items() if not key.startswith("edge-connect.eu/")} == entry[
            "labels"
        ]
    assert not world.run(fleet, state="absent").unmet
    assert world.objects() == empty
