# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Paths of packets between the nodes of each pair of clusters, from the node health of agents: columns, condition and findings. Pure.

A link says that data about the peer arrives. Whether packets do is another matter: they go from node to node, through the tunnel or by
routes, past other firewalls. Each agent that was asked says which nodes of the peer it reaches; agents are a sample, which is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.conditions import condition
from ..base.json_fields import parse_time
from ..base.redact import one_line
from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..mesh.facts.cluster import ClusterFacts, ReaderFacts
from ..mesh.facts.node_health import FailedNode, NodePath, NodeReport
from ..mesh.node_ports import health_port, pod_network_ports

NODES_REACHABLE: Final = "NodesReachable"
_NAMED: Final = 4
_WORST: Final = (NodePath.NODE, NodePath.POD_NETWORK, NodePath.HOST, NodePath.HEALTH_PORT)
_REASONS: Final = {
    NodePath.NODE: "NodesUnreachable",
    NodePath.POD_NETWORK: "PodNetworkBlocked",
    NodePath.HOST: "NodesUnreachable",
    NodePath.HEALTH_PORT: "HealthPortBlocked",
}
_CODES: Final = {
    NodePath.NODE: "CM-NET-08",
    NodePath.POD_NETWORK: "CM-NET-08",
    NodePath.HOST: "CM-NET-09",
    NodePath.HEALTH_PORT: "CM-NET-09",
}

Link = tuple[str, str]  # (cluster, peer)


@dataclass(frozen=True, kw_only=True)
class NodePaths:
    """Paths from the nodes of a cluster to those of a peer: one for each agent that was asked and node of the peer with a probe.

    Failed probes of nodes that are not ready in their own cluster are left out: such a node is down, and not cut off.
    """

    cluster: str
    peer: str
    asked_agents: tuple[str, ...] = ()  # nodes whose agents were asked
    reached: int = 0
    asked: int = 0
    host_only: int = 0  # reached paths whose pod network was not probed
    waiting: int = 0  # nodes without a probe yet
    failed: Mapping[NodePath, int] = field(default_factory=dict)
    examples: tuple[tuple[str, FailedNode], ...] = ()  # (node of the agent, failed node), the worst first
    oldest: str = ""
    unread: str = ""  # why agents gave no node health

    @property
    def worst(self) -> NodePath | None:
        """The worst that a path has; None if all are reached."""
        return next((path for path in _WORST if self.failed.get(path)), None)

    @property
    def loses_all(self) -> bool:
        """Whether packets between pods are lost on every path."""
        return self.asked > 0 and sum(number for path, number in self.failed.items() if path.loses_pods) == self.asked

    def to_dict(self) -> dict[str, Any]:
        """Return ``nodePaths`` of a row of ``links`` in the status."""
        return {
            "reached": self.reached,
            "asked": self.asked,
            "oldestProbe": self.oldest or None,
            "blocked": self.worst.value if self.worst else "",
            "podsProbed": self.asked > self.host_only,
            "failed": [f"{node} -> {other.name} ({other.path.value.replace('_', ' ')})" for node, other in self.examples],
            "message": "" if self.asked else self.unread or "the agents have not probed a node of the peer yet",
        }


def node_paths(links: Iterable[Link], readers: Mapping[str, ReaderFacts], facts: Mapping[str, ClusterFacts]) -> dict[Link, NodePaths]:
    """Return the paths of every link whose cluster was asked for node health.

    :param facts: say which nodes are ready.
    """
    reports: dict[Link, list[NodeReport]] = {}
    for reader in readers.values():
        for report in reader.nodes:
            reports.setdefault((report.cluster, report.peer), []).append(report)
    down = {host: frozenset(node.name for node in cluster.nodes if not node.ready) for host, cluster in facts.items()}
    return {
        (cluster, peer): _paths(cluster, peer, readers[cluster], reports.get((cluster, peer), ()), down.get(peer, frozenset()))
        for cluster, peer in links
        if cluster in readers and readers[cluster].nodes_asked is not None
    }


