# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Dry runs of meshes, each in a confined process of its own, which also opens the kubeconfigs. What comes back is validated here.

The process gets the kubeconfigs of one mesh, what its custom resources ask for, and nothing else. A defect in a library that reads a
tenant's bytes there can reach that tenant's own clusters and statuses, not the operator's credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line

from ..base.serve import Metrics
from ..credentials.management_plane import NotUsable, SealedKubeconfig, Usable
from ..credentials.tenant_kubeconfigs import is_rebuilt
from .confined.confinement import ProcessLimits
from .confined.process import Cause, ConfinedProcess, ConfinedProcesses, ConfinedProcessFailed, Take
from .item_parts import ItemParts

HANDLER: Final = "mesh_operator.runs.dry_run_job:serve"
PER_CLUSTER: Final = 5.0  # seconds more for each cluster beyond the first ones: those that are silent cost so much (Timeouts.connect)
FIRST: Final = 4  # clusters that are read side by side (pipeline/dry_run.py, AT_ONCE)
LONGEST: Final = 4  # times the deadline, for a mesh of any size

DRY_RUN_FAILED: Final = "DryRunFailed"  # reason of conditions
Closed = Mapping[str, SealedKubeconfig | NotUsable]
Found = TypeVar("Found")
Answered = TypeVar("Answered", covariant=True)

_WORDS: Final = {
    Cause.DEADLINE: "took longer than it may",
    Cause.MEMORY: "needed more memory than it may",
    Cause.CPU: "used more processor time than it may",
    Cause.CRASHED: "ended without a result",
    Cause.INVALID: "had a result that is not valid",
    Cause.NOT_STARTED: "could not be started",
}


_SLOW: Final = "a cluster that answers very slowly, or with far more than a cluster has"
_LARGE: Final = (
    "a cluster that answers with far more than a cluster has, or a mesh of thousands of items in many clusters: "
    "divide such a mesh, or ask the platform team to allow dry runs more"
)
_CAUSES: Final = {Cause.MEMORY: _LARGE, Cause.CPU: _LARGE}


class DryRunFailed(Exception):
    """Failure of the dry run of one mesh or fleet. The text is a sentence for its owner."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(
            f"The dry run {_WORDS[cause]}, and was ended. Nothing was changed. It is tried again after growing delays; "
            f"the usual cause is {_CAUSES.get(cause, _SLOW)}."
        )
        self.cause, self.detail = cause, detail


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of a dry run. ``deadline``: seconds for a mesh of up to ``FIRST`` clusters; ``memory``: bytes."""

    deadline: float = 60.0
    memory: int = 384 * 1024 * 1024

    def seconds(self, clusters: int) -> float:
        """Return the deadline for a mesh of so many clusters."""
        return min(self.deadline + PER_CLUSTER * max(0, clusters - FIRST), self.longest)

    @property
    def longest(self) -> float:
        """Longest deadline of all meshes."""
        return LONGEST * self.deadline


@dataclass(frozen=True, kw_only=True)
class Permits:
    """Permits of the platform, for all clusters: a tenant must not permit itself names and addresses in other clusters.

    ``networks``: CIDRs of API servers and mesh endpoints that would be refused otherwise; ``domains``: for names of mesh endpoints;
    ``denied``: returns CIDRs at which nothing is contacted for tenants; ``annotations``: that items may set on Services.
    """

    networks: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    denied: Callable[[], tuple[str, ...]] = tuple
    annotations: tuple[str, ...] = ()


class InvalidAnswer(Exception):
    """Answer that does not have the shape that its question demands."""


class DryRunQuestion(Protocol[Answered]):
    """Question for a dry run: the job of the process, and how its answer is read (meshes/dry_run.py, fleets/dry_run.py).

    ``items``: takes the parts of the answer.
    """

    @property
    def items(self) -> ItemParts:
        """What takes the parts."""

    @property
    def job(self) -> Mapping[str, Any]:
        """Job for dry_run_job.py, a value of JSON."""

    def read(self, answer: Any) -> Answered:
        """Return the answer, validated.

        :raises InvalidAnswer: when it has another shape.
        """
        ...


