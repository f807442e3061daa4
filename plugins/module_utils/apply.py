# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan into API calls: wave after wave, clusters side by side, the steps of one cluster in order."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .errors import ClusterError, InvalidInput, Unreachable
from .kube import Cluster
from .materialise import materialise
from .observe import Observation
from .secrets import Sealed
from .steps import NOW, ApiWrite, ApplyHostAliases, ApplySecret, DeleteObject, Plan, Step, WriteUsers

WORKLOADS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}
COLLECTIONS = {"Secret": "secrets", "ConfigMap": "configmaps"}


@dataclass(frozen=True, kw_only=True)
class ApplyResult:
    """What came of a plan."""

    applied: tuple[Step, ...]
    failures: Mapping[str, ClusterError]  # by inventory name: the first error of a cluster
    skipped: tuple[Step, ...]  # not tried: a step before it failed in the same cluster, or too many clusters had failed
    stopped: bool = False  # more clusters failed than were allowed, and waves were left

    @property
    def changed(self) -> bool:
        return bool(self.applied)


@dataclass
class _Outcome:
    applied: list[Step]
    failed: Step | None = None
    error: ClusterError | None = None


def apply_plan(plan: Plan, observation: Observation, *, now: datetime, parallel: int = 10, max_failures: int | None = None) -> ApplyResult:
    """Make every write of the plan. A cluster that fails is left at that point; the others go on.

    :param observation: the one that the plan was made from, with its connections open.
    :param now: aware, UTC; the start of certificates that are minted.
    :param parallel: clusters at a time.
    :param max_failures: when more clusters than that have failed, no further wave is begun. None: the others always go on.
    :raises InvalidInput: the plan has a blocking problem; nothing was written.
    :raises ClusterError: a value or a connection that the plan relies on is missing; nothing was written.
    """
    if plan.blocked:
        raise InvalidInput("The plan has blocking problems.", remedy="Resolve them, then plan again.")
    steps = [step for wave in plan.waves for step in wave]
    for step in steps:
        if step.cluster not in observation.clusters:
            raise Unreachable("There is no connection to the cluster.", remedy="Observe it, then plan again.", cluster=step.cluster)
    values = materialise(steps, observation.secrets, now)
    work = [(step, values.get(position, {})) for position, step in enumerate(steps)]
    outcomes: dict[str, _Outcome] = {step.cluster: _Outcome([]) for step in steps}
    stopped = False
    with ThreadPoolExecutor(max(1, min(parallel, len(outcomes) or 1))) as pool:
        for wave in sorted({step.wave for step in steps}):
            stopped = max_failures is not None and sum(outcome.error is not None for outcome in outcomes.values()) > max_failures
            if stopped:
                break
            pending = [
                pool.submit(
                    _run,
                    plan.manager,
                    observation.clusters[host],
                    outcome,
                    [w for w in work if w[0].wave == wave and w[0].cluster == host],
                    now,
                )
                for host, outcome in outcomes.items()
            ]
            for future in pending:
                future.result()
    return _result(steps, outcomes, stopped)


def _run(manager: str, cluster: Cluster, outcome: _Outcome, work: list[tuple[Step, Mapping[str, Sealed]]], now: datetime) -> None:
    for step, values in work:
        if outcome.error is not None:
            return
        try:
            _write(manager, cluster, step, values, now)
        except ClusterError as error:
            outcome.failed, outcome.error = step, error
        else:
            outcome.applied.append(step)


def _result(steps: list[Step], outcomes: Mapping[str, _Outcome], stopped: bool) -> ApplyResult:
    applied = {id(step) for outcome in outcomes.values() for step in outcome.applied}
    failed = {id(outcome.failed) for outcome in outcomes.values()}
    return ApplyResult(
        applied=tuple(step for step in steps if id(step) in applied),
        failures={host: outcome.error for host, outcome in outcomes.items() if outcome.error is not None},
        skipped=tuple(step for step in steps if id(step) not in applied | failed),
        stopped=stopped,
    )


