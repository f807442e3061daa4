# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts about traffic that Hubble recorded: one packet, and the packets that the agents of a cluster saw enter some pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ...base.redact import one_line


@dataclass(frozen=True, kw_only=True)
class FlowSide:
    """Source or destination of a flow.

    ``labels`` are those of Kubernetes without the prefix; "" and {} where the flow does not contain them.
    """

    namespace: str = ""
    cluster: str = ""  # cluster-name
    labels: Mapping[str, str] = field(default_factory=dict)
    reserved: str = ""  # what stands there instead of a pod: world, host, remote-node, ...
    name: str = ""  # of the pod, else its address

    @property
    def shown(self) -> str:
        """Namespace and name as text."""
        return one_line(f"{self.namespace}/{self.name}" if self.namespace else self.name or "?", 120)


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One packet as one agent observed it."""

    time: datetime  # aware, UTC
    verdict: str  # FORWARDED, DROPPED, REDIRECTED, AUDIT, ERROR, ...
    reason: str = ""  # drop_reason_desc
    source: FlowSide
    destination: FlowSide
    protocol: str  # as in PortRule: TCP, UDP, SCTP, ICMP, ICMPv6
    port: int = 0  # of the destination; for ICMP its type
    direction: str = ""  # INGRESS, EGRESS, "" unknown
    reply: bool | None = None  # None: the agent does not know, as for drops
    delivered: bool = False  # handed to the destination's endpoint, or let in by its ingress policy
    answers: bool = False  # a SYN+ACK: the answer to a connection from the other side

    @property
    def shown(self) -> str:
        """One line of evidence."""
        what = f"type {self.port}" if self.protocol.startswith("ICMP") else str(self.port)
        why = f" ({one_line(self.reason, 60)})" if self.reason else ""
        return (
            f"{self.time:%H:%M:%SZ} {self.source.shown} in {one_line(self.source.cluster, 63)} -> {self.destination.shown}"
            f" in {one_line(self.destination.cluster, 63)} {self.protocol} {what}: {one_line(self.verdict, 20)}{why}"
        )


@dataclass(frozen=True, kw_only=True)
class SeenFlows:
    """Packets that entered pods of one cluster in the last time, as far as its agents recorded and returned them."""

    flows: tuple[Flow, ...] = ()
    now: datetime  # aware, UTC
    window: float  # seconds before ``now`` that the agents were asked about
    unknown: str = ""  # why no agent answered, as a clause; "" when one did
    notes: tuple[str, ...] = ()  # clauses about what an answer lacks
