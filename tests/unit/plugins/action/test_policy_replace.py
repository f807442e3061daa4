# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The action that deletes policies of a provider: it judges them under the lock, and check mode foresees what the intents write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import LockHeld, ServerRefused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import mesh_action
from tests.testing.facts_builders import cluster_facts, failure
from tests.testing.free_lock import FreeLock
from tests.testing.texts import mentions
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, object_facts, pod, traffic
from tests.unit.plugins.action.test_items import World

HOSTS: Final = ("c1", "c2")
SIDES: Final = {side: {"namespace": NAMESPACE, "name": name} for side, name in (("source", "web"), ("destination", "db"))}
DENY: Final = {"name": "deny", "action": "Deny", **SIDES}
ISOLATE: Final = {"name": "isolate", "action": "Isolate", "destination": SIDES["destination"]}
OLD: Final = {"name": "old", "namespace": NAMESPACE, "intent": "deny"}


def old_policy(name: str = "old", writer: str = "kcp-cilium-mesh-provider") -> ObjectFacts:
    """What the provider writes for a Deny: it isolates its destination too."""
    spec = {
        "endpointSelector": {"matchLabels": {"k8s:app": "db"}},
        "ingressDeny": [{"fromEndpoints": [{"matchLabels": {"k8s:app": "web"}}]}],
    }
    resource = "ciliumnetworkpolicies"
    return object_facts("CiliumNetworkPolicy", resource, name, namespace=NAMESPACE, api="/apis/cilium.io/v2", spec=spec, writers=(writer,))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    pods = tuple(pod(f"{name}-0", app=name) for name in ("web", "db", "api"))
    by_host = {host: traffic(host, pods=pods, policies=(old_policy(), old_policy("team", "kubectl"))) for host in HOSTS}
    made = World({host: cluster_facts(host, version="1.20.0") for host in HOSTS}, by_host)
    made.stand_in(monkeypatch)
    return made


def mesh(*intents: Mapping[str, Any]) -> dict[str, Any]:
    binding = {"name": "edge-mesh-eu", "clusterRefs": [{"name": host} for host in HOSTS]}
    return {"binding": binding, "connectivityIntents": [dict(entry) for entry in intents]}


def replaced(world: World, *intents: Mapping[str, Any], policies: Any = (OLD,), **options: Any) -> Any:
    return world.run("mesh_policy_replace", mesh=mesh(*intents), policies=list(policies), **options)


def names(world: World) -> dict[str, set[str]]:
    """Policies of other authors."""
    return {host: {entry.name for entry in facts.policies if entry.writers} for host, facts in world.traffic.items()}


KEPT: Final = {host: {"old", "team"} for host in HOSTS}


def test_check_mode_promises_what_the_run_does_once_the_intents_are_written(world: World) -> None:
    file = (DENY, ISOLATE)
    promised = replaced(world, *file, check=True, diff=True)
    assert (promised["changed"], "failed" in promised, names(world)) == (True, False, KEPT), promised
    assert [(step["verb"], step["cluster"], step["object"]) for step in promised["plan"]["steps"]] == [
        ("delete", host, f"CiliumNetworkPolicy {NAMESPACE}/old") for host in HOSTS
    ]
    assert [("ingressDeny" in entry["before"], entry["after"]) for entry in promised["diff"]] == [(True, "")] * 2
    assert "failed" not in world.run("mesh_items", mesh=mesh(*file))
    done = replaced(world, *file)
    assert (done["changed"], done["plan"]["steps"]) == (True, promised["plan"]["steps"]), done
    assert names(world) == {host: {"team"} for host in HOSTS}
    again = replaced(world, *file)
    assert (again["changed"], "failed" in again, again["plan"]["steps"]) == (False, False, [])


@pytest.mark.parametrize("check", [True, False])
def test_a_deny_of_the_provider_that_isolates_is_not_deleted_for_a_deny_that_does_not(world: World, check: bool) -> None:
    world.traffic = {host: replace(facts, policies=(old_policy(),)) for host, facts in world.traffic.items()}
    if not check:
        world.run("mesh_items", mesh=mesh(DENY))
    refused = replaced(world, DENY, check=check)
    assert refused["failed"] and mentions(refused["msg"], "CM-INT-34", "no policy was deleted"), refused
    assert (refused["changed"], refused["plan"]["steps"], names(world)) == (False, [], {host: {"old"} for host in HOSTS})
    found = refused["findings"][0]
    assert (found["code"], found["cluster"], found["item"]) == ("CM-INT-34", "c1", "connectivityIntents/deny")
    assert mentions(found["summary"], "isolates", "db") and mentions(found["evidence"], "->") and mentions(found["fix"], "Isolate")
    assert any("CM-INT-34" in line for line in world.output)


def test_what_is_isolated_by_a_policy_of_another_author_stays_isolated(world: World) -> None:
    world.run("mesh_items", mesh=mesh(DENY))
    assert replaced(world, DENY)["changed"]
    world.traffic = {host: replace(facts, policies=(*facts.policies, old_policy())) for host, facts in world.traffic.items()}
    refused = replaced(world, DENY, policies=[OLD, {**OLD, "name": "team"}], managers=["kcp-cilium-mesh-provider", "kubectl"])
    assert refused["failed"] and names(world) == KEPT, "named together they do not stand in for each other"