def _paths(cluster: str, peer: str, reader: ReaderFacts, reports: Sequence[NodeReport], down: Collection[str]) -> NodePaths:
    failed: dict[NodePath, int] = {}
    found: list[tuple[str, FailedNode]] = []
    for report in reports:
        for node in report.failed:
            if node.name not in down:
                failed[node.path] = failed.get(node.path, 0) + 1
                found.append((report.node, node))
        if report.more_failed:  # of these the names are not known, so they count as the worst of those that are
            path = next((one for one in _WORST if failed.get(one)), NodePath.NODE)
            failed[path] = failed.get(path, 0) + report.more_failed
    reached = sum(report.reached for report in reports)
    times = [(time, report.oldest) for report in reports if (time := parse_time(report.oldest)) is not None]
    return NodePaths(
        cluster=cluster,
        peer=peer,
        asked_agents=tuple(reader.nodes_asked or ()),
        reached=reached,
        asked=reached + sum(failed.values()),
        host_only=sum(report.host_only for report in reports),
        waiting=sum(report.waiting for report in reports),
        failed=failed,
        examples=tuple(sorted(found, key=lambda one: (_WORST.index(one[1].path), one[0], one[1].name))[:_NAMED]),
        oldest=min(times)[1] if times else "",
        unread=reader.nodes_unread,
    )


