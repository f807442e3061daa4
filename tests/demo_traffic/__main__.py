# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.demo_traffic``: requests between pods of two clusters with real agents, counted by the cluster that answers.

A Service becomes global, fails over and back, an Allow and a Deny decide over requests, and the tunnel between the nodes is cut and
healed. Exit status 0 only if all that the last line says was seen: by the clients, by the agents, and by the playbook ``status``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from tests.demo.play import Desk
from tests.demo.stages import Demo, StageFailed, find_servers, say
from tests.demo.verdict import Verdict
from tests.demo_traffic import screen
from tests.demo_traffic.evidence import REQUESTS, Agent, Client, Stream, tail
from tests.demo_traffic.scene import CLIENT, NAME, SPACE, WEB, scene
from tests.demo_traffic.verdict import (
    NO_ANSWER,
    REACHED,
    REASONS,
    STEADY,
    TUNNEL_CUT,
    Count,
    Failover,
    Passage,
    Paths,
    Seen,
    answered,
    judge,
)
from tests.lab import agents, tools, workloads
from tests.lab.lab import Lab
from tests.lab.options import USUAL, LabOptions
from tests.lab.patience import Budget
from tests.testing.waiting import equals

T = TypeVar("T")
Object = dict[str, Any]

BINDING: Final = "edge-mesh-eu"
HOME: Final = "cluster-ffm-1"
AWAY: Final = "cluster-ber-2"
CLUSTERS: Final = (HOME, AWAY)
PAIRS: Final = ((HOME, AWAY), (AWAY, HOME))
REPLICAS: Final = 2
SAMPLE: Final = 10
"""Requests that show whether a change has arrived at the agents."""
LIMIT: Final = 60.0
"""Seconds for a change to arrive. What is counted then is what the verdict is made of, whatever it is."""
TUNNEL: Final = "udp/8472"

MESH: Final[Mapping[str, Any]] = {"binding": {"name": BINDING, "clusterRefs": [{"name": name} for name in CLUSTERS]}}
GLOBAL: Final[Mapping[str, Any]] = {"name": NAME, "selector": {"namespace": SPACE, "name": NAME}}
ALLOW: Final[Mapping[str, Any]] = {
    "name": "client-to-web",
    "action": "Allow",
    "source": {"namespace": SPACE, "name": CLIENT, "clusters": [HOME]},
    "destination": {"namespace": SPACE, "name": NAME},
}
DENY: Final[Mapping[str, Any]] = {
    "name": "no-client",
    "action": "Deny",
    "source": {"namespace": SPACE, "name": CLIENT},
    "destination": {"namespace": SPACE, "name": NAME},
}


