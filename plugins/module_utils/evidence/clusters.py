# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Evidence from clusters, over the connections that a run has open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.clocks import Clocks
from ..items.models import PodSelection
from ..kube.client import Cluster
from ..mesh.binding.model import Binding
from ..observe import Observation
from ..probe.evidence import JobResult
from ..probe.hubble import Agents, Flows
from ..probe.limits import Limits
from ..probe.pods import ProbedPod, label_selector, probed_pods
from .agents import ask_agents, read_agents
from .jobs import run_job, sweep_jobs


@dataclass(frozen=True)
class ClusterEvidence:
    """Implementation of ``probe.evidence.Evidence``."""

    clusters: Mapping[str, Cluster]
    clocks: Clocks

    @property
    def hosts(self) -> Collection[str]:
        """Inventory names of the clusters that answer."""
        return self.clusters.keys()

    def pods(self, host: str, selection: PodSelection, namespace: str, most: int) -> tuple[ProbedPod, ...]:
        """Read the pods that a selection selects, in one request."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        return probed_pods(self.clusters[host].list(path, label_selector=label_selector(selection), most=most))

    def agents(self, host: str, namespace: str) -> Agents:
        """Read which agents run, in one request."""
        return read_agents(self.clusters[host], namespace)

    def flows(
        self, host: str, agents: Agents, nodes: Collection[str] | None, command: Sequence[str], limits: Limits, *, timeout: float
    ) -> Flows:
        """Run a command of Hubble in the agents of the nodes."""
        return ask_agents(self.clusters[host], agents, nodes, command, limits, timeout=timeout)

    def sweep(self, host: str, binding: Binding, limits: Limits) -> str:
        """Delete Jobs of earlier runs."""
        return sweep_jobs(self.clusters[host], binding, limits, now=self.clocks.now())

    def run_job(self, host: str, binding: Binding, body: Mapping[str, Any], limits: Limits, *, deadline: float) -> JobResult:
        """Create a Job, wait for its end, and delete it."""
        return run_job(self.clusters[host], binding, body, limits, deadline=deadline, clocks=self.clocks)


def evidence_of(observation: Observation, clocks: Clocks) -> ClusterEvidence:
    """Return evidence from the clusters that an observation has open."""
    return ClusterEvidence(observation.clusters, clocks)
