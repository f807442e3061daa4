# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Query of agents for the flows that an intent is about.

The command is the ``hubble`` program that every agent image contains (cilium: images/cilium/Dockerfile, also HUBBLE_SERVER there),
with options that it has in all versions from 1.15 on. It is a list of arguments: text of tenants never reaches a shell. Agents filter
to keep the answer short; ``verdict.concerned`` decides which flows count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ..base.conditions import timestamp
from ..base.errors import ClusterError
from ..items.models import ConnectivityIntent, PodSelection, PortRule
from ..kube.client import Cluster
from ..mesh.facts.cluster import ClusterFacts, PodFacts
from ..mesh.facts.flows import Flow
from ..mesh.versions.cilium_config import enabled, setting
from ..observe.pods import AGENT, pod_facts
from ..observe.reads import pods_read
from .flows import parse_flows
from .limits import Limits

SOCKET: Final = "/var/run/cilium/hubble.sock"
CONTAINER: Final = "cilium-agent"
_TYPES: Final = ("drop", "policy-verdict", "trace:to-endpoint")
_PORTS: Final = 30  # above this number the ports are not part of the query


@dataclass(frozen=True, kw_only=True)
class Flows:
    """Flows that the agents of one cluster reported."""

    flows: tuple[Flow, ...] = ()
    asked: int = 0  # agents that answered
    notes: tuple[str, ...] = ()  # agents that could not be queried or were left out


@dataclass
class Agents:
    """Agents of one cluster, read once for a run.

    ``by_node``: node name -> pod name; ``problem`` when they could not be listed.
    """

    by_node: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def hubble_on(facts: ClusterFacts) -> bool:
    """Return whether agents keep flows, by cilium-config."""
    return enabled(facts, "enable-hubble")


def read_agents(cluster: Cluster, facts: ClusterFacts) -> Agents:
    """Return the agents that run."""
    try:
        pods = pod_facts(pods_read(facts.namespace).run(cluster), AGENT)
    except ClusterError as error:
        return Agents(problem=error.clause)
    return Agents(by_node={pod.node: pod.name for pod in pods if _usable(pod)})


def observe_command(
    intent: ConnectivityIntent, facts: ClusterFacts, *, sources: Sequence[str], destination: str, since: datetime, last: int
) -> list[str]:
    """Return the command that observes the flows of an intent.

    :param sources: cluster-names; of several label options Hubble takes either (cilium: pkg/hubble/filters/labels.go).
    :param destination: cluster-name.
    """
    command = _command(facts, since, last)
    if intent.source is not None:
        for name in sources:
            command += ["--from-label", _labels(intent.source, name)]
    command += ["--to-label", _labels(intent.destination, destination)]
    for port in _exact_ports(intent.ports):
        command += ["--to-port", str(port)]
    return command


def observe_pods_command(
    selections: Iterable[PodSelection], facts: ClusterFacts, *, destination: str, since: datetime, last: int
) -> list[str]:
    """Return the command that observes the flows from anywhere to pods of any of the selections. ``destination``: their cluster-name."""
    return [*_command(facts, since, last), *(word for one in selections for word in ("--to-label", _labels(one, destination)))]


def _command(facts: ClusterFacts, since: datetime, last: int) -> list[str]:
    socket = setting(facts, "hubble-socket-path", SOCKET)
    command = ["hubble", "observe", "--server", f"unix://{socket}", "-o", "jsonpb", "--since", timestamp(since), "--last", str(last)]
    for kind in _TYPES:
        command += ["--type", kind]
    return command


def ask_agents(
    cluster: Cluster, agents: Agents, nodes: Collection[str] | None, command: Sequence[str], limits: Limits, *, timeout: float
) -> Flows:
    """Run the command in the agents of ``nodes`` (None: any), as many as the limits allow. Errors become notes.

    :param timeout: seconds for all of them.
    """
    if agents.problem:
        return Flows(notes=(f"the agents of {cluster.host} could not be listed: {agents.problem}",))
    there = sorted(agents.by_node if nodes is None else set(nodes) & set(agents.by_node))
    notes: list[str] = []
    if not there:
        return Flows(notes=(f"no agent runs on the nodes in question in {cluster.host}",))
    if len(there) > limits.agents:
        notes.append(f"flows were requested from {limits.agents} of {len(there)} nodes in {cluster.host}")
    flows: list[Flow] = []
    answered = 0
    share = timeout / min(len(there), limits.agents)
    for node in there[: limits.agents]:
        try:
            result = cluster.exec(agents.by_node[node], CONTAINER, list(command), timeout=min(limits.exec_seconds, share), partial=True)
        except ClusterError as error:
            notes.append(f"the agent on node {node} of {cluster.host} could not be asked: {error.clause}")
            continue
        if result.exit_code > 0:
            notes.append(f"hubble observe on node {node} of {cluster.host} ended with exit code {result.exit_code}")
            continue
        answer = parse_flows(result.stdout, limit=limits.output)
        answered += 1
        flows += answer.flows
        notes += _imperfect(answer.broken, answer.lost, f"node {node} of {cluster.host}", late=result.exit_code < 0)
    return Flows(flows=tuple(flows), asked=answered, notes=tuple(notes))


def _usable(pod: PodFacts) -> bool:
    return pod.phase == "Running" and bool(pod.node)


def _labels(selection: PodSelection, cluster: str) -> str:
    """Return one label option, all of which has to hold. Expressions are left to ``concerned``."""
    pairs = [f"k8s:{key}={value}" for key, value in sorted(selection.labels.items())]
    namespace = [] if selection.all_namespaces else [f"k8s:io.kubernetes.pod.namespace={selection.namespace}"]
    return ",".join([f"k8s:io.cilium.k8s.policy.cluster={cluster}", *namespace, *pairs])


def _exact_ports(rules: Iterable[PortRule]) -> tuple[int, ...]:
    """Return the ports; () when a rule is not a single port, since servers before 1.20 filter by single ports only."""
    found = tuple(rules)
    single = all(r.port and r.protocol not in ("ICMP", "ICMPv6") and r.end_port in (0, r.port) for r in found)
    return tuple(sorted({r.port for r in found})) if single and len(found) <= _PORTS else ()


def _imperfect(broken: int, lost: int, where: str, *, late: bool) -> list[str]:
    notes = [f"{where} had not ended its answer in time"] if late else []
    notes += [f"{broken} lines from {where} were in no known form"] if broken > late else []
    return [*notes, *([f"{where} lost {lost} events"] if lost else [])]
