# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Catalogue of all metrics: name, kind, unit, labels and meaning.

From these rows come /metrics of the operator, the textfile of a run, the page docs/metrics.md, the dashboard and the alert rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OPERATOR: Final = "mesh_operator_"
RUN: Final = "cilium_mesh_"


class MetricKind(StrEnum):
    """Type of a metric, as Prometheus calls it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """One metric. Its name begins with OPERATOR if the operator has it, and with RUN if the textfile of a run has it."""

    name: str
    kind: MetricKind
    unit: str  # what one is: "seconds", "members"; a name that Prometheus' conventions give a unit ends with it
    labels: tuple[str, ...]
    meaning: str


LABELS: Final[Mapping[str, str]] = {
    "cluster": "inventory name of a cluster; of a link, of the one that reads",
    "code": "code of a finding, which names its [runbook](runbooks/README.md)",
    "kind": "kind of a custom resource, or list of items in `mesh_result.status`",
    "lane": "[lane](operator.md#fairness) of the queue: `quick`, `new` or `slow`",
    "mesh": "name of the binding; empty in a run of fleets",
    "outcome": "`done` or `failed`",
    "peer": "inventory name of the cluster that a link leads to",
    "phase": "phase of a status",
    "reason": "reason of a condition, code of an error, or cause of a failure",
    "run": "playbook that wrote the file",
    "severity": "severity of a finding",
    "state": "state of a member or link, see [below](#states-of-members-and-links)",
}
"""Label -> meaning."""

_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM
_OPERATOR: Final = (
    ("mesh_operator_leader", _G, "", "", "1 while this replica leads"),
    ("mesh_operator_endpoints", _G, "URLs", "", "URLs of virtual workspaces that are watched. 0: none has bound the export"),
    ("mesh_operator_last_list_age_seconds", _G, "seconds", "kind", "Age of the oldest complete list; one is made every 600 s"),
    ("mesh_operator_objects", _G, "objects", "kind", "Custom resources that are known"),
    ("mesh_operator_objects_beyond_bounds", _G, "objects", "kind", "Custom resources that are refused: too many of one workspace"),
    ("mesh_operator_workspaces_with_ignored_objects", _G, "workspaces", "kind", "Workspaces of which objects are ignored: they get no run"),
    ("mesh_operator_unlabelled_clusters", _G, "clusters", "", "Clusters of the management plane that lack the label of a workspace"),
    ("mesh_operator_foreign_records", _G, "records", "reason", "Records of another source of custom resources, which lead to no write"),
    ("mesh_operator_meshes", _G, "meshes", "phase", "Meshes by the phase of their status"),
    ("mesh_operator_members", _G, "members", "state", "Members of all meshes by their state"),
    ("mesh_operator_links", _G, "links", "state", "Links of all meshes by their state"),
    ("mesh_operator_findings", _G, "findings", "code severity", "Findings in the statuses of meshes and workloads, without accepted ones"),
    ("mesh_operator_workloads", _G, "workloads", "phase", "Workloads of fleets by the phase of their status"),
    ("mesh_operator_rollouts", _G, "workloads", "phase", "Workloads of fleets by the phase of their rollout"),
    ("mesh_operator_queue_length", _G, "units of work", "", "Meshes, clusters and workloads that are due and wait for their turn"),
    ("mesh_operator_turn_wait_seconds", _H, "seconds", "lane", "Time for which meshes were due before their turn"),
    ("mesh_operator_turn_seconds", _H, "seconds", "lane", "Duration of turns of meshes"),
    ("mesh_operator_reconciles_total", _C, "turns", "kind outcome", "Turns; kind is ClusterMeshBinding for meshes"),
    ("mesh_operator_reconciles_in_progress", _G, "meshes", "", "Meshes that are being reconciled"),
    ("mesh_operator_run_seconds", _H, "seconds", "", "Duration of runs of playbooks"),
    ("mesh_operator_runs_in_progress", _G, "runs", "", "Runs of playbooks in progress"),
    ("mesh_operator_dry_run_seconds", _H, "seconds", "", "Duration of dry runs"),
    ("mesh_operator_dry_runs_failed_total", _C, "dry runs", "reason", "Dry runs that ended without a valid result"),
    ("mesh_operator_errors_total", _C, "errors", "reason", "Errors. AnotherRun: a run met another one at the lock of its mesh"),
)  # fmt: skip
_RUN: Final = (
    ("cilium_mesh_run_timestamp_seconds", _G, "seconds", "mesh run", "Unix time at which the run ended"),
    ("cilium_mesh_run_success", _G, "", "mesh run", "1 if the outcome of the run was as asked, as its exit status says"),
    ("cilium_mesh_run_requeue_seconds", _G, "seconds", "mesh run", "Seconds after which the run advises the next one"),
    ("cilium_mesh_member_state", _G, "", "mesh run cluster state", "1 for the state of a member; the other states have no series"),
    ("cilium_mesh_link_state", _G, "", "mesh run cluster peer state", "1 for the state of a link; the other states have no series"),
    ("cilium_mesh_findings", _G, "findings", "mesh run code severity", "Findings of the run, without accepted ones"),
    ("cilium_mesh_items", _G, "items", "mesh run kind phase", "Items, and workloads of fleets, by the phase of their status"),
    ("cilium_mesh_pending_steps", _G, "steps", "mesh run", "Steps of the plan that were not carried out, as the run was in check mode"),
    ("cilium_mesh_certificate_expiry_timestamp_seconds", _G, "seconds", "mesh run cluster", "When the first certificate of a cluster ends"),
)  # fmt: skip

CATALOGUE: Final = tuple(
    Metric(name, kind, unit, tuple(labels.split()), meaning) for name, kind, unit, labels, meaning in (*_OPERATOR, *_RUN)
)
BY_NAME: Final[Mapping[str, Metric]] = {metric.name: metric for metric in CATALOGUE}


def metrics_of(prefix: str) -> tuple[Metric, ...]:
    """Return the metrics of one source: OPERATOR or RUN."""
    return tuple(metric for metric in CATALOGUE if metric.name.startswith(prefix))
