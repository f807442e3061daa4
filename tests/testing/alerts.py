# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Alert rules as data. ``python -m tests.testing.monitoring`` makes the rule files and their page of them.

A page (``critical``) is for what was ready and is not: nothing that was asked for, such as a member that leaves, pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Alert:
    """One rule. ``expr`` may use metrics and labels of the catalogue, and labels that Prometheus gives a target."""

    name: str
    expr: str
    lasting: str  # "for" of the rule
    severity: str  # critical: the one on call is called; warning: in working hours
    summary: str  # with labels as Prometheus writes them
    meaning: str
    action: str


TARGET_LABELS: Final = ("job", "namespace", "instance", "pod")
SEVERITIES: Final = ("critical", "warning")


@dataclass(frozen=True)
class _Family:
    """Alerts on findings of some codes, in both sources."""

    name: str
    codes: str  # regular expression
    lasting: str
    severity: str
    summary: str
    meaning: str
    action: str


_FINDINGS: Final = (
    _Family(
        "CertificateNotValid", "CM-CERT-03", "5m", "critical", "A certificate of a mesh etcd is not valid",
        "Peers cannot log in with it, or cannot trust the server that shows it. New connections fail.",
        "Follow [CM-CERT-03](runbooks/CM-CERT-03.md).",
    ),
    _Family(
        "CertificateEnds", "CM-CERT-04|CM-CERT-10", "1h", "warning", "A certificate or a CA of a mesh ends within 30 days",
        "It was not renewed yet. When it ends, new connections fail.",
        "Follow [CM-CERT-04](runbooks/CM-CERT-04.md) or [CM-CERT-10](runbooks/CM-CERT-10.md).",
    ),
    _Family(
        "Drift", "CM-DRIFT-.*", "1h", "warning", "Another writer changes what a mesh wrote",
        "Keys of links or users were changed or removed. The link works, or works until a pod restarts.",
        "Follow [CM-DRIFT-01](runbooks/CM-DRIFT-01.md), [CM-DRIFT-02](runbooks/CM-DRIFT-02.md) or [CM-DRIFT-03](runbooks/CM-DRIFT-03.md).",
    ),
    _Family(
        "Leases", "CM-LEASE-.*", "1h", "warning", "The leases of cluster names and ids are not in order",
        "Two clusters may use the same name or id, or a copy of the registry is missing.",
        "The codes are in the findings; follow [CM-LEASE-01](runbooks/CM-LEASE-01.md) and the pages beside it.",
    ),
    _Family(
        "RolloutStalled", "CM-FLEET-07", "15m", "warning", "A rollout of a workload has stalled",
        "A wave does not become ready, and the clusters of later waves keep the earlier revision.",
        "Follow [CM-FLEET-07](runbooks/CM-FLEET-07.md).",
    ),
)  # fmt: skip

_STATES: Final = (
    (
        "MemberDown", "down", "10m", "critical", "{who} was connected, and none of its links is ready",
        "The cluster, its mesh endpoint or the network to it is lost. Services with backends there lose these.",
        "Run the playbook `status`, then `explain`; follow [dead-peers.md](dead-peers.md).",
    ),
    (
        "MemberNotJoining", "never_joined", "1h", "warning", "{who} has never been connected, although it is asked for",
        "The first connection takes minutes. After an hour something keeps it from working.",
        "Run `verify`: its findings say what blocks.",
    ),
    (
        "MemberNotLeaving", "leaving", "1d", "warning", "{who} is still leaving after a day",
        "The links of a former member could not be withdrawn, for instance as it does not answer.",
        "Run `mesh` or `disconnect` again when the cluster answers; [dead-peers.md](dead-peers.md) says what to do if it never does.",
    ),
)  # fmt: skip


def _findings() -> list[Alert]:
    made = []
    for prefix, metric, by in (
        ("MeshOperator", "mesh_operator_findings", "job, namespace, code"),
        ("Mesh", "cilium_mesh_findings", "mesh, run, code"),
    ):
        for row in _FINDINGS:
            where = "" if prefix == "MeshOperator" else " ({{ $labels.mesh }})"
            expr = f'max by ({by}) ({metric}{{code=~"{row.codes}"}}) > 0'
            made.append(
                Alert(
                    prefix + row.name,
                    expr,
                    row.lasting,
                    row.severity,
                    f"{row.summary}{where}: {{{{ $labels.code }}}}",
                    row.meaning,
                    row.action,
                )
            )
    return made


def _states() -> list[Alert]:
    made = []
    for name, state, lasting, severity, summary, meaning, action in _STATES:
        count = f'max by (job, namespace) (mesh_operator_members{{state="{state}"}}) > 0'
        one = f'max by (mesh, run, cluster) (cilium_mesh_member_state{{state="{state}"}}) > 0'
        for prefix, expr, who in (
            ("MeshOperator", count, "A member of a mesh"),
            ("Mesh", one, "Member {{ $labels.cluster }} of mesh {{ $labels.mesh }}"),
        ):
            made.append(Alert(prefix + name, expr, lasting, severity, summary.replace("{who}", who), meaning, action))
    return made