def path_columns(paths: NodePaths | None, previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the column ``nodePaths`` of a link; that of the previous row, which is not trusted, where this reading is without node health.

    :param previous: the row of the same link in the status written earlier.
    """
    if paths is not None:
        return {"nodePaths": paths.to_dict()}
    earlier = (previous or {}).get("nodePaths")
    if not isinstance(earlier, Mapping):
        return {}
    if not isinstance(earlier.get("reached"), int) or not isinstance(earlier.get("asked"), int):
        return {}
    failed = earlier.get("failed")
    return {
        "nodePaths": {
            "reached": int(earlier["reached"]),
            "asked": int(earlier["asked"]),
            "oldestProbe": one_line(earlier.get("oldestProbe"), 40) or None,
            "blocked": next((path.value for path in _WORST if path.value == earlier.get("blocked")), ""),
            "podsProbed": earlier.get("podsProbed") is True,
            "failed": [one_line(name, 520) for name in failed[:_NAMED] if isinstance(name, str)]
            if isinstance(failed, (list, tuple))
            else [],
            "message": one_line(earlier.get("message"), 400),
        }
    }


def cut_off(paths: Iterable[NodePaths]) -> list[NodePaths]:
    """Return the pairs of clusters of which not one node reaches the pods of the other."""
    return [one for one in paths if one.loses_all]


def nodes_condition(links: Sequence[Link], paths: Mapping[Link, NodePaths], facts: Mapping[str, ClusterFacts]) -> dict[str, Any] | None:
    """Return the condition NodesReachable; None if no cluster was asked. Its message has no times, since each would be another message.

    Reasons: NodesReached, NodesUnreachable, PodNetworkBlocked, HealthPortBlocked, NotProbed.
    """
    if not paths:
        return None
    failing = sorted((one for one in paths.values() if one.worst), key=lambda one: (_WORST.index(one.worst or _WORST[-1]), one.reached))
    if failing:
        first = failing[0].worst or NodePath.NODE
        named = "; ".join(f"{_shown(one)}: {_blocked(one.worst or first, facts.get(one.cluster))}" for one in failing[:_NAMED])
        more = f" and {len(failing) - _NAMED} more links" if len(failing) > _NAMED else ""
        return condition(NODES_REACHABLE, False, _REASONS[first], f"Packets between nodes are lost: {named}{more}")
    missing = [link for link in links if link not in paths or not paths[link].asked]
    if missing:
        named = ", ".join(f"{cluster} -> {peer}" for cluster, peer in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        why = next((one.unread for one in paths.values() if one.unread and not one.asked), "")
        text = f"{len(missing)} of {len(links)} links have no probe between nodes ({named}{more})"
        return condition(NODES_REACHABLE, None, "NotProbed", f"{text}: {why}" if why else text)
    hosts_only = sum(one.asked == one.host_only for one in paths.values())
    text = f"Every node that was probed is reached, over {len(paths)} links"
    return condition(
        NODES_REACHABLE, True, "NodesReached", f"{text}; of {hosts_only} the pod network was not probed" if hosts_only else text
    )


def _shown(one: NodePaths) -> str:
    return f"{one.cluster} -> {one.peer} reaches {one.reached} of {one.asked}"


def _blocked(path: NodePath, facts: ClusterFacts | None) -> str:
    """Return what does not pass, with its port, as a part of a sentence."""
    pods = pod_network_ports(facts) if facts is not None else "the traffic of pods"
    return {
        NodePath.POD_NETWORK: f"the nodes answer and their pod network does not, so {pods} does not pass",
        NodePath.NODE: f"neither the nodes nor their pod network answer, so {pods} and {health_port(facts)} do not pass",
        NodePath.HOST: f"the nodes do not answer at {health_port(facts)}, and their pod network was not probed",
        NodePath.HEALTH_PORT: f"{health_port(facts)} does not pass, which node health needs and packets of pods do not",
    }[path]


def node_findings(status: Mapping[str, Any], facts: Mapping[str, ClusterFacts]) -> tuple[Finding, ...]:
    """Return a finding for every cluster and kind of loss: CM-NET-08 where packets of pods are lost, CM-NET-09 where probes alone are.

    :param status: as ``build_status`` returns it.
    """
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in status["links"]:
        blocked = row.get("nodePaths", {}).get("blocked")
        if blocked:
            groups.setdefault((row["cluster"], _WORST.index(NodePath(blocked))), []).append(row)
    agents = {row["clusterName"]: row.get("probedFrom", ()) for row in status["meshStatus"]}
    return tuple(
        _finding(cluster, _WORST[place], rows, agents.get(cluster, ()), facts) for (cluster, place), rows in sorted(groups.items())
    )


def _finding(
    cluster: str, path: NodePath, rows: Sequence[Mapping[str, Any]], agents: Sequence[str], facts: Mapping[str, ClusterFacts]
) -> Finding:
    found = [row["nodePaths"] for row in rows]
    peers = listed(row["peer"] for row in rows)
    counts = listed(f"{row['peer']} {paths['reached']} of {paths['asked']}" for row, paths in zip(rows, found, strict=True))
    if _CODES[path] == "CM-NET-09":
        follows = "a loss of packets between their pods would not be noticed"
    else:
        whole = all(paths["reached"] == 0 for paths in found)
        follows = f"packets between {'' if whole else 'some '}pods of these clusters are lost"
    oldest = min((str(paths["oldestProbe"]) for paths in found if paths["oldestProbe"]), default="of an unknown time")
    return finding(
        _CODES[path],
        cluster=cluster,
        peer=rows[0]["peer"] if len(rows) == 1 else "",
        summary=f"Nodes of {cluster} do not reach all nodes of their peers ({counts}): {_blocked(path, facts.get(cluster))}; {follows}",
        evidence=(
            f"node health of the agents on {listed(agents)}; oldest probe {oldest}",
            *(f"not reached: {pair}" for pair in [pair for paths in found for pair in paths["failed"]][: 2 * _NAMED]),
        ),
        fix=f"let {_needed(path, facts.get(cluster))} pass between all nodes of {cluster} and {peers}, in both directions: firewalls, "
        "security groups and routes of the networks between them\n"
        # `cilium-health status --probe` probes nothing from 1.17 on (pkg/health/server/server.go: FetchStatusResponse).
        "agents probe again by themselves within two minutes, and in meshes with thousands of nodes later",
    )


def _needed(path: NodePath, facts: ClusterFacts | None) -> str:
    pods = pod_network_ports(facts) if facts is not None else "the traffic of pods"
    if path is NodePath.HEALTH_PORT:
        return health_port(facts)
    return pods if path is NodePath.POD_NETWORK else f"{pods} and {health_port(facts)}"
