# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who loses access is said before the first write, in every mode, and once; and the end of the run says outage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import FindingsMade, ItemsMeasured, PlanMade, Shown
from tests.testing.facts_builders import cluster_facts
from tests.testing.flow_builders import flow, side
from tests.testing.probe_world import FakeCluster, pod_object, said
from tests.testing.traffic_builders import pod, traffic
from tests.unit.plugins.action.test_items import World

HOSTS: Final = ("c1", "c2")
LOSS: Final = ("CM-INT-30", "CM-INT-31")


@dataclass
class LoudWorld(World):
    """Members with real intents, whose agents answer, and everything that is shown and written in one list."""

    events: list[Any] = field(default_factory=list)
    clusters: dict[str, FakeCluster] = field(default_factory=dict)

    def ports(self, show: Callable[[Shown], None]) -> Ports:
        def recorded(shown: Shown) -> None:
            self.events.append(shown)
            show(shown)

        return super().ports(recorded)

    def observe(self, *args: Any, **options: Any) -> Any:
        found = super().observe(*args, **options)
        for host, opened in found.clusters.items():
            for verb in ("list", "exec"):
                setattr(opened, verb, getattr(self.clusters[host], verb))
        return found

    def write(self, manager: str, cluster: Any, step: Any, values: Any, now: Any) -> None:
        self.events.append("write")
        super().write(manager, cluster, step, values, now)

    def findings(self) -> Iterator[tuple[int, Any]]:
        """(place among the events, finding) of everything that was shown."""
        for place, event in enumerate(self.events):
            if isinstance(event, (FindingsMade, ItemsMeasured)):
                yield from ((place, finding) for finding in event.findings)


def members(hubble: str = "true") -> tuple[dict[str, ClusterFacts], dict[str, TrafficFacts]]:
    facts = {host: cluster_facts(host, version="1.20.0", config={"enable-hubble": hubble}) for host in HOSTS}
    pods = (pod("nginx-1", app="nginx"), pod("front-1", app="front"), pod("cron-1", app="cron"))
    return facts, {host: traffic(host, pods=pods) for host in HOSTS}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> LoudWorld:
    made = LoudWorld(*members(), clusters={host: FakeCluster(host, pods=[pod_object("nginx-1")]) for host in HOSTS})
    made.stand_in(monkeypatch)
    return made