_BOTH_ALIVE: Final = (
    'max by (mesh, run, cluster, peer) (cilium_mesh_link_state{state="down"})'
    ' unless on (mesh, run, cluster) cilium_mesh_member_state{state="down"}'
    ' unless on (mesh, run, peer) label_replace(cilium_mesh_member_state{state="down"}, "peer", "$1", "cluster", "(.*)")'
)
_LINK: Final = (
    "Data of the peer does not arrive any more. Backends there stay in use as they were.",
    "Run the playbook `explain` from a workload of the one cluster to one of the other; follow [dead-peers.md](dead-peers.md).",
)

ALERTS: Final = (
    Alert(
        "MeshOperatorNotLeading", "max by (job, namespace) (mesh_operator_leader) == 0", "2m", "critical",
        "No replica of the operator leads",
        "Nothing is reconciled. Meshes stay as they are.",
        "Read the log for `lease_not_reached` and `leadership_lost`: the management plane does not answer, or refuses the Lease.",
    ),
    Alert(
        "MeshOperatorListsOld", "max by (job, namespace, kind) (mesh_operator_last_list_age_seconds) > 1800", "5m", "warning",
        "{{ $labels.kind }} was not listed for half an hour",
        "The operator does not see changes of these custom resources.",
        "`/readyz` says which URLs are missing; the log says why.",
    ),
    Alert(
        "MeshOperatorStuck",
        "max by (job, namespace) (mesh_operator_queue_length) > 0"
        " unless on (job, namespace) sum by (job, namespace) (increase(mesh_operator_reconciles_total[30m])) > 0",
        "30m", "warning",
        "Meshes wait, and no turn has ended for half an hour",
        "All workers are busy with runs that do not end.",
        "`mesh_operator_runs_in_progress` and the log's `run_ended` say which; see `--job-timeout`.",
    ),
    Alert(
        "MeshOperatorRunsFail",
        'sum by (job, namespace) (increase(mesh_operator_errors_total{reason="RunnerFailed"}[1h])) > 3',
        "5m", "warning",
        "Runs of playbooks end without a result",
        "The statuses of their meshes have the reason RunnerFailed.",
        "The log's `run_ended` has the state and the last task.",
    ),
    Alert(
        "MeshOperatorLockHeld",
        'sum by (job, namespace) (increase(mesh_operator_errors_total{reason="AnotherRun"}[10m])) > 0',
        "1h", "warning",
        "Another run has held the lock of a mesh for an hour",
        "The operator cannot write to the mesh. A run beside it is at work, or one was killed and its lock has not ended.",
        "The event AnotherRun of the ClusterMeshBinding names the holder; follow [locking.md](locking.md).",
    ),
    Alert(
        "MeshOperatorForeignRecords", "max by (job, namespace, reason) (mesh_operator_foreign_records) > 0", "10m", "warning",
        "The operator has records of another source ({{ $labels.reason }})",
        "The management plane was restored, copied or moved, or kcp is another one. These records lead to no write, and with AnotherSource"
        " no new mesh is begun.",
        "Follow [backup.md](backup.md); the log's `records_of_another_source` names the source.",
    ),
    Alert(
        "MeshOperatorLinkDown",
        'max by (job, namespace) (mesh_operator_links{state="down"}) > 0'
        ' unless on (job, namespace) max by (job, namespace) (mesh_operator_members{state="down"}) > 0',
        "10m", "critical", "A link between two members that live is down", *_LINK,
    ),
    Alert(
        "MeshLinkDown", _BOTH_ALIVE, "10m", "critical",
        "The link from {{ $labels.cluster }} to {{ $labels.peer }} of mesh {{ $labels.mesh }} is down", *_LINK,
    ),
    Alert(
        "MeshLockHeld", 'max by (mesh, run, code) (cilium_mesh_findings{code=~"CM-LOCK-.*"}) > 0', "2h", "warning",
        "A run met another one at the lock of mesh {{ $labels.mesh }}",
        "The run wrote nothing, and none after it has succeeded.",
        "Follow [CM-LOCK-01](runbooks/CM-LOCK-01.md); the finding names the holder.",
    ),
    Alert(
        "MeshCertificateEndsSoon",
        "min by (mesh, cluster) (cilium_mesh_certificate_expiry_timestamp_seconds) - time() < 7 * 86400",
        "1h", "critical",
        "The first certificate of {{ $labels.cluster }} in mesh {{ $labels.mesh }} ends within 7 days",
        "When it ends, new connections fail. The date is that of the last run of the playbook `ca`.",
        "Run `ca` with `ca_sync_state: renewed` ([trust.md](trust.md)).",
    ),
    Alert(
        "MeshRunFailed", "max by (mesh, run) (cilium_mesh_run_success) == 0", "2h", "warning",
        "Runs of {{ $labels.run }} for mesh {{ $labels.mesh }} fail",
        "The outcome of the last run was not as asked, and no later one was.",
        "Read the findings of the run.",
    ),
    Alert(
        "MeshRunOld", "time() - max by (mesh, run) (cilium_mesh_run_timestamp_seconds) > 26 * 3600", "0s", "warning",
        "{{ $labels.run }} did not run for mesh {{ $labels.mesh }} for more than a day",
        "All that its file says is as old as that, and none of the other alerts can be trusted.",
        "Read the log of the scheduler that starts the playbook.",
    ),
    *_states(),
    *_findings(),
)  # fmt: skip


def alerts_of(prefix: str) -> tuple[Alert, ...]:
    """Return the alerts of the operator ("MeshOperator") or of runs ("Mesh")."""
    return tuple(alert for alert in ALERTS if alert.name.startswith("MeshOperator") is (prefix == "MeshOperator"))