def test_an_intent_that_is_not_written_or_waits_replaces_nothing(world: World) -> None:
    not_written = replaced(world, DENY, ISOLATE)
    assert not_written["failed"] and mentions(not_written["findings"][0]["summary"], "deny", "Applying")
    world.run("mesh_items", mesh=mesh(DENY, ISOLATE))
    waiting = replaced(world, DENY, ISOLATE, binding_status={"phase": "Error"})
    assert waiting["failed"] and mentions(waiting["findings"][0]["summary"], "Pending") and names(world) == KEPT


def test_a_member_that_is_silent_keeps_the_policies_of_all(world: World) -> None:
    world.run("mesh_items", mesh=mesh(DENY, ISOLATE))
    world.failures["c2"] = failure("c2")
    refused = replaced(world, DENY, ISOLATE, binding_status={"phase": "Connected", "links": []})
    assert refused["failed"] and names(world) == KEPT
    assert any(mentions(entry["summary"], "nothing is known of c2") for entry in refused["findings"])


def test_what_the_server_refuses_to_delete_fails_the_run(world: World) -> None:
    world.run("mesh_items", mesh=mesh(DENY, ISOLATE))
    world.refusing["c2", ""] = ServerRefused("The object has been modified.", remedy="Run again.", cluster="c2")
    done = replaced(world, DENY, ISOLATE)
    assert done["failed"] and done["changed"] and mentions(done["msg"], "1 of 2 steps done", "c2")
    assert names(world) == {"c1": {"team"}, "c2": {"old", "team"}}


def test_after_a_deletion_that_failed_no_policy_that_denies_is_deleted_anywhere(world: World) -> None:
    """The policy that stays may allow what the other one denies."""
    spec = {"endpointSelector": {"matchLabels": {"k8s:app": "db"}}, "ingress": [{"fromEntities": ["all"]}]}
    allow = replace(old_policy("allow"), spec=spec)
    world.traffic = {host: replace(facts, policies=(*facts.policies, allow)) for host, facts in world.traffic.items()}
    world.run("mesh_items", mesh=mesh(DENY, ISOLATE))
    world.refusing["c2", ""] = ServerRefused("The object has been modified.", remedy="Run again.", cluster="c2")
    done = replaced(world, DENY, ISOLATE, policies=[OLD, {**OLD, "name": "allow"}])
    assert done["failed"] and [step["object"].rpartition("/")[2] for step in done["plan"]["steps"]] == ["allow", "allow", "old", "old"]
    assert names(world) == {"c1": {"old", "team"}, "c2": {"old", "team", "allow"}}


def test_check_mode_knows_that_an_intent_will_not_be_in_force_everywhere(world: World) -> None:
    world.traffic["c1"] = replace(world.traffic["c1"], namespaces={**world.traffic["c1"].namespaces, "shop": namespace_facts("shop")})
    elsewhere = {**DENY, "destination": {"namespace": "shop", "name": "db"}}
    promised = replaced(world, elsewhere, ISOLATE, check=True)
    world.run("mesh_items", mesh=mesh(elsewhere, ISOLATE))
    refused = replaced(world, elsewhere, ISOLATE)
    assert refused["findings"] == promised["findings"] and mentions(refused["findings"][0]["summary"], "Degraded") and names(world) == KEPT


def test_while_another_run_is_at_work_nothing_is_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Held(FreeLock):
        def take(self, *_: Any, **__: Any) -> bool:
            raise LockHeld("Another run is at work on mesh edge-mesh-eu.", cluster="c1")

    world.run("mesh_items", mesh=mesh(DENY, ISOLATE))
    monkeypatch.setattr(mesh_action, "real_ports", lambda show: replace(world.ports(show), lock=Held))
    refused = replaced(world, DENY, ISOLATE)
    assert refused["failed"] and refused["msg"].startswith("CM-LOCK-01") and names(world) == KEPT


def test_policies_that_another_run_replaced_meanwhile_are_judged_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(FreeLock):
        def take(self, *args: Any, **fields: Any) -> bool:
            first = len(world.reads) == reads + 1
            if first:  # the intent that isolates is gone by the time that the lock is taken
                world.traffic = {host: replace(facts, policies=(old_policy(),)) for host, facts in world.traffic.items()}
            return super().take(*args, **fields) and not first

    world.run("mesh_items", mesh=mesh(DENY, ISOLATE))
    reads = len(world.reads)
    monkeypatch.setattr(mesh_action, "real_ports", lambda show: replace(world.ports(show), lock=Late))
    refused = replaced(world, DENY, ISOLATE)
    assert refused["failed"] and names(world) == {host: {"old"} for host in HOSTS}


def test_policies_without_intents_are_refused_before_a_cluster_is_contacted(world: World) -> None:
    for file, policies, message in (
        ({"binding": mesh()["binding"]}, [OLD], "connectivityIntents"),
        (mesh(ISOLATE), [OLD], "deny is not in connectivityIntents"),
        (mesh(DENY), [{**OLD, "clusters": ["c9"]}], "policies[0].clusters"),
    ):
        refused = world.run("mesh_policy_replace", mesh=file, policies=policies)
        assert refused["failed"] and message in refused["msg"] and world.reads == []
