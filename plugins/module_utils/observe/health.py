# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""State of the links as reported by their readers: kvstoremesh and the agents of a cluster. The presence of Secrets proves nothing.

kvstoremesh: its metrics through pods/proxy; if these do not answer, or do not report every peer as ready, its JSON status by exec, else by
port-forward (its API listens on the pod's localhost). Agents: ``cilium status -o json`` by exec, since their metrics are off by default.

For peers whose configuration was not retrieved ``troubleshoot`` distinguishes dialling, TLS and authorisation: a reader that etcd admits
but grants nothing reports itself as connected. To prove links it is run for every peer, also for one reported as ready: readers report the
connection that they have, and detect one that is gone only after up to 130 s (mesh/versions/minors.py, DELAYS).

Node health comes with the status of the agents, in the same command (node_health.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from ..base.errors import ClusterError, Forbidden, ServerRefused, Unreachable
from ..kube.client import Cluster, ExecResult
from ..mesh.facts.cluster import ClusterFacts, LinkFacts, PodFacts, ReaderFacts
from ..mesh.facts.node_health import NodeReport
from .link_status import PeerMetrics, agent_statuses, kvstoremesh_statuses, link_from_status, parse_metrics
from .new_connections import try_connections
from .node_health import COMMAND, MOST_NODES, agents_to_ask, health_off, parse_node_health, split_answer
from .pods import AGENT, APISERVER, pod_facts
from .reads import pods_read
from .troubleshoot import Hint, parse_troubleshoot

AGENTS_ASKED: Final = 20  # at most; in larger clusters a sample that holds the agents that are not ready, as far as it has room
AT_ONCE: Final = 8
TROUBLESHOOT_AGENTS: Final = 3  # pods; each try costs seconds
TROUBLESHOOT_PEERS: Final = 8
TROUBLESHOOT_SECONDS: Final = 2  # per peer; kept short because it is part of every poll
METRICS_PORT: Final = 9964  # --prometheus-serve-addr of kvstoremesh in every chart
API_PORT: Final = 9889  # --api-serve-addr of kvstoremesh, its default
_CLUSTER_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # names that are safe in a command line

_KVSTOREMESH = ("kvstoremesh", "/usr/bin/clustermesh-apiserver", "kvstoremesh-dbg")
_NO_SHELL: Final = 127
_NO_COMMAND: Final = (126, _NO_SHELL)  # of a runtime that does not find the shell, and of a shell that does not find the program
_AGENT = ("cilium-agent", "cilium")  # since 1.15 a link to cilium-dbg; the cilium CLI calls it too


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """Answer of one pod: its links, or why there are none."""

    links: tuple[LinkFacts, ...] = ()
    problem: str = ""
    forbidden: bool = False
    nodes: tuple[NodeReport, ...] = ()
    nodes_unread: str = ""  # why the agent gave no node health although it was asked


def read_links(
    cluster: Cluster, facts: ClusterFacts, peers: Mapping[str, str], *, prove: bool = False, nodes: int | None = None
) -> ReaderFacts:
    """Query the readers of ``cluster`` about ``peers`` (inventory name -> Cilium's name).

    Raises nothing: errors are problems in the result. Pods are listed afresh, so that it may be called again while workloads roll out.
    Requests: one list, one per pod of clustermesh-apiserver and one per agent, more only while a peer is not ready.

    :param prove: let the readers that dial the peers open new connections; one request more per pod of clustermesh-apiserver (without
        kvstoremesh: for a few agents), see ``new_connections``.
    :param nodes: read node health too, in the same requests; the number of nodes that each agent will report. None: without it.
    """
    try:
        listed = pods_read(facts.namespace).run(cluster)
    except ClusterError as error:
        return ReaderFacts(cluster=facts.host, problems=(error.clause,), forbidden=isinstance(error, Forbidden))
    agents = pod_facts(listed, AGENT)
    asked = _sample(agents)
    probing, unprobed = _probing(facts, asked, nodes)
    meshes = _mesh_pods(pod_facts(listed, APISERVER)) if facts.runs_kvstoremesh else ()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        mesh_answers = [pool.submit(_query_kvstoremesh, cluster, facts.host, pod, peers, prove) for pod in meshes]
        proving = prove and not facts.runs_kvstoremesh
        agent_answers = [
            pool.submit(_query_agent, cluster, facts, pod, peers, i < TROUBLESHOOT_AGENTS, proving, pod in probing)
            for i, pod in enumerate(asked)
        ]
        answers = [future.result() for future in (*mesh_answers, *agent_answers)]
    problems = [answer.problem for answer in answers if answer.problem]
    if facts.runs_kvstoremesh and not meshes:
        problems.insert(0, "No pod of Deployment clustermesh-apiserver runs.")
    if not asked:
        problems.append("No pod of DaemonSet cilium runs.")
    return ReaderFacts(
        cluster=facts.host,
        links=tuple(link for answer in answers for link in answer.links),
        agents_total=max(len(agents), facts.agent.desired if facts.agent else 0),
        agents_asked=len(asked),
        agents_ready=sum(pod.ready for pod in asked),
        agents_unasked=sum(pod.ready for pod in agents) - sum(pod.ready for pod in asked),
        nodes=tuple(report for answer in answers for report in answer.nodes),
        nodes_asked=None if nodes is None else tuple(pod.node for pod in probing),
        nodes_unread=next((answer.nodes_unread for answer in answers if answer.nodes_unread), unprobed),
        problems=tuple(problems),
        forbidden=any(answer.forbidden for answer in answers),
    )


def _probing(facts: ClusterFacts, asked: Sequence[PodFacts], nodes: int | None) -> tuple[tuple[PodFacts, ...], str]:
    """Return the agents that report node health, evenly spread over those that are asked, and why there are none."""
    why = health_off(facts)
    if nodes is None or why or not asked:
        return (), why
    room = agents_to_ask(len(asked), nodes)
    if not room:
        return (), f"each agent would report {nodes} nodes, and {MOST_NODES} are the most that are read"
    return tuple(asked[i * len(asked) // room] for i in range(room)), ""


def _mesh_pods(pods: Sequence[PodFacts]) -> tuple[PodFacts, ...]:
    """Return the ready pods, else the running ones: 1.15 has no readiness probe, and a starting pod can already report its status."""
    running = [pod for pod in pods if pod.phase == "Running"]
    return tuple([pod for pod in running if pod.ready] or running)


def _sample(pods: Sequence[PodFacts]) -> tuple[PodFacts, ...]:
    """Return the running agents that are not ready, then ready ones evenly spread over the names, AGENTS_ASKED in all."""
    running = [pod for pod in pods if pod.phase == "Running"]
    chosen = [pod for pod in running if not pod.ready][:AGENTS_ASKED]
    ready = [pod for pod in running if pod.ready]
    room = min(AGENTS_ASKED - len(chosen), len(ready))
    return (*chosen, *(ready[i * len(ready) // room] for i in range(room)))


def _query_kvstoremesh(cluster: Cluster, host: str, pod: PodFacts, peers: Mapping[str, str], prove: bool) -> _Answer:
    program = (*_KVSTOREMESH, "troubleshoot")
    blanks = [(LinkFacts(cluster=host, peer=peer, reader="kvstoremesh", pod=pod.name, node=pod.node), name) for peer, name in peers.items()]
    metrics = _metrics(cluster, pod)
    gauged = [(_link_from_metrics(link, metrics.get(name)), name) for link, name in blanks] if metrics is not None else []
    if metrics is not None and all(name in metrics and metrics[name].ready for name in peers.values()):
        return _Answer(links=_proven(cluster, pod, program, gauged) if prove else tuple(link for link, name in gauged))
    try:
        output, source = _kvstoremesh_status(cluster, pod)
        statuses = kvstoremesh_statuses(output)
    except ClusterError as error:
        if metrics is not None:
            return _Answer(links=_proven(cluster, pod, program, gauged) if prove else tuple(link for link, name in gauged))
        return _Answer(problem=f"kvstoremesh in pod {pod.name} cannot be queried: {error.clause}", forbidden=isinstance(error, Forbidden))
    if statuses is None:
        return _Answer(problem=f"kvstoremesh in pod {pod.name} reports its status in an unknown form.")
    links = [(link_from_status(replace(link, source=source), statuses.get(name)), name) for link, name in blanks]
    return _Answer(
        links=_proven(cluster, pod, program, links) if prove else _with_hints(cluster, pod, program, links, _lacks_configuration)
    )


def _metrics(cluster: Cluster, pod: PodFacts) -> dict[str, PeerMetrics] | None:
    """Return the metrics; None if they cannot be read, since not every control plane reaches the pod network."""
    try:
        return parse_metrics(cluster.get_text(f"/api/v1/namespaces/{cluster.namespace}/pods/{pod.name}:{METRICS_PORT}/proxy/metrics"))
    except ClusterError:
        return None


def _link_from_metrics(link: LinkFacts, found: PeerMetrics | None) -> LinkFacts:
    if found is None:
        return replace(link, source="metrics")
    return replace(
        link,
        source="metrics",
        known=True,
        ready=found.ready,
        connected=found.ready,  # ready implies connected; for a peer that is not ready, the gauges do not say whether it is connected
        failures=found.failures,
        last_failure=found.last_failure,
    )


def _kvstoremesh_status(cluster: Cluster, pod: PodFacts) -> tuple[str, str]:
    """Return (JSON, how it was read).

    :raises ClusterError: when both ways fail: the error of exec, the first of the two.
    """
    container, *command = _KVSTOREMESH
    try:
        return _output(cluster.exec(pod.name, container, [*command, "status", "-o", "json"])), "exec"
    except ClusterError as error:
        try:
            return cluster.forward_get(pod.name, API_PORT, "/v1/cluster"), "port-forward"
        except ClusterError:
            raise error from None


def _query_agent(
    cluster: Cluster, facts: ClusterFacts, pod: PodFacts, peers: Mapping[str, str], troubleshoot: bool, prove: bool, probing: bool
) -> _Answer:
    where = f"The agent in pod {pod.name} on node {pod.node}"
    try:
        output, health = _agent_status(cluster, pod, probing)
        statuses = agent_statuses(output)
    except ClusterError as error:
        return _Answer(problem=f"{where} cannot be queried: {error.clause}", forbidden=isinstance(error, Forbidden))
    if statuses is None:
        return _Answer(problem=f"{where} reports its status in an unknown form.")
    links = []
    for peer, name in peers.items():
        blank = LinkFacts(cluster=facts.host, peer=peer, reader="agent", pod=pod.name, node=pod.node, source="exec")
        links.append((link_from_status(blank, statuses.get(name)), name))
    reports = parse_node_health(health, facts.host, pod.node, peers) if probing else ()
    unread = f"cilium-health of the agent on node {pod.node} gave no answer" if reports is None else ""
    found = _Answer(nodes=reports or (), nodes_unread=unread)
    if not troubleshoot:
        return replace(found, links=tuple(link for link, name in links))
    program = (*_AGENT, "troubleshoot", "clustermesh")
    if prove:
        return replace(found, links=_proven(cluster, pod, program, links))
    # Behind kvstoremesh an agent that is connected waits for kvstoremesh, which is queried itself.
    doubtful = _unconnected if facts.runs_kvstoremesh else _lacks_configuration
    return replace(found, links=_with_hints(cluster, pod, program, links, doubtful))


def _agent_status(cluster: Cluster, pod: PodFacts, probing: bool) -> tuple[str, str]:
    """Return (JSON of the agent's status, that of its node health or "").

    :raises ClusterError: when the status cannot be read. Node health alone raises nothing.
    """
    container, *command = _AGENT
    if probing:
        try:
            result = cluster.exec(pod.name, container, list(COMMAND), partial=True)
        except ServerRefused:
            result = ExecResult(stdout="", stderr="", exit_code=_NO_SHELL)  # or the answer is too long; without node health it is not
        status, health = split_answer(result.stdout)
        if result.exit_code == -1 and not health:
            raise Unreachable("its status command did not end in time.", cluster=cluster.host)
        if result.exit_code not in _NO_COMMAND:
            return _output(result) if result.exit_code > 0 else status, health
    return _output(cluster.exec(pod.name, container, [*command, "status", "-o", "json"])), ""


def _proven(cluster: Cluster, pod: PodFacts, program: Sequence[str], links: Sequence[tuple[LinkFacts, str]]) -> tuple[LinkFacts, ...]:
    """Return the links with the result of a new connection to each peer. A peer that the reader does not list is not tried."""
    names = [name for link, name in links if link.known and _CLUSTER_NAME.fullmatch(name)]
    hints, why = try_connections(cluster, pod.name, program, names) if names else ({}, "")
    return tuple(_with_proof(link, hints.get(name), why) if name in names else link for link, name in links)


def _with_proof(link: LinkFacts, hint: Hint | None, why: str) -> LinkFacts:
    if hint is None:
        return replace(link, proof="unknown", proof_note=why)
    if hint.connected:
        return replace(link, proof="proven")
    if not hint.error:
        return replace(link, proof="unknown", proof_note="the output of troubleshoot about it is in an unknown form")
    still = f"{link.reader} still reports ready; a new connection fails: " if link.ready else ""
    return replace(link, proof="refuted", stage_hint=hint.stage, error=still + hint.error)


def _unconnected(link: LinkFacts) -> bool:
    return link.known and not link.connected


def _lacks_configuration(link: LinkFacts) -> bool:
    return link.known and not link.ready and not link.config_retrieved


def _output(result: ExecResult) -> str:
    """Return the output of a status command.

    :raises ServerRefused: with the exit code alone, when it failed: the command's output is not repeated.
    """
    if result.exit_code != 0:
        raise ServerRefused(f"its status command ended with exit code {result.exit_code}.")
    return result.stdout


def _with_hints(
    cluster: Cluster, pod: PodFacts, program: Sequence[str], links: Sequence[tuple[LinkFacts, str]], doubtful: Callable[[LinkFacts], bool]
) -> tuple[LinkFacts, ...]:
    """Return the links, the doubtful ones with the step that fails. Best effort: without an answer they stay as they are."""
    names = [name for link, name in links if doubtful(link) and _CLUSTER_NAME.fullmatch(name)][:TROUBLESHOOT_PEERS]
    if not names:
        return tuple(link for link, name in links)
    container, *command = program
    seconds = (TROUBLESHOOT_SECONDS + 1) * len(names) + 2
    try:
        result = cluster.exec(pod.name, container, [*command, f"--timeout={TROUBLESHOOT_SECONDS}s", *names], timeout=float(seconds))
        hints = parse_troubleshoot(result.stdout)
    except ClusterError:
        hints = {}
    nothing = Hint()
    return tuple(
        replace(link, stage_hint=hints.get(name, nothing).stage, error=hints.get(name, nothing).error) if name in names else link
        for link, name in links
    )