class TrafficDemo(Demo):
    """The stages, and what was seen so far."""

    STAGES = 7

    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen()
        self.clients: dict[str, Client] = {}
        self.agents: dict[str, Agent] = {}

    def verdict(self) -> Verdict:
        return judge(HOME, AWAY, self.seen)

    def run(self) -> None:
        """All stages. Raises StageFailed."""
        self.begin("Servers", "those of a cluster, and cilium-agent, found or built once")
        if lacks := list(agents.missing()):
            raise StageFailed(f"real agents need {', '.join(lacks)}, which this machine does not have (docs/lab.md#real-agents).")
        find_servers(USUAL["real"], tools.AGENT)
        self.begin("Clusters", f"{' and '.join(CLUSTERS)}, with a real cilium-agent each")
        with self.lab() as lab, Desk({name: lab.clusters[name].kubeconfig for name in CLUSTERS}, {"cilium_mesh": MESH}) as desk:
            self.furnish(lab)
            self.connect(desk)
            self.share(desk)
            self.fail_over(desk, lab)
            self.decide(desk)
            self.cut(desk, lab)

    @contextmanager
    def lab(self) -> Iterator[Lab]:
        say("      starting, usually 15 s")
        started = time.monotonic()
        with Lab(LabOptions(name="demo-traffic", clusters=len(CLUSTERS), names=CLUSTERS, agents="real")) as lab:
            say(f"      ready after {time.monotonic() - started:.0f} s")
            yield lab

    def furnish(self, lab: Lab) -> None:
        say(f"      each has a Service {NAME} with {REPLICAS} pods that tell their cluster, and a client")
        for name in CLUSTERS:
            for item in scene(name, REPLICAS):
                lab.clusters[name].api.create(item)
        for name in CLUSTERS:
            workloads.wait_ready(lab.clusters[name].api, SPACE, CLIENT)
            self.clients[name], self.agents[name] = Client(lab.clusters[name]), Agent(lab.clusters[name])

    def connect(self, desk: Desk) -> None:
        self.begin("Connect", f"one mesh; {NAME} stays a Service of each cluster by itself")
        result = self.play(desk, "connect")
        self.seen.phase = phase_of(result)
        self.arrived({name: {name} for name in CLUSTERS})
        say(f"      $ kubectl --context {HOME} exec {CLIENT} -- curl http://{NAME}/  # x {REQUESTS}")
        self.seen.alone = self.counts(HOME)[HOME]

    def share(self, desk: Desk) -> None:
        self.begin("Share", f"{NAME} becomes a global Service: pods of both clusters answer")
        self.play(desk, "services", {"globalServices": [GLOBAL]})
        self.arrived({name: set(CLUSTERS) for name in CLUSTERS})
        self.seen.shared = self.counts(*CLUSTERS)

    def fail_over(self, desk: Desk, lab: Lab) -> None:
        self.begin("Failover", "with affinity Local the own pods answer, if there are any")
        self.play(desk, "services", {"globalServices": [{**GLOBAL, "affinity": "Local"}]})
        self.arrived({HOME: {HOME}})
        self.counts(HOME)
        with Stream(self.clients[HOME]) as stream:
            settled(lambda: tail(stream.replies, STEADY), equals({HOME}))
            gone = self.scale(lab, 0)
            settled(lambda: tail(stream.replies, STEADY), equals({AWAY}))
            self.counts(HOME)
            back = self.scale(lab, REPLICAS)
            settled(lambda: tail([reply for reply in stream.replies if reply.at > back], STEADY), equals({HOME}))
            self.counts(HOME)
        self.seen.failover = Failover(home=HOME, replies=tuple(stream.replies), gone=gone, back=back)
        tell(screen.failed_over(self.seen.failover))

    def decide(self, desk: Desk) -> None:
        self.begin("Policies", f"Allow admits the client of {HOME} and no other")
        intents = {"connectivityIntents": [ALLOW]}
        self.play(desk, "mesh", {"globalServices": [GLOBAL], **intents})
        self.arrived({HOME: set(CLUSTERS), AWAY: {NO_ANSWER}})
        self.seen.allowed = self.counts(*CLUSTERS)
        say("      and a Deny beside it, which wins")
        self.play(desk, "policies", {"connectivityIntents": [ALLOW, DENY]}, new={"connectivityIntents": [DENY]})
        self.arrived({name: {NO_ANSWER} for name in CLUSTERS})
        self.seen.denied = self.counts(*CLUSTERS)

    def cut(self, desk: Desk, lab: Lab) -> None:
        self.begin("Cut", "all are admitted again; then the tunnel between the nodes is cut")
        self.play(desk, "policies", {"connectivityIntents": []})
        self.arrived({HOME: set(CLUSTERS)})
        self.seen.whole = self.passage(desk, REACHED)
        say(f"\n      a firewall drops {TUNNEL}; agents notice it at one of their next probes")
        lab.block(*CLUSTERS, TUNNEL)
        self.seen.cut = self.passage(desk, TUNNEL_CUT)
        say(f"\n      the firewall lets {TUNNEL} pass again")
        lab.heal(*CLUSTERS)
        self.seen.healed = self.passage(desk, REACHED)

    # What they have in common

    def play(self, desk: Desk, playbook: str, parts: Object | None = None, *, new: Object | None = None) -> Object:
        """Run a playbook and return its result. ``parts``: of mesh.yml, beside the binding; ``new``: those to show, if not all.

        :raises StageFailed: it failed; its output is shown
        """
        if parts is not None:
            desk.write("mesh.json", {"cilium_mesh": {**MESH, **parts}})
            tell(screen.file(new or parts))
        say(f"      $ ansible-playbook edge_portal.cilium_mesh.{playbook}")
        status, output, result = outcome(desk, playbook)
        if status:
            say(output)
            raise StageFailed(f"ansible-playbook edge_portal.cilium_mesh.{playbook} ended with status {status}. Its output says why.")
        tell(screen.outcome(output, BINDING))
        return result

    def passage(self, desk: Desk, wanted: Paths) -> Passage:
        """What requests, agents and the playbook ``status`` say of the packets between the clusters, once they say what is wanted."""
        count = self.counts(HOME)[HOME]
        say("      $ kubectl --namespace kube-system exec ds/cilium -- cilium-health status")
        paths, (_status, output, result) = settled(
            lambda: (settled(self.paths, lambda found: set(found.values()) == {wanted}, every=2), outcome(desk, "status")),
            lambda found: nodes_reachable(found[1][2])["reason"] == REASONS[wanted],
        )
        tell(screen.path(*pair, found) for pair, found in paths.items())
        say("      $ ansible-playbook edge_portal.cilium_mesh.status")
        tell(screen.outcome(output, BINDING))
        tell(screen.condition(nodes_reachable(result)))
        return Passage(paths=paths, phase=phase_of(result), condition=nodes_reachable(result)["reason"], count=count)

    def paths(self) -> dict[tuple[str, str], Paths]:
        """What each agent says of the node of the other cluster."""
        return {(name, peer): self.agents[name].paths(f"{peer}/{peer}-node1") for name, peer in PAIRS}

    def arrived(self, wanted: Mapping[str, set[str]]) -> None:
        """Wait until agents do what a playbook has just written."""
        for name, who in wanted.items():
            settled(partial(self.clients[name].count, SAMPLE), partial(answered, clusters=who))

    def counts(self, *names: str) -> dict[str, Count]:
        """The answers to `REQUESTS` requests of each of these clients, which are shown."""
        found = {name: self.clients[name].count() for name in names}
        for name, count in found.items():
            tell(screen.counted(name, count, CLUSTERS))
        return found

    def scale(self, lab: Lab, replicas: int) -> float:
        """Change the number of pods in the first cluster; return when that began."""
        say(f"      $ kubectl --context {HOME} scale deployment {NAME} --replicas={replicas}")
        now = time.time()
        lab.clusters[HOME].api.patch(WEB, {"spec": {"replicas": replicas}})
        return now