class DryRuns:
    """Source of dry runs. Thread-safe."""

    def __init__(self, processes: ConfinedProcesses, bounds: Bounds, metrics: Metrics, permits: Permits | None = None) -> None:
        """Prepare the source.

        :param permits: without it, what holds for every cluster.
        """
        self._processes, self._bounds, self._metrics, self._permits = processes, bounds, metrics, permits or Permits()

    @contextmanager
    def begin(self, clusters: int) -> Iterator[DryRunProcess]:
        """Provide a process for one mesh; it is forked when it is first needed, and gone at the end of the ``with`` block."""
        with ExitStack() as stack:
            yield DryRunProcess(stack, self._processes, self._bounds, self._metrics, clusters, self._permits)


class DryRunProcess:
    """Process of one mesh, for its kubeconfigs and its dry run. Used by one thread, but for ``interrupt``."""

    def __init__(
        self, stack: ExitStack, processes: ConfinedProcesses, bounds: Bounds, metrics: Metrics, clusters: int, permits: Permits
    ) -> None:
        self._stack, self._processes, self._metrics, self._permits = stack, processes, metrics, permits
        self._deadline = bounds.seconds(clusters)
        self._limits = ProcessLimits(memory=bounds.memory, cpu=max(1, int(self._deadline / 2)))
        self._process: ConfinedProcess | None = None
        self._interrupted = False
        self._denied = permits.denied()  # once: kubeconfigs, endpoints and the run that follows are judged by the same ranges

    def open(self, clusters: Closed) -> dict[str, Usable | NotUsable]:
        """Return the clusters with their kubeconfigs, rebuilt, or the reason why they cannot be used.

        :raises DryRunFailed: when the process fails, for one of them or for all.
        """
        sealed = {name: entry for name, entry in clusters.items() if isinstance(entry, SealedKubeconfig)}
        if not sealed:
            return {name: entry for name, entry in clusters.items() if isinstance(entry, NotUsable)}
        job = {"job": "open", "allowed": list(self._permits.networks), "kubeconfigs": {name: entry.text for name, entry in sealed.items()}}
        answer = self._ask(job)
        if not isinstance(answer, dict) or answer.keys() != sealed.keys():
            raise self._failed(Cause.INVALID)
        return {
            name: self._opened(entry, answer[name]) if isinstance(entry, SealedKubeconfig) else entry for name, entry in clusters.items()
        }

    def interrupt(self) -> None:
        """Make what is under way fail, and what comes after it, from another thread."""
        self._interrupted = True
        if self._process is not None:
            self._process.interrupt()

    def dry_run(self, question: DryRunQuestion[Found]) -> Found:
        """Return the dry run for which a question asks.

        :raises DryRunFailed: when the process fails.
        """
        with self._metrics.dry_running():
            answer = self._ask(question.job, question.items.take)
        try:
            return question.read(answer)
        except InvalidAnswer:
            raise self._failed(Cause.INVALID) from None

    def _ask(self, job: Mapping[str, Any], take: Take | None = None) -> Any:
        try:
            if self._process is None:
                self._process = self._stack.enter_context(self._processes.open(self._limits, self._deadline))
            if self._interrupted:  # before there was a process that could be interrupted
                self._process.interrupt()
            return self._process.ask(job, take)
        except ConfinedProcessFailed as failed:
            raise self._failed(failed.cause, failed.detail) from None

    def _opened(self, sealed: SealedKubeconfig, answer: Any) -> Usable | NotUsable:
        refused = answer.get("refused") if isinstance(answer, dict) else None
        if isinstance(refused, str):
            return NotUsable(name=sealed.name, reason="KubeconfigRefused", message=one_line(refused, 400), fatal=True)
        kubeconfig: Any = answer.get("kubeconfig") if isinstance(answer, dict) else None
        if not is_rebuilt(kubeconfig):
            raise self._failed(Cause.INVALID)
        permitted = {
            "cilium_mesh_endpoint_domains": list(self._permits.domains),
            "cilium_mesh_endpoint_networks": list(self._permits.networks),
            "cilium_mesh_denied_networks": list(self._denied),
            "cilium_mesh_allowed_annotations": list(self._permits.annotations),
        }
        variables = {**sealed.variables, **{name: value for name, value in permitted.items() if value}}
        return Usable(name=sealed.name, kubeconfig=kubeconfig, variables=variables)

    def _failed(self, cause: Cause, detail: str = "") -> DryRunFailed:
        if not self._interrupted:  # the operator ended it, for the sake of others: no failure
            self._metrics.dry_runs_failed.labels(cause.value).inc()
        return DryRunFailed(cause, detail)


def is_list(value: Any, of: type) -> bool:
    """Return whether a value is a list with entries of one type alone."""
    return isinstance(value, list) and all(isinstance(entry, of) for entry in value)
