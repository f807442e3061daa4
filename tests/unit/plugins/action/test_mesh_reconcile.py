# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run for a whole mesh: one observation, one lock and one plan for links and items, over clusters that are played on facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply import apply as engine_apply
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, ServerRefused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile import kinds as table
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import mesh_action
from tests.testing.facts_builders import cluster_facts, failure
from tests.testing.free_lock import FreeLock
from tests.testing.traffic_builders import traffic
from tests.unit.items import fake_kind
from tests.unit.plugins.action.conftest import World as LinksWorld
from tests.unit.plugins.action.test_items import World as ItemsWorld
from tests.unit.plugins.action.test_items import mesh, rows

HOSTS = ("c1", "c2")
REFUSED = {"name": "broken", "mistake": "ports are missing"}


@dataclass
class Whole:
    """Clusters with links and with traffic, and what the action did."""

    links: LinksWorld
    items: ItemsWorld
    observed: list[tuple[str, ...]] = field(default_factory=list)  # clusters of each observation
    locks: list[str] = field(default_factory=list)  # the action of each lock
    applied: list[str] = field(default_factory=list)  # "links" or "items", for each part of a plan that was written
    broken: Exception | None = None  # raised where items are written

    def observe(self, accesses: Iterable[ClusterAccess], **reads: Any) -> Observation:
        wanted = tuple(accesses)
        self.observed.append(tuple(access.host for access in wanted))
        return self.links.observe(wanted, **reads)

    def apply(self, plan: Plan, observation: Observation, **fields: Any) -> ApplyResult:
        of_items = all(step.item for step in plan.steps)
        self.applied.append("items" if of_items else "links")
        if not of_items:
            return self.links.apply_plan(plan, observation, **fields)
        if self.broken is not None:
            raise self.broken
        return engine_apply.apply_plan(plan, observation, **fields)

    def lock(self, terms: Any, **ports: Any) -> Any:
        self.locks.append(terms.action)
        return FreeLock(terms, **ports)

    def ports(self, show: Callable[[Shown], None]) -> Ports:
        read = self.items.read_all_traffic
        return replace(self.links.ports(show), observe=self.observe, apply=self.apply, lock=self.lock, read_traffic=read)

    def run(self, given: Mapping[str, Any], **more: Any) -> Any:
        return self.links.run("mesh_reconcile", mesh=given, **more)

    @property
    def output(self) -> list[str]:
        return self.links.output

    def made(self) -> tuple[Any, ...]:
        """What there is in the clusters of links and items."""
        return self.links.clusters.facts(), {host: self.items.policies(host) for host in HOSTS}


@pytest.fixture
def make_whole(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Whole]:
    def make(*facts: ClusterFacts) -> Whole:
        links = make_world(*facts)
        every = links.clusters.facts()
        items = ItemsWorld(every, {host: traffic(host) for host in every})
        whole = Whole(links, items)
        monkeypatch.setitem(table.ROWS, fake_kind.KIND, fake_kind.ROW)
        monkeypatch.setattr(engine_apply, "_write", items.write)
        monkeypatch.setattr(mesh_action, "real_ports", whole.ports)
        return whole

    return make


def test_links_and_items_are_one_plan_on_one_observation_under_one_lock(make_whole: Any) -> None:
    whole: Whole = make_whole()
    result = whole.run(mesh("a", "b"))
    assert "failed" not in result, result
    assert (whole.observed, whole.locks, whole.applied) == ([HOSTS], ["mesh (present)"], ["links", "items"])
    assert [bool(step.get("item")) for step in result["plan"]["steps"]] == [False] * 8 + [True] * 4
    assert (result["status"]["binding"]["phase"], rows(result)) == ("Connected", {"a": "Applied", "b": "Applied"})
    assert (result["changed"], len(result["plan"]["hash"]), result["requeue_seconds"]) == (True, 64, 300)
    assert sum(line.startswith("Plan:") for line in whole.output) == 1


