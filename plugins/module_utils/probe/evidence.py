# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The port through which probes reach clusters, and the clocks of the run. ``evidence/clusters.py`` implements it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..base.clocks import Clocks
from ..items.models import PodSelection
from ..mesh.binding.model import Binding
from .hubble import Agents, Flows
from .job import ContainerEnd
from .limits import Limits
from .pods import ProbedPod


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """Result of one Job.

    ``ends`` is by target, () when it never ran; ``problem`` says why, or what else failed.
    """

    ends: tuple[ContainerEnd, ...] = ()
    problem: str = ""
    left: bool = False  # it could not be deleted


class Evidence(Protocol):
    """Reads of clusters, and Jobs in them. ``host`` is an inventory name of ``hosts``."""

    @property
    def clocks(self) -> Clocks:
        """Clocks of the run."""

    @property
    def hosts(self) -> Collection[str]:
        """Inventory names of the clusters that answer."""

    def pods(self, host: str, selection: PodSelection, namespace: str, most: int) -> tuple[ProbedPod, ...]:
        """Return at most ``most`` pods that the selection selects in one namespace.

        :raises ClusterError: the cluster refuses the request or does not answer.
        """

    def agents(self, host: str, namespace: str) -> Agents:
        """Return the agents that run. An error is their ``problem``."""

    def flows(
        self, host: str, agents: Agents, nodes: Collection[str] | None, command: Sequence[str], limits: Limits, *, timeout: float
    ) -> Flows:
        """Return what a command of ``hubble.py`` reports in the agents of ``nodes`` (None: any), as many as the limits allow.

        Errors become notes.

        :param timeout: seconds for all of them.
        """

    def sweep(self, host: str, binding: Binding, limits: Limits) -> str:
        """Delete the Jobs that earlier runs of this binding left behind. Returns why that failed, else ""."""

    def run_job(self, host: str, binding: Binding, body: Mapping[str, Any], limits: Limits, *, deadline: float) -> JobResult:
        """Run a Job to its end and delete it. An error becomes the problem of the result.

        :param deadline: of ``clocks.clock``, at which waiting ends.
        """
