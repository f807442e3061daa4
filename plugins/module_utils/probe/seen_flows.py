# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading of the traffic that enters the pods of intents now, before these are written. Errors become texts.

Who speaks to a pod decides nothing: it ranks findings of a plan. So no error ends a run, and the cost is bounded. Requests of a cluster
are one list of its agents, one list of pods for each of ``LIMITS.intents`` intents, and one call of each of ``LIMITS.agents`` agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ..base.awaited import awaited
from ..base.errors import ClusterError
from ..base.tally import Tally, no_progress
from ..items.models import PodSelection
from ..items.scene import Scene
from ..mesh.facts.flows import SeenFlows
from .evidence import Evidence
from .hubble import hubble_on, observe_pods_command
from .intent_probe import AHEAD
from .limits import Limits
from .pods import pods_of
from .verdict import PASSED, flow_outcome

LIMITS: Final = Limits(total=30.0, flows=500, exec_seconds=5.0)
"""Of one cluster and run; clusters are read side by side."""


def read_seen_flows(
    wanted: Mapping[str, Sequence[PodSelection]],
    scene: Scene,
    evidence: Evidence,
    *,
    now: datetime,
    parallel: int = 10,
    limits: Limits = LIMITS,
    progress: Callable[[Tally], None] = no_progress,
) -> dict[str, SeenFlows]:
    """Return the traffic to the pods that are wanted, by inventory name.

    :param wanted: by inventory name, the destinations of intents. After ``limits.intents`` of them the others are left out.
    :param progress: called in this thread with the clusters that answered, about twice a second and at the end.
    """
    with ThreadPoolExecutor(max(1, min(parallel, len(wanted)))) as pool:
        read = {host: pool.submit(_of_cluster, host, sides, scene, evidence, now, limits) for host, sides in wanted.items()}

        def tick() -> None:
            late = [host for host, future in read.items() if not future.done()]
            progress(Tally(len(read) - len(late), len(read), f"agents of {late[0]} have not answered" if late else ""))

        return dict(zip(read, awaited(list(read.values()), tick), strict=True))


def _of_cluster(host: str, sides: Sequence[PodSelection], scene: Scene, evidence: Evidence, now: datetime, limits: Limits) -> SeenFlows:
    nothing = SeenFlows(now=now, window=limits.window)
    if host not in evidence.hosts or not hubble_on(scene.facts[host]):
        return replace(nothing, unknown=f"Hubble is off in {host}" if host in evidence.hosts else f"{host} does not answer")
    ends = evidence.clocks.clock() + limits.total
    agents, name = evidence.agents(host, scene.facts[host].namespace), scene.names.get(host, host)
    since, chosen = now - timedelta(seconds=limits.window), sides[: limits.intents]
    command = observe_pods_command(chosen, scene.facts[host], destination=name, since=since, last=limits.flows)
    nodes = None if agents.problem else _nodes(chosen, host, scene, evidence, limits)
    answer = evidence.flows(host, agents, nodes, command, limits, timeout=max(1.0, ends - evidence.clocks.clock()))
    if not answer.asked:
        return replace(nothing, unknown=answer.notes[0] if answer.notes else f"no agent of {host} answered")
    passed = (flow for flow in answer.flows if flow_outcome(flow) in PASSED and flow.reply is not True and not flow.answers)
    flows = tuple(flow for flow in passed if since <= flow.time <= now + AHEAD and flow.destination.cluster == name)
    notes = [f"each agent of {host} returns its last {limits.flows} flows at most"] if len(answer.flows) >= limits.flows else []
    notes += [f"flows were requested for {limits.intents} of {len(sides)} intents in {host}"] if len(sides) > limits.intents else []
    return replace(nothing, flows=flows, notes=(*notes, *answer.notes))


def _nodes(sides: Iterable[PodSelection], host: str, scene: Scene, evidence: Evidence, limits: Limits) -> set[str] | None:
    """Return the nodes of the pods; None where they cannot be read, or where one selection has pods in several namespaces."""
    found: set[str] = set()
    for side in sides:
        known = pods_of(side, scene.traffic[host]) or ()
        namespaces = {pod.namespace for pod in known} if side.all_namespaces else {side.namespace}
        if len(namespaces) != 1:
            return None
        try:
            found |= {pod.node for pod in evidence.pods(host, side, namespaces.pop(), limits.pods) if pod.node and pod.has_identity}
        except ClusterError:
            return None
    return found