def test_a_run_with_nothing_to_do_observes_once_and_changes_nothing(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.run(mesh("a"))
    whole.observed.clear()
    again = whole.run(mesh("a"))
    assert (again["changed"], again["plan"]["steps"], whole.observed) == (False, [], [HOSTS])
    assert (again["status"]["binding"]["phase"], rows(again)) == ("Connected", {"a": "Applied"})


def test_check_mode_promises_the_plan_by_its_hash_and_writes_nothing(make_whole: Any) -> None:
    whole: Whole = make_whole()
    before = whole.made()
    promised = whole.run(mesh("a"), check=True, diff=True)
    assert (promised["changed"], promised["status"]["binding"], whole.applied) == (True, None, [])
    assert whole.made() == before and promised["diff"]
    done = whole.run(mesh("a"), hash=promised["plan"]["hash"][:12])
    assert "failed" not in done and done["plan"] == promised["plan"]
    assert whole.locks[-1] == "apply (mesh (present))"


@pytest.mark.parametrize("other", [mesh("a", "b"), mesh()])
def test_an_approval_covers_links_and_items(make_whole: Any, other: Any) -> None:
    whole: Whole = make_whole()
    digest = whole.run(mesh("a"), check=True)["plan"]["hash"]
    before = whole.made()
    for check in (True, False):
        refused = whole.run(other, hash=digest, check=check)
        assert (refused["failed"], refused["changed"], whole.applied, whole.made()) == (True, False, [], before)
    assert refused["msg"].startswith(f"CM-PLAN-01: the approved plan {digest[:12]} is out of date")


def test_an_approval_names_what_the_plan_leaves_out_before_the_links_are_written(make_whole: Any) -> None:
    whole: Whole = make_whole()
    given = mesh("a", REFUSED)
    digest = whole.run(given, check=True)["plan"]["hash"]
    refused = whole.run(given, hash=digest)
    assert refused["msg"].startswith("CM-PLAN-02") and not whole.applied
    named = whole.run(given, hash=digest, approve_refused=["connectivityIntents/broken"])
    assert whole.applied == ["links", "items"] and rows(named) == {"a": "Applied", "broken": "Error"}


def test_a_hash_of_two_parts_is_refused_with_the_reason(make_whole: Any) -> None:
    whole: Whole = make_whole()
    refused = whole.run(mesh("a"), hash=f"{'a' * 12}.{'b' * 12}")
    assert "The approved hash has two parts: links and items had a plan each when it was approved" in refused["msg"]
    assert "Run again with --check" in refused["msg"] and not whole.observed


def test_without_items_the_plan_is_that_of_connect(make_whole: Any) -> None:
    whole: Whole = make_whole()
    binding = {"binding": mesh()["binding"]}
    assert whole.run(binding, check=True)["plan"] == whole.links.run("mesh_connect", mesh=binding, check=True)["plan"]


def test_items_wait_for_links_that_do_not_come_up(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.links.ready = False
    result = whole.run(mesh("a"), wait_timeout=0)
    assert (result["failed"], whole.applied, rows(result)) == (True, ["links"], {"a": "Pending"})
    assert {"CM-LINK-02", "CM-ITEM-03"} <= {finding["code"] for finding in result["findings"]}
    assert not any(step.get("item") for step in result["plan"]["steps"])
    again = whole.run(mesh("a"), wait_timeout=0)
    assert (rows(again), again["plan"]["steps"]) == ({"a": "Pending"}, []), "links without a step are measured before items are planned"


def test_items_that_were_approved_are_not_written_where_the_links_are_not_as_expected(make_whole: Any) -> None:
    whole: Whole = make_whole()
    digest = whole.run(mesh("a"), check=True)["plan"]["hash"]
    whole.links.ready = False
    result = whole.run(mesh("a"), hash=digest, wait_timeout=0)
    assert (result["failed"], result["changed"], whole.applied) == (True, True, ["links"])
    (said,) = [finding for finding in result["findings"] if finding["code"] == "CM-PLAN-01"]
    assert "(edge-mesh-eu is in phase Connecting), so no item was written" in said["summary"]


def test_what_blocks_the_links_lets_the_items_wait_and_the_plan_has_no_hash(make_whole: Any) -> None:
    same = cluster_facts("c2", version="1.20.0", config={"cluster-id": "1"})
    whole: Whole = make_whole(cluster_facts("c1", version="1.20.0"), same)
    for check in (True, False):
        result = whole.run(mesh("a"), check=check)
        assert (result["failed"], result["plan"]["hash"], rows(result), whole.applied) == (True, "", {"a": "Pending"}, [])


def test_a_failed_write_of_links_lets_the_items_wait(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.links.refusing = {"c2": Forbidden("patch secrets is not allowed.", remedy="Extend the role.", cluster="c2")}
    whole.links.ready = False
    result = whole.run(mesh("a"))
    assert (result["changed"], rows(result), whole.applied) == (True, {"a": "Pending"}, ["links"])
    assert "writing failed in c2" in result["msg"]


def test_without_waiting_the_links_are_measured_for_the_items(make_whole: Any) -> None:
    whole: Whole = make_whole()
    result = whole.run(mesh("a"), wait=False)
    assert (result["status"]["binding"]["phase"], rows(result)) == ("Connected", {"a": "Applied"})


def test_a_member_that_does_not_answer_is_reported_once(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.run(mesh("a"))
    whole.links.failures = {"c2": failure("c2")}
    result = whole.run(mesh("a"))
    assert result["incomplete"] and result["msg"].count("No answer from 1 member") == 1
    assert [finding["evidence"].split(" ", 3)[:3] for finding in result["findings"] if finding["code"] == "CM-API-01"] == [
        ["What", "was", "written"],  # of its links
        ["Objects", "of", "items"],
    ]


def test_members_that_stop_the_run_are_shown_once(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.links.failures = {host: failure(host) for host in HOSTS}
    result = whole.run(mesh("a"))
    assert [(finding["code"], finding["cluster"]) for finding in result["findings"]] == [("CM-API-01", host) for host in HOSTS]
    shown = "\n".join(whole.output)
    assert [shown.count(f"CM-API-01  {host}") for host in HOSTS] == [1, 1]


def test_absent_removes_the_items_and_then_the_links(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.run(mesh("a"))
    whole.applied.clear()
    whole.observed.clear()
    promised = whole.run(mesh("a"), state="absent", check=True)
    result = whole.run(mesh("a"), state="absent", hash=promised["plan"]["hash"])
    assert "failed" not in result and result["plan"] == promised["plan"]
    assert (whole.applied, len(whole.observed), whole.items.policies("c1")) == (["items", "links"], 2, set())
    assert [bool(step.get("item")) for step in result["plan"]["steps"]] == sorted(
        (bool(step.get("item")) for step in result["plan"]["steps"]), reverse=True
    )
    assert whole.run(mesh("a"), state="absent")["changed"] is False


def test_links_stay_where_an_item_could_not_be_removed(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.run(mesh("a"))
    whole.applied.clear()
    whole.items.refusing = {("c2", "connectivityIntents/a"): ServerRefused("the webhook says no", remedy="Ask it.", cluster="c2")}
    result = whole.run(mesh("a"), state="absent")
    assert (result["failed"], whole.applied) == (True, ["items"])


def test_an_error_among_the_items_keeps_what_was_done_to_the_links(make_whole: Any) -> None:
    whole: Whole = make_whole()
    whole.broken = ValueError("quoted value")
    result = whole.run(mesh("a"))
    assert (result["failed"], result["changed"], result["status"]["binding"]["phase"]) == (True, True, "Connected")
    assert len(result["plan"]["steps"]) == 10 and "quoted value" not in str(result)


def test_a_status_that_is_given_leaves_the_links_alone(make_whole: Any) -> None:
    whole: Whole = make_whole()
    result = whole.run(mesh("a"), binding_status={"phase": "Connected"})
    assert (whole.applied, rows(result), result["status"]["binding"]) == (["items"], {"a": "Applied"}, None)
    for more in ({"hash": "a" * 12}, {"state": "absent"}):
        refused = whole.run(mesh("a"), binding_status={"phase": "Connected"}, **more)
        assert "leaves the links alone" in refused["msg"]


def test_former_members_of_a_survey_may_stand_between_blanks(make_whole: Any) -> None:
    whole: Whole = make_whole(*(cluster_facts(host, version="1.20.0") for host in ("c1", "c2", "c3", "c4")))
    whole.run(mesh("a"), former="c3 c4")
    assert whole.observed == [HOSTS, ("c3", "c4")]


def test_members_that_leave_are_no_option_of_a_whole_mesh(make_whole: Any) -> None:
    whole: Whole = make_whole()
    assert "removes the whole mesh" in whole.run(mesh("a"), state="absent", clusters=["c2"])["msg"]
    assert "it names those that leave" in whole.run(mesh("a"), clusters=["c2"])["msg"]
    assert not whole.observed


def test_lists_without_a_value_are_left_alone_and_that_is_said(make_whole: Any) -> None:
    whole: Whole = make_whole()
    result = whole.run({**mesh(), "connectivityIntents": None})
    assert (whole.applied, rows(result)) == (["links"], {})
    assert any("without a value in cilium_mesh" in line for line in whole.output)


def test_names_and_ids_are_a_stage_of_their_own(make_whole: Any) -> None:
    new = cluster_facts("c2", version="1.20.0", config={"cluster-name": "default", "cluster-id": "0"})
    whole: Whole = make_whole(cluster_facts("c1", version="1.20.0"), new)
    promised = whole.run(mesh("a"), assign_identities=True, check=True)
    assert "failed" not in promised and promised["changed"]
    assert {step["cluster"] for step in promised["plan"]["steps"]} >= {"c2"} and not whole.applied
    assert not any(step.get("item") or "cilium-clustermesh" in step["object"] for step in promised["plan"]["steps"])
    refused = whole.run(mesh("a"), assign_identities=True, hash="0" * 12)
    assert refused["msg"].startswith("CM-PLAN-01") and not whole.applied
