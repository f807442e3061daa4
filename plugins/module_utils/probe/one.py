# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One intent: what its probe has read, and the flows that agents saw. Does I/O, raises nothing of ClusterError."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ..errors import ClusterError
from ..items.models import ConnectivityIntent, PodSelection
from ..items.scene import Scene
from ..kube import Cluster
from .changed import last_change, policies_of
from .hubble import Agents, Flows, ask_agents, hubble_on, observe_command, read_agents
from .limits import Limits
from .pairs import Case
from .pods import PodSeen, read_pods
from .selecting import pods_of
from .verdict import concerned, judge

_AHEAD = timedelta(minutes=10)  # a node's clock may be ahead of ours; a flow from further in the future is nonsense


@dataclass
class Ground:
    """What the probes of one run share. ``ends`` is time.monotonic at which all of it is over."""

    scene: Scene
    clusters: Mapping[str, Cluster]
    limits: Limits
    image: str
    now: datetime
    ends: float
    agents: dict[str, Agents] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def agents_of(self, host: str) -> Agents:
        with self.lock:
            if host not in self.agents:
                self.agents[host] = read_agents(self.clusters[host], self.scene.facts[host])
            return self.agents[host]


class Probing:
    """One intent on its ground."""

    def __init__(self, intent: ConnectivityIntent, ground: Ground) -> None:
        self.intent = intent
        self.ground = ground
        self.scene = ground.scene
        self.limits = ground.limits
        self.ends = min(ground.ends, time.monotonic() + ground.limits.per_intent)
        self.code = ""
        self._pods: dict[tuple[str, bool], tuple[PodSeen, ...] | None] = {}
        self._since: dict[str, datetime] = {}

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - time.monotonic()

    def cluster_name(self, host: str) -> str:
        return self.scene.names.get(host, host)

    def since(self, case: Case) -> datetime:
        """From when on flows count for the pair."""
        return max(self._since[case.destination], self.ground.now - timedelta(seconds=self.limits.window))

    def settled(self) -> float:
        """Seconds until the youngest policy is taken to be in force everywhere."""
        return max((time - datetime.now(UTC)).total_seconds() for time in self._since.values())

    def side(self, host: str, *, source: bool) -> tuple[PodSeen, ...] | None:
        """The pods of one side in one cluster; None when they cannot be told. Read once."""
        key = (host, source)
        if key not in self._pods:
            selection = self.intent.source if source else self.intent.destination
            self._pods[key] = None if selection is None else self._read(host, selection)
        return self._pods[key]

    def look(self, cases: Sequence[Case], *, again: bool) -> None:
        """Judge the open pairs by what agents saw. ``again``: after a Job, which may have made the flows itself."""
        for host in dict.fromkeys(case.destination for case in cases if case.open):
            about = [case for case in cases if case.open and case.destination == host]
            if not hubble_on(self.scene.facts[host]):
                note(about, f"Hubble is off in {host}")
                continue
            self._judge(about, host, self._ask(host, about, source=False), again=again)
        if self.intent.action != "Allow":
            return  # a drop at the source is no proof of what happens at the destination
        for host in dict.fromkeys(case.source for case in cases if case.open):
            about = [case for case in cases if case.open and case.source == host]
            if hubble_on(self.scene.facts[host]):
                for case in about:
                    self._judge([case], case.destination, self._ask(host, [case], source=True), again=again)

    def _ask(self, host: str, about: Sequence[Case], *, source: bool) -> Flows:
        facts = self.scene.facts[host]
        command = observe_command(
            self.intent,
            facts,
            sources=[self.cluster_name(case.source) for case in about if case.source],
            destination=self.cluster_name(about[0].destination),
            since=min(self.since(case) for case in about),
            last=self.limits.flows,
        )
        pods = self.side(host, source=source)
        nodes = None if pods is None else {pod.node for pod in pods if pod.node and pod.has_identity}
        if self.left <= 0:
            return Flows(notes=("time was up",))
        return ask_agents(self.ground.clusters[host], self.ground.agents_of(host), nodes, command, self.limits, timeout=self.left)

    def _judge(self, about: Sequence[Case], host: str, found: Flows, *, again: bool) -> None:
        own = policies_of(self.intent.name, self.scene, host)
        alone = len(own) == len(self.scene.traffic[host].policies)
        for case in about:
            source = self.cluster_name(case.source) if case.source else ""
            chosen = concerned(
                found.flows,
                self.intent,
                source=source,
                destination=self.cluster_name(host),
                since=self.since(case),
                until=self.ground.now + _AHEAD,
            )
            case.notes += found.notes
            if found.asked and not chosen and not again:
                case.notes.append(f"no flow between the two was seen since {self.since(case):%H:%M:%SZ}")
            if found.asked:
                case.judged(judge(self.intent, chosen, alone=alone), "job" if again else "hubble")

    def usable(self, case: Case) -> bool:
        """Do both clusters answer, and has the destination the policy? Else the pair stays open, with the reason."""
        for host in filter(None, (case.source, case.destination)):
            if host not in self.scene.hosts or host not in self.ground.clusters:
                case.notes.append(f"{host} does not answer")
                return False
        host = case.destination
        if host not in self._since:
            found = last_change(policies_of(self.intent.name, self.scene, host))
            if found is None:
                case.notes.append(f"the policy of the intent is not in {host}")
                return False
            self._since[host] = found + timedelta(seconds=self.limits.settle)
        return True

    def _read(self, host: str, selection: PodSelection) -> tuple[PodSeen, ...] | None:
        """With allNamespaces those of the first namespace that has any: reading all pods of a cluster is no look."""
        namespace = selection.namespace
        if selection.all_namespaces:
            known = pods_of(selection, self.scene.traffic[host])
            if not known:
                return None
            namespace = known[0].namespace
        try:
            found = read_pods(self.ground.clusters[host], selection, namespace, self.limits.pods)
        except ClusterError:
            return None
        return found


def note(cases: Sequence[Case], text: str) -> None:
    """The same reason for all of them."""
    for case in cases:
        case.notes.append(text)
