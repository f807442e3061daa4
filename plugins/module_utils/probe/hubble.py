# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Commands that ask agents for the flows that an intent is about, and the values of the answer. Pure.

The command is the ``hubble`` program that every agent image contains (cilium: images/cilium/Dockerfile, also HUBBLE_SERVER there),
with options that it has in all versions from 1.15 on. It is a list of arguments: text of tenants never reaches a shell. Agents filter
to keep the answer short; ``verdict.concerned`` decides which flows count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ..base.conditions import timestamp
from ..items.models import ConnectivityIntent, PodSelection, PortRule
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.flows import Flow
from ..mesh.versions.cilium_config import enabled, setting

SOCKET: Final = "/var/run/cilium/hubble.sock"
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
