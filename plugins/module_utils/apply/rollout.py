# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Wait for rollouts, which are complete by the same rules as for ``kubectl rollout status``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from ..base.clocks import Clocks
from ..base.errors import ClusterError
from ..kube.client import Cluster
from ..mesh.facts.cluster import WorkloadFacts
from ..observe.workloads import workload_facts

EVERY: Final = 1.0  # seconds between two reads
AT_ONCE: Final = 10
_PLURALS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}


@dataclass(frozen=True, order=True)
class Workload:
    """Deployment or DaemonSet whose rollout is awaited."""

    host: str
    namespace: str
    kind: str  # "Deployment" or "DaemonSet"
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.host}"


def rolled_out(workload: WorkloadFacts) -> bool:
    """Return whether the controller has processed the template, and every pod comes from it and is ready."""
    processed = workload.observed_generation >= workload.generation
    return processed and workload.updated >= workload.desired and workload.ready >= workload.desired


def wait_for_rollouts(
    clusters: Mapping[str, Cluster],
    wanted: Iterable[Workload],
    *,
    deadline: float,
    clocks: Clocks,
) -> dict[Workload, str]:
    """Wait for rollouts and return those not complete at ``deadline`` (of ``clocks.clock``), with the progress of each; {} if all are.

    Raises nothing.
    """
    missing = dict.fromkeys(wanted, "")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while missing:
            answers = list(pool.map(lambda workload: _progress(clusters[workload.host], workload), missing))
            missing = {workload: answer for workload, answer in zip(missing, answers, strict=True) if answer}
            left = deadline - clocks.clock()
            if not missing or left <= 0:
                break
            clocks.sleep(min(EVERY, left))
    return missing


def _progress(cluster: Cluster, workload: Workload) -> str:
    """Return the progress of a rollout; "" if it is complete."""
    path = f"/apis/apps/v1/namespaces/{workload.namespace}/{_PLURALS[workload.kind]}/{workload.name}"
    try:
        found = workload_facts(cluster.get(path), workload.kind)
    except ClusterError as error:
        return error.clause
    if found is None:
        return "it is gone"
    old = found.desired - min(found.updated, found.desired)
    return "" if rolled_out(found) else f"{found.ready} of {found.desired} pods ready, {old} to be replaced"