def mesh(action: str = "Allow") -> dict[str, Any]:
    source = {} if action == "Isolate" else {"source": {"namespace": "production", "name": "front"}}
    intent = {"name": "front-to-nginx", "action": action, "destination": {"namespace": "production", "name": "nginx"}, **source}
    return {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": h} for h in HOSTS]}, "connectivityIntents": [intent]}


def approved(world: LoudWorld, action: str) -> Mapping[str, Any]:
    promised = world.run(action, mesh=mesh(), check=True)
    world.events.clear()
    world.output.clear()
    return {"hash": promised["plan"]["hash"]}


MODES: Final[Mapping[str, Callable[[LoudWorld, str], Any]]] = {
    "write": lambda world, action: world.run(action, mesh=mesh()),
    "check": lambda world, action: world.run(action, mesh=mesh(), check=True, diff=True),
    "approved": lambda world, action: world.run(action, mesh=mesh(), **approved(world, action)),
    "approved, out of date": lambda world, action: world.run(action, mesh=mesh(), hash="0123456789ab"),
    "as in the playbook mesh": lambda world, action: world.run(action, mesh=mesh(), binding_status={"phase": "Connected", "links": []}),
    "of many clusters at once": lambda world, action: world.run(action, mesh=mesh(), parallel=2),
}


@pytest.mark.parametrize("action", ["mesh_items", "mesh_policy"])
@pytest.mark.parametrize("mode", MODES)
def test_it_is_said_before_the_first_write_and_once(world: LoudWorld, mode: str, action: str) -> None:
    result = MODES[mode](world, action)

    first = world.events.index("write") if "write" in world.events else len(world.events)
    assert ("write" in world.events) == (mode not in ("check", "approved, out of date"))
    plan = next(place for place, event in enumerate(world.events) if isinstance(event, PlanMade))
    places = {code: [place for place, finding in world.findings() if finding.code == code] for code in LOSS}
    assert all(plan < place < first for found in places.values() for place in found) and [len(places[code]) for code in LOSS] == [1, 1]
    every = [(finding.code, finding.item, finding.cluster) for _place, finding in world.findings()]
    assert len(every) == len(set(every)) == len(result["findings"])
    assert result["outages"] == ["connectivityIntents/front-to-nginx"]
    if mode != "approved, out of date":
        what = "would take" if mode == "check" else "took"
        assert world.output[-1] == (
            f"edge-mesh-eu: outage: 1 item {what} access from sources that had it (connectivityIntents/front-to-nginx)"
        )


def test_each_mode_shows_the_same(world: LoudWorld) -> None:
    world.run(mesh=mesh(), check=True)
    shown = [line for line in world.output if "CM-INT-3" in line]
    world.output.clear()
    world.run(mesh=mesh())
    assert [line for line in world.output if "CM-INT-3" in line] == shown
    assert all("connectivityIntents/front-to-nginx  c1 and c2: " in line for line in shown) and len(shown) == 2


def test_a_second_run_says_nothing_and_asks_no_agent(world: LoudWorld) -> None:
    world.run(mesh=mesh())
    for cluster in world.clusters.values():
        cluster.asked.clear()
    again = world.run(mesh=mesh())
    assert (again["findings"], again["outages"], [cluster.asked for cluster in world.clusters.values()]) == ([], [], [[], []])


def test_who_speaks_now_is_an_outage_even_for_isolate_and_changes_no_hash(world: LoudWorld) -> None:
    quiet = world.run(mesh=mesh("Isolate"), check=True)
    assert {f["severity"] for f in quiet["findings"]} == {"advisory"} and quiet["outages"] == []
    cron, nginx = side("c1", "cron-1", app="cron"), side("c2", "nginx-1", app="nginx")
    world.clusters["c2"].flows = lambda command: said(flow(time=datetime.now(UTC), source=cron, destination=nginx, port=80))(command)
    loud = world.run(mesh=mesh("Isolate"), check=True)
    (lost,) = [f for f in loud["findings"] if f["code"] == "CM-INT-31"]
    assert (lost["severity"], loud["outages"]) == ("outage", ["connectivityIntents/front-to-nginx"])
    assert "1 of which speaks to it now: production/ReplicaSet cron in c1 and c2;" in lost["summary"]
    assert "production/ReplicaSet cron in c1 speaks to it now on TCP 80 (1 flow in the last 5 minutes, last " in lost["evidence"]
    assert loud["plan"]["hash"] == quiet["plan"]["hash"]


def test_requests_for_it_are_bounded(world: LoudWorld) -> None:
    world.run(mesh=mesh(), check=True)
    assert [sorted(cluster.asked) for cluster in world.clusters.values()] == [["exec pods", "list pods", "list pods"]] * 2


@pytest.mark.parametrize(
    ("verb", "says"),
    [("exec pods", "could not be asked: RBAC forbids it"), ("list pods", "could not be listed: RBAC forbids it")],
)
def test_a_right_that_is_missing_is_said_and_ends_nothing(world: LoudWorld, verb: str, says: str) -> None:
    world.clusters["c1"].fail[verb] = Forbidden("RBAC forbids it", cluster="c1")
    result = world.run(mesh=mesh())
    (lost,) = [f for f in result["findings"] if f["code"] == "CM-INT-31"]
    assert "failed" not in result and says in lost["evidence"] and "is not known" in lost["evidence"]


def test_where_hubble_is_off_no_agent_is_asked_and_it_is_said(world: LoudWorld) -> None:
    world.facts, _same = members(hubble="false")
    result = world.run(mesh=mesh())
    (lost,) = [f for f in result["findings"] if f["code"] == "CM-INT-31"]
    assert "Whether they use these connections is not known: Hubble is off in c1 and Hubble is off in c2." in lost["evidence"]
    assert [cluster.asked for cluster in world.clusters.values()] == [[], []]
