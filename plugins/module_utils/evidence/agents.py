# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Calls of ``hubble observe`` in agents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ..base.errors import ClusterError
from ..kube.client import Cluster
from ..mesh.facts.cluster import PodFacts
from ..mesh.facts.flows import Flow
from ..observe.pods import AGENT, pod_facts
from ..observe.reads import pods_read
from ..probe.flows import parse_flows
from ..probe.hubble import Agents, Flows
from ..probe.limits import Limits

CONTAINER: Final = "cilium-agent"


def read_agents(cluster: Cluster, namespace: str) -> Agents:
    """Return the agents that run in the namespace of Cilium. An error is their ``problem``."""
    try:
        pods = pod_facts(pods_read(namespace).run(cluster), AGENT)
    except ClusterError as error:
        return Agents(problem=error.clause)
    return Agents(by_node={pod.node: pod.name for pod in pods if _usable(pod)})


def ask_agents(
    cluster: Cluster, agents: Agents, nodes: Collection[str] | None, command: Sequence[str], limits: Limits, *, timeout: float
) -> Flows:
    """Run the command in the agents of ``nodes`` (None: any), as many as the limits allow. Errors become notes.

    :param timeout: seconds for all of them.
    """
    if agents.problem:
        return Flows(notes=(f"the agents of {cluster.host} could not be listed: {agents.problem}",))
    nodes_asked = sorted(agents.by_node if nodes is None else set(nodes) & set(agents.by_node))
    notes: list[str] = []
    if not nodes_asked:
        return Flows(notes=(f"no agent runs on the nodes in question in {cluster.host}",))
    if len(nodes_asked) > limits.agents:
        notes.append(f"flows were requested from {limits.agents} of {len(nodes_asked)} nodes in {cluster.host}")
    flows: list[Flow] = []
    answered = 0
    share = timeout / min(len(nodes_asked), limits.agents)
    for node in nodes_asked[: limits.agents]:
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


def _imperfect(broken: int, lost: int, where: str, *, late: bool) -> list[str]:
    notes = [f"{where} had not ended its answer in time"] if late else []
    notes += [f"{broken} lines from {where} were in no known form"] if broken > late else []
    return [*notes, *([f"{where} lost {lost} events"] if lost else [])]
