# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading of the traffic that enters the pods of intents now, before these are written. Does I/O; errors become texts.

Who speaks to a pod decides nothing: it ranks what is told of a plan. So no error ends a run, and the cost is bounded: requests of one
intent and cluster are one list of its pods and at most ``LIMITS.agents`` calls of agents, those of one cluster one list of agents.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ..base.errors import ClusterError
from ..items.models import ConnectivityIntent
from ..items.scene import Scene
from ..kube.client import Cluster
from ..mesh.flow_facts import SeenFlows
from .hubble import Agents, ask_agents, hubble_on, observe_command, read_agents
from .intent_probe import AHEAD
from .limits import Limits
from .pods import pods_of, read_pods
from .verdict import PASSED, flow_outcome

LIMITS: Final = Limits(total=30.0, flows=500, exec_seconds=5.0)
"""Of one run. ``total`` is what the slowest cluster may take."""


def read_seen_flows(
    wanted: Mapping[str, Sequence[ConnectivityIntent]],
    scene: Scene,
    clusters: Mapping[str, Cluster],
    *,
    now: datetime,
    parallel: int = 10,
    limits: Limits = LIMITS,
) -> dict[tuple[str, str], SeenFlows]:
    """Return the traffic by (name of the intent, inventory name), of every pair that is wanted.

    :param wanted: by inventory name, the intents to whose destination pods there the traffic is read. After ``limits.intents`` of them
        the others are left out.
    """
    if not wanted:
        return {}
    ends = time.monotonic() + limits.total
    with ThreadPoolExecutor(max(1, min(parallel, len(wanted)))) as pool:
        pending = [
            pool.submit(_of_cluster, host, intents, scene, clusters.get(host), now, limits, ends) for host, intents in wanted.items()
        ]
        return {pair: seen for future in pending for pair, seen in future.result().items()}


def _of_cluster(
    host: str, intents: Sequence[ConnectivityIntent], scene: Scene, cluster: Cluster | None, now: datetime, limits: Limits, ends: float
) -> dict[tuple[str, str], SeenFlows]:
    nothing = SeenFlows(now=now, window=limits.window)
    if cluster is None or not hubble_on(scene.facts[host]):
        why = f"Hubble is off in {host}" if cluster else f"{host} does not answer"
        return {(intent.name, host): replace(nothing, unknown=why) for intent in intents}
    agents = read_agents(cluster, scene.facts[host])
    found = {}
    for place, intent in enumerate(intents):
        if place >= limits.intents or time.monotonic() >= ends:
            limit = f"that of {limits.intents} intents" if place >= limits.intents else f"for {limits.total:g} s"
            found[intent.name, host] = replace(nothing, unknown=f"traffic in {host} is read {limit} in one run")
            continue
        found[intent.name, host] = _of_intent(intent, host, scene, cluster, agents, nothing, limits, ends - time.monotonic())
    return found


def _of_intent(
    intent: ConnectivityIntent, host: str, scene: Scene, cluster: Cluster, agents: Agents, nothing: SeenFlows, limits: Limits, left: float
) -> SeenFlows:
    to = replace(intent, source=None, ports=())  # whoever speaks to the pods, on whichever port
    name = scene.names.get(host, host)
    since = nothing.now - timedelta(seconds=limits.window)
    command = observe_command(to, scene.facts[host], sources=(), destination=name, since=since, last=limits.flows)
    answer = ask_agents(cluster, agents, _nodes(to, host, scene, cluster, limits), command, limits, timeout=left)
    if not answer.asked:
        return replace(nothing, unknown=answer.notes[0] if answer.notes else f"no agent of {host} answered")
    passed = (flow for flow in answer.flows if flow_outcome(flow) in PASSED and flow.reply is not True and not flow.answers)
    flows = tuple(flow for flow in passed if since <= flow.time <= nothing.now + AHEAD and flow.destination.cluster == name)
    full = [f"each agent of {host} returns its last {limits.flows} flows at most"] if len(answer.flows) >= limits.flows else []
    return replace(nothing, flows=flows, notes=(*full, *answer.notes))


def _nodes(intent: ConnectivityIntent, host: str, scene: Scene, cluster: Cluster, limits: Limits) -> set[str] | None:
    """Return the nodes of the destination's pods; None where they cannot be read, or are in too many namespaces."""
    selection = intent.destination
    known = pods_of(selection, scene.traffic[host]) if selection.all_namespaces else ()
    namespaces = {pod.namespace for pod in known or ()} if selection.all_namespaces else {selection.namespace}
    if len(namespaces) != 1:
        return None
    try:
        pods = read_pods(cluster, selection, namespaces.pop(), limits.pods)
    except ClusterError:
        return None
    return {pod.node for pod in pods if pod.node and pod.has_identity}
