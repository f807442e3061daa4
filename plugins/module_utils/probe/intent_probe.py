# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Probe of one intent: its pods, and the flows that agents observed. It reaches clusters by its ``Evidence``; an error becomes a note."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..base.errors import ClusterError
from ..base.json_fields import parse_time
from ..items.models import ConnectivityIntent, PodSelection
from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import ObjectFacts
from .evidence import Evidence
from .hubble import Agents, Flows, hubble_on, observe_command
from .limits import Limits
from .pairs import Case
from .pods import ProbedPod, pods_of
from .verdict import flows_of_intent, judge

AHEAD = timedelta(minutes=10)  # a node's clock may be ahead of ours; a flow from further in the future does not count


@dataclass
class ProbeContext:
    """Context that the probes of one run share. ``ends``: seconds of ``evidence.clocks.clock`` at which the probes are over."""

    scene: Scene
    evidence: Evidence
    limits: Limits
    image: str
    now: datetime
    ends: float
    agents: dict[str, Agents] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    under_way: dict[str, str] = field(default_factory=dict)  # by intent: what its probe does; in the order in which they began

    def agents_of(self, host: str) -> Agents:
        """Return the agents of a cluster, read once."""
        with self.lock:
            if host not in self.agents:
                self.agents[host] = self.evidence.agents(host, self.scene.facts[host].namespace)
            return self.agents[host]

    def note(self, name: str, what: str) -> None:
        """Note what the probe of an intent does now."""
        self.under_way[name] = what

    def oldest(self) -> str:
        """Return which probe has been under way for longest, and what it does; "" if none is."""
        return next((f"{name} {what}" for name, what in self.under_way.copy().items()), "")


class IntentProbe:
    """State of probing one ConnectivityIntent: pods read, policy age, time left."""

    def __init__(self, intent: ConnectivityIntent, context: ProbeContext) -> None:
        self.intent = intent
        self.context = context
        self.scene = context.scene
        self.limits = context.limits
        self.clocks = context.evidence.clocks
        self.ends = min(context.ends, self.clocks.clock() + context.limits.per_intent)
        self.code = ""
        self._pods: dict[tuple[str, bool], tuple[ProbedPod, ...] | None] = {}
        self._since: dict[str, datetime] = {}

    @property
    def left(self) -> float:
        """Seconds until the probe is over."""
        return self.ends - self.clocks.clock()

    def is_at(self, what: str) -> None:
        """Note what the probe does now."""
        self.context.note(self.intent.name, what)

    def cluster_name(self, host: str) -> str:
        """Return the cluster name of a member."""
        return self.scene.names.get(host, host)

    def since(self, case: Case) -> datetime:
        """Return the time from which flows count for the pair."""
        return max(self._since[case.destination], self.context.now - timedelta(seconds=self.limits.window))

    def settled(self) -> float:
        """Return the seconds until the youngest policy is expected to be in force on all nodes."""
        return max((time - self.clocks.now()).total_seconds() for time in self._since.values())

    def side(self, host: str, *, source: bool) -> tuple[ProbedPod, ...] | None:
        """Return the pods of one side in one cluster, read once; None when they are unknown."""
        key = (host, source)
        if key not in self._pods:
            selection = self.intent.source if source else self.intent.destination
            self._pods[key] = None if selection is None else self._read(host, selection)
        return self._pods[key]

    def judge_by_flows(self, cases: Sequence[Case], *, again: bool) -> None:
        """Judge the open pairs by the flows that agents observed. ``again``: after a Job, which may be their cause."""
        for host in dict.fromkeys(case.destination for case in cases if case.open):
            about = [case for case in cases if case.open and case.destination == host]
            if not hubble_on(self.scene.facts[host]):
                add_note(about, f"Hubble is off in {host}")
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
            return Flows(notes=("the time for probes was used up",))
        self.is_at(f"asks agents of {host} for flows")
        return self.context.evidence.flows(host, self.context.agents_of(host), nodes, command, self.limits, timeout=self.left)

    def _judge(self, about: Sequence[Case], host: str, found: Flows, *, again: bool) -> None:
        own = policies_of(self.intent.name, self.scene, host)
        alone = len(own) == len(self.scene.traffic[host].policies)
        for case in about:
            source = self.cluster_name(case.source) if case.source else ""
            chosen = flows_of_intent(
                found.flows,
                self.intent,
                source=source,
                destination=self.cluster_name(host),
                since=self.since(case),
                until=self.context.now + AHEAD,
            )
            case.notes += found.notes
            if found.asked and not chosen and not again:
                case.notes.append(f"no flow between the two was recorded since {self.since(case):%H:%M:%SZ}")
            if found.asked:
                case.judged(judge(self.intent, chosen, alone=alone), "job" if again else "hubble")

    def usable(self, case: Case) -> bool:
        """Return whether both clusters answer and the destination has the policy. If not, the pair gets the reason."""
        for host in filter(None, (case.source, case.destination)):
            if host not in self.scene.hosts or host not in self.context.evidence.hosts:
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

    def _read(self, host: str, selection: PodSelection) -> tuple[ProbedPod, ...] | None:
        """Read the pods of a selection.

        With allNamespaces only those of the first namespace that has any: reading all pods of a cluster would cost too much.
        """
        namespace = selection.namespace
        if selection.all_namespaces:
            known = pods_of(selection, self.scene.traffic[host])
            if not known:
                return None
            namespace = known[0].namespace
        try:
            found = self.context.evidence.pods(host, selection, namespace, self.limits.pods)
        except ClusterError:
            return None
        return found


def add_note(cases: Sequence[Case], text: str) -> None:
    """Add the same reason to all of the pairs."""
    for case in cases:
        case.notes.append(text)


def policies_of(name: str, scene: Scene, host: str) -> tuple[ObjectFacts, ...]:
    """Return the policies of the intent in a cluster."""
    ref = ItemRef(ItemKind.INTENT, name)
    return tuple(entry for entry in scene.traffic[host].policies if owning_item(scene.binding, entry) == ref)


def last_change(policies: tuple[ObjectFacts, ...]) -> datetime | None:
    """Return the newest change of the policies; None when there is none, or the time of one is unknown."""
    times = [parse_time(max(entry.changed, entry.created)) for entry in policies]
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None