def tell(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def settled(ask: Callable[[], T], good: Callable[[T], bool], every: float = 0.2) -> T:
    """Return the first answer that is good, or the last one after `LIMIT`. ``every``: seconds between two."""
    budget = Budget(LIMIT)
    while not good(found := ask()) and not budget.is_spent():
        time.sleep(every)
    return found


def outcome(desk: Desk, playbook: str) -> tuple[int, str, Object]:
    """Run a playbook; return its exit status, what it printed, and its result."""
    output = desk.path / "output"
    run = desk.run(playbook, output=output)
    return run.status, output.read_text(encoding="utf-8"), run.mesh_result or {}


def phase_of(result: Object) -> str:
    """Return the phase of the binding, "" if there is none."""
    return str(_binding(result).get("phase", ""))


def nodes_reachable(result: Object) -> Mapping[str, str]:
    """Return the binding's condition NodesReachable."""
    rows = _binding(result).get("conditions") or []
    none = {"type": "NodesReachable", "status": "Unknown", "reason": "", "message": "there is no such condition"}
    return next((row for row in rows if row["type"] == none["type"]), none)


def _binding(result: Object) -> Object:
    return (result.get("status") or {}).get("binding") or {}


def main() -> int:
    return TrafficDemo().perform(f"Demo of edge_portal.cilium_mesh: requests in {' and '.join(CLUSTERS)}.")


if __name__ == "__main__":
    sys.exit(main())
