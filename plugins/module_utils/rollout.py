# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Waiting until workloads run what their templates say, as ``kubectl rollout status`` counts it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from .errors import ClusterError
from .facts import WorkloadFacts
from .kube import Cluster
from .observe.workloads import workload_facts

EVERY: Final = 1.0  # seconds between two looks
AT_ONCE: Final = 10
_PLURALS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}


@dataclass(frozen=True, order=True)
class Workload:
    """One to wait for."""

    host: str
    namespace: str
    kind: str  # "Deployment" or "DaemonSet"
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.host}"


def rolled_out(workload: WorkloadFacts) -> bool:
    """Has the controller seen the template, and is every pod of it and ready?"""
    seen = workload.observed_generation >= workload.generation
    return seen and workload.updated >= workload.desired and workload.ready >= workload.desired


def wait_for_rollouts(
    clusters: Mapping[str, Cluster],
    wanted: Iterable[Workload],
    *,
    deadline: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> dict[Workload, str]:
    """Those that have not rolled out at ``deadline`` (of ``clock``), with how far each is; {} when all have. Raises nothing."""
    missing = dict.fromkeys(wanted, "")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while missing:
            answers = list(pool.map(lambda workload: _progress(clusters[workload.host], workload), missing))
            missing = {workload: answer for workload, answer in zip(missing, answers, strict=True) if answer}
            left = deadline - clock()
            if not missing or left <= 0:
                break
            sleep(min(EVERY, left))
    return missing


def _progress(cluster: Cluster, workload: Workload) -> str:
    """ "" when it has rolled out."""
    path = f"/apis/apps/v1/namespaces/{workload.namespace}/{_PLURALS[workload.kind]}/{workload.name}"
    try:
        found = workload_facts(cluster.get(path), workload.kind)
    except ClusterError as error:
        return error.message
    if found is None:
        return "it is gone"
    old = found.desired - min(found.updated, found.desired)
    return "" if rolled_out(found) else f"{found.ready} of {found.desired} pods ready, {old} to be replaced"
