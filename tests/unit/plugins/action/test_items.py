# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The actions that carry items out: what they decide, write, say and return, over clusters that are played on facts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply import apply as engine_apply
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Forbidden, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ObserveFailure, ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports, real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, Step
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile import kinds as table
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import mesh_action
from tests.testing.facts_builders import cluster_facts, failure, not_ready, reader_facts
from tests.testing.free_lock import FreeLock
from tests.testing.returns import hold_to_documentation
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import scene, traffic
from tests.unit.items import fake_kind

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"


@dataclass
class World:
    """Members with their traffic, and what the actions did to them and said."""

    facts: dict[str, ClusterFacts]
    traffic: dict[str, TrafficFacts]
    failures: dict[str, ObserveFailure] = field(default_factory=dict)
    unreadable: dict[str, ObserveFailure] = field(default_factory=dict)  # clusters whose services and policies cannot be read
    refusing: dict[tuple[str, str], ClusterError] = field(default_factory=dict)  # (cluster, item or "") -> how a write ends
    ready: bool = True  # are the links of the mesh ready?
    output: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)  # how links were read
    reads: list[tuple[str, ...]] = field(default_factory=list)  # clusters of each reading of traffic
    away: dict[str, str] = field(default_factory=dict)  # host variable cilium_mesh_unavailable
    parallel: int = 0
    clock: Callable[[], float] = lambda: 0.0  # of the run, in seconds
    lock: threading.Lock = field(default_factory=threading.Lock)

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the actions observe, write and show here."""
        monkeypatch.setattr(mesh_action, "real_ports", self.ports)
        monkeypatch.setattr(engine_apply, "_write", self.write)
        display = SimpleNamespace(verbosity=0, display=lambda text, color=None: self.output.append(text))
        monkeypatch.setattr(mesh_action, "Display", lambda: display)

    def observe(self, accesses: Iterable[ClusterAccess], *, parallel: int = 10, **_reads: Any) -> Observation:
        unavailable = {access.host: access.unavailable for access in accesses}
        names = [host for host, reason in unavailable.items() if not reason]
        facts = {host: self.facts[host] for host in names if host in self.facts and host not in self.failures}
        opened: Any = {host: SimpleNamespace(requests=Counter({"list services": 3}), close=lambda: None, host=host) for host in facts}
        away = {host: ObserveFailure(host=host, code="CM-API-01", message=reason) for host, reason in unavailable.items() if reason}
        return Observation(facts=facts, failures={**{h: f for h, f in self.failures.items() if h in names}, **away}, clusters=opened)

    def read_all_traffic(
        self, clusters: Mapping[str, Cluster], kinds: Collection[Any], *, parallel: int = 10
    ) -> tuple[dict[str, TrafficFacts], dict[str, ObserveFailure]]:
        self.reads.append(tuple(clusters))
        broken = {host: self.unreadable[host] for host in clusters if host in self.unreadable}
        return {host: self.traffic[host] for host in clusters if host not in broken}, broken

    def apply_plan(self, plan: Plan, observation: Observation, **fields: Any) -> ApplyResult:
        """The engine itself, with calls that change the traffic that is read next."""
        self.parallel = fields["parallel"]
        return engine_apply.apply_plan(plan, observation, **fields)

    def write(self, manager: str, cluster: Any, step: Step, values: Any, now: Any) -> None:
        assert isinstance(step.action, ApiWrite)
        error = self.refusing.get((cluster.host, step.item)) or self.refusing.get((cluster.host, ""))
        if error is not None:
            raise error
        with self.lock:
            place = scene(*self.traffic.values(), facts=self.facts)
            binding = Binding(name="edge-mesh-eu", cluster_refs=tuple(self.traffic))
            self.traffic = dict(applied(replace(place, mesh=Mesh(binding=binding)), [step], binding).traffic)

    def read_all(self, observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
        self.measured.append("read")
        return self._readers(observation, mesh, "")

    def prove_all(self, observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
        self.measured.append("proven")
        return self._readers(observation, mesh, "refuted")

    def _readers(self, observation: Observation, mesh: Mesh, silent: str) -> dict[str, ReaderFacts]:
        found = {}
        for host in observation.facts:
            reader = reader_facts(host, [peer for local, peer in mesh.links if local == host])
            links = [
                link if self.ready and link.peer in observation.facts else replace(not_ready(link), proof=silent) for link in reader.links
            ]
            found[host] = ReaderFacts(cluster=host, links=tuple(links), agents_total=2, agents_asked=2)
        return found

    def run(self, action: str = "mesh_items", *, check: bool = False, diff: bool = False, limit: Iterable[str] = (), **args: Any) -> Any:
        """The result of one task."""
        every = tuple(self.facts)
        module = import_module(f"{PLUGINS}.action.{action}")
        task = SimpleNamespace(args=args, async_val=0, check_mode=check, diff=diff, action=action, failed_when=[])
        instance = module.ActionModule(task, SimpleNamespace(_shell=None), None, None, None, None)
        hostvars = {host: {"cilium_mesh_kubeconfig": f"/kubeconfigs/{host}"} for host in every if host not in self.away}
        hostvars.update({host: {"cilium_mesh_unavailable": reason} for host, reason in self.away.items()})
        task_vars = {"ansible_play_hosts_all": list(limit) or list(every), "groups": {"all": list(every)}, "hostvars": hostvars}
        return hold_to_documentation(action, instance.run(None, {**task_vars, "ansible_limit": ",".join(limit)}))

    def ports(self, show: Callable[[Shown], None]) -> Ports:
        """The ports of a play, with these clusters behind them."""
        own: dict[str, Any] = {
            "observe": self.observe,
            "apply": self.apply_plan,
            "lock": FreeLock,
            "clock": self.clock,
            "read_traffic": self.read_all_traffic,
            "read_links": self.read_all,
            "prove_links": self.prove_all,
        }
        return replace(real_ports(show), prove_as_controller=lambda *_, **__: {}, resolve_names=lambda _clusters: {}, **own)

    def policies(self, host: str) -> set[str]:
        """Names of the intents that have an object there."""
        return {entry.annotations["cilium-mesh.edge-portal.eu/item"].partition("/")[2] for entry in self.traffic[host].policies}


def mesh(*intents: str | Mapping[str, Any], hosts: Iterable[str] = ("c1", "c2")) -> dict[str, Any]:
    binding = {"name": "edge-mesh-eu", "clusterRefs": [{"name": host} for host in hosts]}
    entries = [{"name": entry} if isinstance(entry, str) else dict(entry) for entry in intents]
    return {"binding": binding, "connectivityIntents": entries}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    hosts = ("c1", "c2")
    made = World({host: cluster_facts(host, version="1.20.0") for host in hosts}, {host: traffic(host) for host in hosts})
    monkeypatch.setitem(table.ROWS, fake_kind.KIND, fake_kind.ROW)
    made.stand_in(monkeypatch)
    return made


def rows(result: Mapping[str, Any]) -> dict[str, str]:
    return {row["name"]: row["phase"] for row in result["status"]["connectivityIntents"]}


def test_items_are_written_and_each_has_its_status(world: World) -> None:
    result = world.run(mesh=mesh("a", "b"))
    assert "failed" not in result, result
    assert (result["changed"], len(result["plan"]["steps"]), rows(result)) == (True, 4, {"a": "Applied", "b": "Applied"})
    assert result["status"]["globalServices"] == result["status"]["exposedServices"] == []
    assert (result["requests"], result["mesh"], result["requeue_seconds"]) == ({"c1": 3, "c2": 3}, ["c1", "c2"], 300)
    assert world.reads == [("c1", "c2"), ("c1", "c2")]
    assert world.output[-1] == "edge-mesh-eu: 2 items: 2 Applied"


def test_long_writes_say_in_a_log_how_far_they_are(world: World) -> None:
    world.clock = count(step=25).__next__
    world.run(mesh=mesh("a", "b"))
    (line,) = [line for line in world.output if "steps written" in line]
    assert line == "   25.0 s  4 of 4 steps written"
    place = world.output.index(line)
    assert world.output[place - 1].startswith("Writing 4 steps.") and world.output[-1] == "edge-mesh-eu: 2 items: 2 Applied"


def test_long_writes_are_in_a_terminal_one_line_that_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    display = SimpleNamespace(verbosity=0, display=lambda text, color=None, newline=True: drawn.append(text if newline else f"[{text}]"))
    monkeypatch.setattr(mesh_action, "Display", lambda: display)
    monkeypatch.setattr(mesh_action, "is_redrawn", lambda: True)
    monkeypatch.setattr(mesh_action, "width_of_terminal", lambda: 40)
    world.clock = count(step=3).__next__
    world.run(mesh=mesh("a", "b"))
    place = next(place for place, text in enumerate(drawn) if "steps written" in text)
    assert drawn[place].rstrip().endswith("4 of 4 steps written") and len(drawn[place]) == len("\r") + 39
    assert drawn[place + 1] == f"[\x1b[1A\r{' ' * 39}\r]", "the line is empty before another one is printed"


@pytest.mark.parametrize("quiet", ["report", "short", "callback"])
def test_nothing_is_said_of_writes_that_are_short_or_that_no_person_follows(
    world: World, quiet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.clock = count(step=0.1 if quiet == "short" else 25.0).__next__
    if quiet == "callback":
        monkeypatch.setattr(mesh_action, "prints_for_people", lambda: False)
    world.run(mesh=mesh("a", "b"), report=quiet != "report")
    assert not [line for line in world.output if "steps written" in line]
    assert bool(world.output) == (quiet == "short")


def test_a_second_run_writes_nothing_and_reads_once(world: World) -> None:
    world.run(mesh=mesh("a"))
    world.reads.clear()
    again = world.run(mesh=mesh("a"))
    assert (again["changed"], again["plan"]["steps"], rows(again)) == (False, [], {"a": "Applied"})
    assert world.reads == [("c1", "c2")]


def test_check_mode_promises_what_the_run_then_does_and_writes_nothing(world: World) -> None:
    promised = world.run(mesh=mesh("a"), check=True, diff=True)
    assert (promised["changed"], world.policies("c1"), rows(promised)) == (True, set(), {"a": "Applying"})
    entry = promised["diff"][0]
    assert (entry["before"], "endpointSelector" in entry["after"]) == ("", True)
    assert entry["after_header"].startswith("c1/apis/cilium.io/v2/namespaces/production/ciliumnetworkpolicies/a-")
    done = world.run(mesh=mesh("a"))
    assert done["plan"] == promised["plan"]
    assert world.run(mesh=mesh("a"), check=True)["changed"] is False


def test_a_change_shows_only_what_changes_in_the_diff(world: World) -> None:
    world.run(mesh=mesh("a"))
    entry = world.run(mesh=mesh({"name": "a", "action": "Deny"}), check=True, diff=True)["diff"][0]
    assert ("allow" in entry["before"], "deny" in entry["after"], "allow" in entry["after"]) == (True, True, False)


def test_an_item_that_is_no_more_goes_with_what_it_made(world: World) -> None:
    world.run(mesh=mesh("a", "b"))
    result = world.run(mesh=mesh("b"))
    assert ({step["verb"] for step in result["plan"]["steps"]}, rows(result)) == ({"delete"}, {"b": "Applied"})
    assert world.policies("c1") == world.policies("c2") == {"b"}


def test_a_refused_item_fails_the_run_and_the_others_are_carried_out(world: World) -> None:
    world.run(mesh=mesh("bad"))
    result = world.run(mesh=mesh("good", {"name": "bad", "action": "Perhaps"}))
    assert (result["failed"], result["changed"], rows(result)) == (True, True, {"good": "Applied", "bad": "Error"})
    assert result["msg"] == "Of 2 items: 1 refused (connectivityIntents/bad)."
    assert [(f["code"], f["item"], f["severity"]) for f in result["findings"]] == [("CM-ITEM-01", "connectivityIntents/bad", "blocking")]
    assert world.policies("c1") == {"good", "bad"}
    assert any("action: is not known" in line for line in world.output)


@pytest.mark.parametrize("check", [False, True])
def test_an_item_that_is_not_as_asked_fails_the_run_unless_its_user_accepts_it(world: World, check: bool) -> None:
    nowhere = {"name": "nginx", "selector": {"namespace": "production", "name": "nginx"}}
    file = {**mesh("a"), "globalServices": [nowhere]}
    result = world.run(mesh=file, check=check)
    assert (result["failed"], result["msg"]) == (True, "Of 2 items: 1 in phase Error (globalServices/nginx).")
    accepted = world.run(mesh=file, check=check, accept_incomplete=["globalServices/nginx"])
    assert "failed" not in accepted and accepted["status"]["globalServices"][0]["phase"] == "Error"
    assert world.run(mesh=file, check=check, accept_incomplete=["globalServices/other"])["failed"]
    assert "failed" not in world.run(mesh=file, check=check, accept_incomplete=["all"])


def test_an_item_that_planning_refuses_fails_the_run(world: World) -> None:
    result = world.run(mesh=mesh("good", {"name": "bad", "action": "Forbidden"}))
    assert (result["failed"], rows(result)["bad"], world.policies("c1")) == (True, "Error", {"good"})


def test_items_wait_for_the_mesh(world: World) -> None:
    world.ready = False
    result = world.run(mesh=mesh("a"))
    assert (result["failed"], result["changed"], rows(result)) == (True, False, {"a": "Pending"})
    assert "1 waiting for edge-mesh-eu to be connected (phase Connecting) (connectivityIntents/a)" in result["msg"]
    assert ([f["code"] for f in result["findings"]], result["requeue_seconds"]) == (["CM-ITEM-03"], 30)


@pytest.mark.parametrize(
    ("args", "check", "phase", "measures"),
    [
        ({"require_connected": False}, False, "Applied", 0),
        ({"binding_status": {"phase": "Connected", "links": []}}, False, "Applied", 0),
        ({"binding_status": {"phase": "Error"}}, False, "Pending", 0),
        ({"binding_status": {}}, False, "Pending", 1),
        ({"binding_status": {"phase": "Connected"}}, True, "Applying", 0),
    ],
)
def test_how_the_state_of_the_mesh_is_known(world: World, args: dict[str, Any], check: bool, phase: str, measures: int) -> None:
    world.ready = False
    result = world.run(mesh=mesh("a"), check=check, **args)
    assert (rows(result), len(world.measured)) == ({"a": phase}, measures)


RENAMED = {"name": "renamed", "action": "Perhaps"}
"""An item that was renamed and mistyped in one edit."""


def test_a_renamed_and_mistyped_item_keeps_what_it_made_and_the_run_says_what_and_why(world: World) -> None:
    world.run(mesh=mesh("good", "old"))
    result = world.run(mesh=mesh("good", RENAMED))
    assert (result["changed"], world.policies("c1"), world.policies("c2")) == (False, {"good", "old"}, {"good", "old"})
    kept = next(f for f in result["findings"] if f["code"] == "CM-ITEM-05")
    assert (kept["item"], kept["severity"]) == ("connectivityIntents/old", "remediable")
    assert "1 with objects that are kept, because their replacement may be missing (connectivityIntents/old)" in result["msg"]
    assert any("ConnectivityIntent renamed is refused, and may replace it" in line for line in world.output)
    assert result["requeue_seconds"] == 60
    assert world.run(mesh=mesh("good", "renamed"))["changed"] and world.policies("c1") == {"good", "renamed"}


def test_a_plan_with_a_refused_item_is_approved_only_by_its_name(world: World) -> None:
    world.run(mesh=mesh("old"))
    file, name = mesh("good", RENAMED), "connectivityIntents/renamed"
    plan = world.run(mesh=file, check=True)["plan"]
    assert plan["notCarriedOut"] == [name]
    assert not any(f"hash {plan['hash'][:12]}" in line and name not in line for line in world.output), "no hash stands alone"
    for named in ([], ["connectivityIntents/other"]):
        refused = world.run(mesh=file, hash=plan["hash"], approve_refused=named)
        assert refused["failed"] and refused["msg"].startswith("CM-PLAN-02: ") and name in refused["msg"]
        assert refused["findings"][0]["code"] == "CM-PLAN-02" and world.policies("c1") == {"old"}
    world.run(mesh=file, hash=plan["hash"], approve_refused=[name])
    assert world.policies("c1") == {"old", "good"}


def test_a_plan_with_items_that_wait_is_approved_only_by_their_names(world: World) -> None:
    world.ready = False
    plan = world.run(mesh=mesh("a"), check=True)["plan"]
    assert world.run(mesh=mesh("a"), hash=plan["hash"])["msg"].startswith("CM-PLAN-02: ")


def test_a_deletion_that_needs_a_failed_write_is_reported_for_its_own_item(world: World) -> None:
    world.run(mesh=mesh("old"))
    world.refusing = {("c1", "connectivityIntents/new"): ServerRefused("The API server answered 422 (Invalid).", cluster="c1")}
    result = world.run(mesh=mesh("new"))
    assert (world.policies("c1"), world.policies("c2")) == ({"old"}, {"new"})
    about = {(f["code"], f["cluster"], f["item"]) for f in result["findings"]}
    assert about == {("CM-API-05", "c1", "connectivityIntents/new"), ("CM-ITEM-05", "c1", "connectivityIntents/old")}
    assert result["msg"] == "Of 1 item: 1 not written in c1 (connectivityIntents/new)."
    world.refusing = {}
    assert world.run(mesh=mesh("new"))["changed"] and world.policies("c1") == {"new"}


def test_one_refused_object_stops_neither_the_item_elsewhere_nor_others_there(world: World) -> None:
    world.refusing = {("c1", "connectivityIntents/a"): ServerRefused("The API server answered 422 (Invalid).", cluster="c1")}
    result = world.run(mesh=mesh("a", "b"))
    assert (result["failed"], result["changed"]) == (True, True)
    assert (world.policies("c1"), world.policies("c2")) == ({"b"}, {"a", "b"})
    assert rows(result) == {"a": "Degraded", "b": "Applied"}
    assert [(f["code"], f["cluster"], f["item"]) for f in result["findings"]] == [("CM-API-05", "c1", "connectivityIntents/a")]
    assert result["msg"] == "Of 2 items: 1 not written in c1 (connectivityIntents/a)."
    world.refusing = {}
    corrected = world.run(mesh=mesh("a", "b"))
    assert ("failed" in corrected, corrected["changed"], rows(corrected)) == (False, True, {"a": "Applied", "b": "Applied"})


def test_a_cluster_that_goes_down_meanwhile_is_reported_once(world: World) -> None:
    world.refusing = {("c2", ""): Unreachable("The API server refused the connection.", cluster="c2")}
    result = world.run(mesh=mesh("a", "b", "c"), parallel=2)
    assert rows(result) == {"a": "Degraded", "b": "Degraded", "c": "Degraded"}
    assert [(f["code"], f["cluster"], f.get("item", "")) for f in result["findings"]] == [("CM-API-01", "c2", "")]
    assert world.policies("c1") == {"a", "b", "c"}


def test_a_silent_member_is_left_and_named(world: World) -> None:
    world.run(mesh=mesh("a"))
    world.failures = {"c2": failure("c2")}
    result = world.run(mesh=mesh("b"))
    assert (result["failed"], result["incomplete"]) == (True, True), result
    assert (rows(result), world.policies("c1"), world.policies("c2")) == ({"b": "Degraded"}, {"b"}, {"a"})
    assert [(f["cluster"], f["severity"]) for f in result["findings"]] == [("c2", "remediable")]
    assert world.measured == ["read", "proven"]


def test_a_member_that_is_known_to_be_away_is_as_silent(world: World) -> None:
    world.run(mesh=mesh("a"))
    world.away, world.reads = {"c2": "Its Secret is gone."}, []
    result = world.run(mesh=mesh("b"))
    assert "failed" not in result, result
    assert (rows(result), world.policies("c1"), world.policies("c2")) == ({"b": "Degraded"}, {"b"}, {"a"})
    assert [(f["cluster"], f["severity"], f["summary"]) for f in result["findings"]] == [("c2", "remediable", "Its Secret is gone.")]
    assert set(world.reads) == {("c1",)}
    gone = world.run(mesh=mesh(), state="absent")
    assert ("failed" in gone, world.policies("c1"), world.policies("c2")) == (False, set(), {"a"})
    world.away = {}
    assert rows(world.run(mesh=mesh("b"))) == {"b": "Applied"} and world.policies("c2") == {"b"}


def test_a_member_whose_services_cannot_be_read_is_as_silent(world: World) -> None:
    world.unreadable = {"c2": failure("c2")}
    result = world.run(mesh=mesh("a"))
    assert (rows(result), [f["cluster"] for f in result["findings"]]) == ({"a": "Degraded"}, ["c2"])


@pytest.mark.parametrize(
    ("failures", "args"),
    [
        ({"c2": "CM-API-03"}, {}),  # RBAC says no
        ({"c2": "CM-INPUT-01"}, {"max_failures": 1}),  # what the user wrote is wrong
        ({"c2": "CM-API-01"}, {"max_failures": 0}),
        ({"c1": "CM-API-01", "c2": "CM-API-01"}, {}),
        ({"c1": "CM-API-01", "c2": "CM-API-01"}, {"state": "absent"}),
    ],
)
def test_what_stops_the_whole_run_before_its_first_write(world: World, failures: dict[str, str], args: dict[str, Any]) -> None:
    world.failures = {host: replace(failure(host), code=code) for host, code in failures.items()}
    result = world.run(mesh=mesh("a"), **args)
    assert (result["failed"], result["changed"], world.policies("c1")) == (True, False, set())
    assert result["msg"].endswith("nothing was written anywhere.")
    assert result["status"] == {kind.value: [] for kind in ItemKind}


def test_a_number_of_failures_may_be_allowed(world: World) -> None:
    world.failures = {"c2": replace(failure("c2"), code="CM-API-03")}
    result = world.run(mesh=mesh("a"), max_failures=1)
    assert ("failed" in result, rows(result)) == (False, {"a": "Degraded"})


def test_absent_takes_everything_away_whatever_the_mesh_and_the_file_say(world: World) -> None:
    world.run(mesh=mesh("a", "b"))
    world.ready, world.failures = False, {"c2": failure("c2")}
    world.measured.clear()
    result = world.run(mesh=mesh("a", {"name": "broken", "action": "?"}), state="absent")
    assert result["incomplete"] is True, result
    assert (result["changed"], world.policies("c1"), world.policies("c2"), world.measured) == (True, set(), {"a", "b"}, [])
    assert world.output[-1].endswith("removed (1/2 clusters); not observed, and left as they are: c2")
    world.failures = {}
    assert world.run(mesh=mesh(), state="absent")["changed"] is True
    assert world.run(mesh=mesh(), state="absent")["changed"] is False
    assert world.policies("c2") == set()


def test_an_action_of_one_kind_leaves_the_others_alone(world: World) -> None:
    world.run("mesh_policy", mesh=mesh("a"))
    result = world.run("mesh_service", mesh={**mesh(), "globalServices": []})
    assert ("failed" in result, result["changed"], world.policies("c1")) == (False, False, {"a"})


def test_without_a_list_no_cluster_is_asked(world: World) -> None:
    result = world.run("mesh_service", mesh=mesh("a"))
    assert (result["changed"], result["requests"], world.reads) == (False, {}, [])
    assert world.output == ["globalServices: not in cilium_mesh, so nothing is done about them"]


def test_a_list_without_a_value_is_not_called_absent(world: World) -> None:
    world.run("mesh_service", mesh={**mesh(), "globalServices": None})
    assert world.output == ["globalServices: without a value in cilium_mesh, so nothing is done about them; [] would prune them"]


def test_members_outside_a_limit_are_left_and_not_called_dead(world: World) -> None:
    result = world.run(mesh=mesh("a"), limit=["c1"])
    assert (rows(result), world.policies("c1"), world.policies("c2"), result["findings"]) == ({"a": "Degraded"}, {"a"}, set(), [])
    assert world.output[-1] == "not contacted, and left as they are: c2"


def test_in_a_cluster_that_left_the_mesh_nothing_stays(world: World) -> None:
    world.facts["c3"], world.traffic["c3"] = cluster_facts("c3", version="1.20.0"), traffic("c3")
    world.run(mesh=mesh("a", hosts=("c1", "c2", "c3")))
    assert world.policies("c3") == {"a"}
    result = world.run(mesh=mesh("a"), former=["c3"], diff=True, check=True)
    assert [entry["after"] for entry in result["diff"]] == [""]
    result = world.run(mesh=mesh("a"), former=["c3"])
    assert ("failed" in result, world.policies("c3"), world.policies("c1")) == (False, set(), {"a"})


def test_only_the_approved_plan_is_carried_out(world: World) -> None:
    promised = world.run(mesh=mesh("a"), check=True)["plan"]["hash"]
    refused = world.run(mesh=mesh("a", "b"), hash=promised)
    assert (refused["failed"], refused["changed"], world.policies("c1")) == (True, False, set())
    assert refused["msg"].startswith("CM-PLAN-01: ")
    assert refused["findings"][0]["code"] == "CM-PLAN-01"
    done = world.run(mesh=mesh("a"), hash=promised[:12])
    assert ("failed" in done, world.policies("c1")) == (False, {"a"})


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"hash": "xyz"}, "hash is not 12 to 64"),
        ({"approve_refused": ["nginx"]}, "approve_refused has 'nginx', which names no item"),
        ({"accept_incomplete": ["nginx"]}, "accept_incomplete has 'nginx', which names no item"),
        ({"parallel": 0}, "parallel is 0"),
        ({"max_failures": -1}, "max_failures is -1"),
        ({"state": "gone"}, "state"),
        (
            {"mesh": {"binding": {"name": "m", "clusterRefs": ["c1", "c2"]}, "connectivityIntents": "x"}},
            "connectivityIntents: must be a list",
        ),
        ({"mesh": mesh("a", "a")}, "is there twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_cluster_is_asked(world: World, args: dict[str, Any], says: str) -> None:
    result = world.run(**{"mesh": mesh("a"), **args})
    assert (result["failed"], result["requests"], says in result["msg"]) == (True, {}, True), result["msg"]
    assert result["msg"].startswith("CM-INPUT-01: ")


def test_what_tenants_wrote_cannot_reach_the_terminal_as_it_is(world: World) -> None:
    world.run(mesh=mesh({"name": "a", "action": "Deny\x1b]0;x\x07\nPlan: nothing"}))
    assert not any("\x1b" in line or "\n" in line for line in world.output)


def test_of_many_items_only_those_with_a_problem_have_a_line(world: World) -> None:
    names = [f"item-{number}" for number in range(80)]
    world.refusing = {("c1", "connectivityIntents/item-7"): Forbidden("RBAC forbids to patch x (403).", cluster="c1")}
    world.run(mesh=mesh(*names))
    about = [line for line in world.output if "item-" in line and not line.startswith(("    ", "  undo"))]
    assert [line.split()[0] for line in about] == ["connectivityIntents/item-7"]
    assert "  wave 14  create  80 objects of kind CiliumNetworkPolicy  in c1, c2" in world.output
    assert world.output[-1] == "edge-mesh-eu: 80 items: 79 Applied, 1 Degraded"


def test_an_earlier_status_keeps_times(world: World) -> None:
    first = world.run(mesh=mesh("a"))
    stamp = "2020-01-01T00:00:00Z"
    old = [
        {**row, "conditions": [{**c, "lastTransitionTime": stamp} for c in row["conditions"]]}
        for row in first["status"]["connectivityIntents"]
    ]
    again = world.run(mesh=mesh("a"), previous_status={"connectivityIntents": old})
    assert {c["lastTransitionTime"] for c in again["status"]["connectivityIntents"][0]["conditions"]} == {stamp}


def plain_types(value: Any) -> set[type]:
    if isinstance(value, Mapping):
        return set().union(*(plain_types(part) for pair in value.items() for part in pair)) | {type(value)}
    if isinstance(value, (list, tuple)):
        return set().union(*(plain_types(part) for part in value)) | {type(value)}
    return {type(value)}


def test_a_result_is_plain_data(world: World) -> None:
    """ansible-core 2.19 warns of every other type that is put into a variable."""
    world.refusing = {("c1", "connectivityIntents/b"): Forbidden("RBAC forbids to patch x (403).", cluster="c1")}
    result = world.run(mesh=mesh("a", "b", {"name": "c", "action": "?"}), diff=True)
    assert plain_types(result) <= {dict, list, tuple, str, int, bool, type(None)}
