# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Node health of agents: one command for it and for the agent's status, and the parser of its answer.

``cilium status`` leaves node health out of its JSON (cilium-dbg/cmd/status.go prints the agent's own status alone), so ``cilium-health
status`` runs after it in the same exec, which costs no further request. The agent's image has a shell: the charts of every minor start
their init containers with ``sh -ec``. The answer of cilium-health repeats what peers published (names and addresses of nodes), so it is not
trusted; a line that is no JSON stands between the two, and JSON texts hold no line ends.

The answer is that of the last probes, which agents make every 10 to 110 s and less often in large meshes (pkg/health/server/prober.go):
nothing is probed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ..base.json_fields import items, mapping, parse_time, text
from ..base.json_reader import NotJson, load_json
from ..base.redact import one_line
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.node_health import MOST_FAILED, FailedNode, NodePath, NodeReport
from ..mesh.versions.cilium_config import enabled

BETWEEN: Final = "---"
COMMAND: Final = ("sh", "-c", f"cilium status -o json || exit; echo {BETWEEN}; cilium-health status -o json 2>/dev/null; true")
"""For container cilium-agent. Its exit code is that of ``cilium status``."""

REPORTED: Final = 4000
"""Nodes of peers that the agents of one cluster report in one reading: 1.3 KiB each, and their sum is what limits the sample."""

MOST_NODES: Final = 6000
"""Nodes of one report that are read: as many as fit into the output of a command (kube/streams.py, OUTPUT_LIMIT)."""


def health_off(facts: ClusterFacts) -> str:
    """Return why the agents of a cluster have no node health; "" if they have."""
    return "" if enabled(facts, "enable-health-checking", True) else "enable-health-checking is off in cilium-config"


def agents_to_ask(agents: int, nodes: int) -> int:
    """Return how many of the agents that are asked for their status report node health: all of them, and fewer in large meshes.

    :param nodes: of the cluster and its peers, which each agent reports.
    """
    if nodes > MOST_NODES:
        return 0
    return min(agents, max(1, REPORTED // max(1, nodes)))


def split_answer(output: str) -> tuple[str, str]:
    """Return (status, node health) of the output of ``COMMAND``; node health is "" if the command did not come to it."""
    status, _line, health = output.partition(f"\n{BETWEEN}\n")
    return status, health


def parse_node_health(output: str, cluster: str, node: str, peers: Mapping[str, str]) -> tuple[NodeReport, ...] | None:
    """Parse the JSON of ``cilium-health status`` to a report for each peer, also for one of which no node is known; None if it is none.

    :param cluster: inventory name of the agent's cluster; ``node`` is the node of the agent.
    :param peers: inventory name -> Cilium's name.
    """
    try:
        document = load_json(output)
    except NotJson:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("nodes", []), list):
        return None
    started = text(document, "timestamp")
    of_cluster: dict[str, list[Mapping[str, Any]]] = {}
    for entry in items(document, "nodes")[:MOST_NODES]:
        owner, slash, _name = text(entry, "name").partition("/")  # CLUSTER/NODE (pkg/node/types/node.go, Fullname)
        if slash:
            of_cluster.setdefault(owner, []).append(entry)
    return tuple(_report(of_cluster.get(name, ()), cluster, peer, node, started) for peer, name in peers.items())


def _report(entries: Sequence[Mapping[str, Any]], cluster: str, peer: str, node: str, started: str) -> NodeReport:
    reached = host_only = waiting = 0
    failed: list[FailedNode] = []
    times: list[str] = []
    for entry in entries:
        host, pods = _host(entry), _pods(entry)
        path = _path(host, pods)
        if path is None:
            waiting += 1
            continue
        times += _times((*host, *pods)) or [started]
        if path is NodePath.REACHED:
            reached += 1
            host_only += not any(pods)
        else:
            failed.append(FailedNode(name=_node_name(entry), path=path))
    failed.sort(key=lambda node: node.name)  # Go writes them in any order, and the same ones are named each time
    return NodeReport(
        cluster=cluster,
        peer=peer,
        node=node,
        reached=reached,
        host_only=host_only,
        waiting=waiting,
        failed=tuple(failed[:MOST_FAILED]),
        more_failed=max(0, len(failed) - MOST_FAILED),
        oldest=_oldest(times),
    )


_Probe = Mapping[str, Any]  # {} if it was not made
_Probes = tuple[_Probe, _Probe]  # HTTP and ICMP of one address


def _host(entry: Mapping[str, Any]) -> _Probes:
    return _probes(mapping(entry, "host", "primary-address"))


def _pods(entry: Mapping[str, Any]) -> _Probes:
    """Return the probes of the health endpoint. Before ``health-endpoint`` the field was ``endpoint``, which newer agents write too."""
    return _probes(mapping(entry, "health-endpoint", "primary-address") or mapping(entry, "endpoint"))


def _probes(address: Mapping[str, Any]) -> _Probes:
    return mapping(address, "http"), mapping(address, "icmp")


def _path(host: _Probes, pods: _Probes) -> NodePath | None:
    """Return what the probes say; None if none was made.

    A probe that succeeded has no ``status`` (pkg/health/client/client.go, connectivityStatusHealthy). ICMP alone is no fault: nothing but
    the probe uses it, and Cilium names it as optional.
    """
    if not any(host) and not any(pods):
        return None
    answers = _answers(host)
    if not any(pods):
        if _good(host[0]) or (not host[0] and answers):
            return NodePath.REACHED
        return NodePath.HEALTH_PORT if answers else NodePath.HOST
    if not _answers(pods):
        return NodePath.POD_NETWORK if answers else NodePath.NODE
    return NodePath.HEALTH_PORT if host[0] and not _good(host[0]) else NodePath.REACHED


def _good(probe: _Probe) -> bool:
    return bool(probe) and probe.get("status") in (None, "")


def _answers(probes: _Probes) -> bool:
    return any(map(_good, probes))


def _node_name(entry: Mapping[str, Any]) -> str:
    return one_line(text(entry, "name").partition("/")[2], 253)


def _times(probes: Iterable[_Probe]) -> list[str]:
    """Return the times of probes; releases before ``lastProbed`` have the time alone at which the round began."""
    return [time for probe in probes if (time := text(probe, "lastProbed"))]


def _oldest(times: Iterable[str]) -> str:
    known = [(time, value) for value in times if (time := parse_time(value)) is not None]
    return one_line(min(known)[1], 40) if known else ""
