# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Node health as agents report it: whether packets pass between the nodes of two clusters.

Every agent runs cilium-health, which probes each node that it knows, those of the peers too: the address of the node (TCP 4240 and ICMP),
and a health endpoint in the pod network of that node, which is reached as pods are, through the tunnel or by routes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_FAILED = 200
"""Nodes that a report names; of more failed ones the rest is counted."""


class NodePath(StrEnum):
    """What the probes of one node say of the path to it."""

    REACHED = "reached"  # every probe that was made succeeded
    HEALTH_PORT = "health_port"  # pods are reached, or were not probed, and TCP 4240 of the node is not
    POD_NETWORK = "pod_network"  # the node answers, and nothing in its pod network does
    NODE = "node"  # neither the node nor its pod network answers
    HOST = "host"  # the node does not answer, and its pod network was not probed

    @property
    def loses_pods(self) -> bool:
        """Whether packets between pods are lost on the path."""
        return self in (NodePath.POD_NETWORK, NodePath.NODE)


@dataclass(frozen=True, kw_only=True)
class FailedNode:
    """A node of a peer that an agent does not reach."""

    name: str
    path: NodePath


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """Report of one agent about the nodes of one peer."""

    cluster: str  # inventory name
    peer: str  # inventory name
    node: str  # the node of the agent
    reached: int = 0
    host_only: int = 0  # of the reached: nodes whose pod network was not probed
    waiting: int = 0  # nodes without a probe yet
    failed: tuple[FailedNode, ...] = ()
    more_failed: int = 0  # failed nodes beyond MOST_FAILED
    oldest: str = ""  # time of the oldest probe, RFC 3339; "" unknown

    @property
    def asked(self) -> int:
        """Nodes with a probe."""
        return self.reached + len(self.failed) + self.more_failed