def _write(manager: str, cluster: Cluster, step: Step, values: Mapping[str, Sealed], now: datetime) -> None:
    action = step.action
    if isinstance(action, ApiWrite):
        _call(action.manager or manager, cluster, action, api_body(action, values, now))
        return
    if isinstance(action, ApplySecret):
        cluster.apply(_core_path("Secret", action.namespace, action.name), secret_body(action, values), manager=manager)
    elif isinstance(action, ApplyHostAliases):
        path = f"/apis/apps/v1/namespaces/{action.namespace}/{WORKLOADS[action.kind]}/{action.name}"
        cluster.apply(path, host_aliases_body(action), manager=manager)
    elif isinstance(action, WriteUsers) and step.verb == "create":
        cluster.create(_core_path("ConfigMap", action.namespace), users_body(action), manager=manager)
    elif isinstance(action, WriteUsers):
        cluster.merge_patch(_core_path("ConfigMap", action.namespace, action.name), users_patch(action), manager=manager)
    else:
        delete: DeleteObject = action
        path = _core_path(delete.kind, delete.namespace, delete.name)
        cluster.delete(path, uid=delete.uid, resource_version=delete.resource_version)


def _call(manager: str, cluster: Cluster, action: ApiWrite, body: dict[str, Any]) -> None:
    if action.method == "delete":
        metadata = body.get("metadata") or {}
        cluster.delete(action.path, uid=metadata.get("uid", ""), resource_version=metadata.get("resourceVersion", ""))
        return
    calls = {"apply": cluster.apply, "create": cluster.create, "merge": cluster.merge_patch}
    calls[action.method](action.path, body, manager=manager)


def api_body(action: ApiWrite, values: Mapping[str, Sealed], now: datetime) -> dict[str, Any]:
    """The body as it is sent: the time filled in, the values of ``secret_data`` as base64."""
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body: dict[str, Any] = _with_time(action.body, time)
    if values:
        body["data"] = {**(body.get("data") or {}), **{key: b64encode(value.reveal()).decode() for key, value in values.items()}}
    return body


def _with_time(value: Any, time: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_time(item, time) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_time(item, time) for item in value]
    return value.replace(NOW, time) if isinstance(value, str) else value


def secret_body(action: ApplySecret, values: Mapping[str, Sealed]) -> dict[str, Any]:
    """Everything of ours in the Secret, and nothing else: server-side apply takes away what we owned and no longer send."""
    metadata: dict[str, Any] = {"name": action.name, "namespace": action.namespace}
    if action.labels:
        metadata["labels"] = dict(action.labels)
    if action.annotations:
        metadata["annotations"] = dict(action.annotations)
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    if values:
        body["data"] = {key: b64encode(value.reveal()).decode() for key, value in values.items()}
    return body


def host_aliases_body(action: ApplyHostAliases) -> dict[str, Any]:
    """As ``secret_body``, of the entries of hostAliases."""
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": action.kind,
        "metadata": {"name": action.name, "namespace": action.namespace},
    }
    if action.aliases:
        entries = [{"ip": ip, "hostnames": list(names)} for ip, names in action.aliases.items()]
        body["spec"] = {"template": {"spec": {"hostAliases": entries}}}
    return body


def users_body(action: WriteUsers) -> dict[str, Any]:
    """The ConfigMap where there was none."""
    metadata = {
        "name": action.name,
        "namespace": action.namespace,
        "labels": dict(action.labels),
        "annotations": {action.annotation_key: action.annotation},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"users.yaml": action.text}}


def users_patch(action: WriteUsers) -> dict[str, Any]:
    """A merge patch that is refused when the ConfigMap is not the one that was read."""
    annotation = {action.annotation_key: action.annotation or None}
    metadata = {"resourceVersion": action.resource_version, "annotations": annotation}
    return {"metadata": metadata, "data": {"users.yaml": action.text}}


def _core_path(kind: str, namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{COLLECTIONS[kind]}" + (f"/{name}" if name else "")
