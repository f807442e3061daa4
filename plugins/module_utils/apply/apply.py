# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Execution of a plan as API calls: wave after wave, clusters side by side, the steps of one cluster in order.

Items (``Step.item``) do not depend on each other: steps of one item in one cluster keep their order, those of several items are written
side by side, and one that is refused stops its own item in that cluster and nothing else. Only deletions depend on more: one that names
what it needs (``Step.needs``) is not tried when one of those writes was not made.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from ..base.awaited import awaited
from ..base.errors import ClusterError, CredentialsInvalid, InvalidInput, KeptBack, LockLost, Unreachable, may_be_done
from ..base.sealed import Sealed
from ..base.tally import Tally, no_progress
from ..kube.client import Cluster
from ..observe import Observation
from ..plan.steps import NOW, ApiWrite, ApplyHostAliases, ApplySecret, DeleteObject, Plan, Step, WriteUsers
from .schedule import LaneKey, WaveLane, waves_of, workers_of
from .secret_values import resolve_secret_values

WORKLOADS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}
COLLECTIONS = {"Secret": "secrets", "ConfigMap": "configmaps"}


@dataclass(frozen=True, kw_only=True)
class ApplyResult:
    """Result of applying a plan."""

    applied: tuple[Step, ...]
    failures: Mapping[str, ClusterError]  # by inventory name: the error after which nothing more was tried in that cluster
    skipped: tuple[Step, ...]  # not tried: a step before it failed in the same cluster, or too many clusters had failed
    stopped: bool = False  # more clusters failed than were allowed, and waves were left
    items: Mapping[str, Mapping[str, ClusterError]] = field(default_factory=dict)  # item -> inventory name -> why it is not done there
    doubtful: bool = False  # a write got no answer that says whether it was carried out

    @property
    def changed(self) -> bool:
        """Whether anything was written, or may have been."""
        return bool(self.applied) or self.doubtful


ENDING: Final = (Unreachable, CredentialsInvalid, LockLost)
"""Errors after which no further request is sent to a cluster, for any step."""


@dataclass
class _Course:
    """Progress of the writes. Shared by threads: each lane belongs to one thread, and a set or a dict takes one entry at a time."""

    plan: Plan
    clusters: Mapping[str, Cluster]
    now: datetime
    allow: Callable[[str], None]
    applied: set[int] = field(default_factory=set)  # ids of steps
    failed: dict[int, ClusterError] = field(default_factory=dict)  # by the id of a step
    broken: dict[LaneKey, ClusterError] = field(default_factory=dict)
    ended: dict[str, ClusterError] = field(default_factory=dict)  # by inventory name: nothing more is tried there
    doubtful: bool = False  # see ApplyResult
    unwritten: tuple[Step, ...] = ()  # of the waves before this one: steps that were not applied
    over: bool = False  # a signal ends the run: no further write begins
    under_way: dict[int, Step] = field(default_factory=dict)  # by the id of a step, in the order in which they began

    def tally(self) -> Tally:
        """Return how many steps are written, and which one has been under way for longest."""
        first = next(iter(self.under_way.copy().values()), None)
        return Tally(len(self.applied), len(self.plan.steps), f"{first.cluster} is at {first.object}" if first else "")

    def work(self, queue: deque[WaveLane]) -> None:
        """Run lanes of one cluster until none is left."""
        while queue:
            try:
                lane = queue.popleft()
            except IndexError:  # another worker took the last one
                return
            self.run(lane)

    def run(self, lane: WaveLane) -> None:
        """Write the steps of one lane, up to the first that fails."""
        cluster = lane.key.cluster
        for step, values in lane.work:
            if self.over or cluster in self.ended or lane.key in self.broken:
                return
            missing = next((other for other in self.unwritten if step.needs_written(other)), None)
            if missing is not None:
                self.failed[id(step)] = self.broken[lane.key] = _kept_back(step, missing)
                return
            sent = False
            self.under_way[id(step)] = step
            try:
                self.allow(cluster)
                sent = True
                _write(self.plan.manager, self.clusters[cluster], step, values, self.now)
            except ClusterError as error:
                self.doubtful = self.doubtful or (sent and may_be_done(error))
                self.failed[id(step)] = self.broken[lane.key] = error
                if not step.item or isinstance(error, ENDING):
                    self.ended.setdefault(cluster, error)
            else:
                self.applied.add(id(step))
            finally:
                self.under_way.pop(id(step), None)


def no_guard(cluster: str) -> None:
    """Allow every write. For callers that are the only writer without a lock, such as tests."""


def apply_plan(
    plan: Plan,
    observation: Observation,
    *,
    now: datetime,
    parallel: int = 10,
    max_failures: int | None = None,
    allow: Callable[[str], None] = no_guard,
    progress: Callable[[Tally], None] = no_progress,
) -> ApplyResult:
    """Make every write of the plan. A cluster that fails is left at that point; the others go on.

    :param observation: the one that the plan was made from, with its connections open.
    :param now: aware, UTC; the start of certificates that are minted.
    :param parallel: writes at a time; in one cluster more than one only of different items.
    :param max_failures: when more clusters than that have failed, no further wave is begun. None: the others always go on.
    :param allow: called with the inventory name before each write; it raises a ClusterError if the write must not begin.
    :param progress: called in this thread with the steps that are written, about twice a second and after each wave.
    :raises InvalidInput: when the plan has a blocking problem; nothing was written.
    :raises ClusterError: when a value or a connection that the plan relies on is missing; nothing was written.
    """
    if plan.blocked:
        raise InvalidInput("The plan has blocking problems.", remedy="Resolve them, then plan again.")
    steps = [step for wave in plan.waves for step in wave]
    for step in steps:
        if step.cluster not in observation.clusters:
            raise Unreachable("There is no connection to the cluster.", remedy="Observe it, then plan again.", cluster=step.cluster)
    values = resolve_secret_values(steps, observation.secrets, now)
    waves = waves_of(steps, values)
    course = _Course(plan, observation.clusters, now, allow)
    stopped = False
    at_once = max((len(workers_of(wave, parallel)) for wave in waves.values()), default=1)
    with ThreadPoolExecutor(max(1, min(parallel, at_once))) as pool:
        for number, wave in waves.items():
            course.unwritten = tuple(step for step in steps if step.wave < number and id(step) not in course.applied)
            stopped = max_failures is not None and len(course.ended) > max_failures
            if stopped:
                break
            try:
                awaited([pool.submit(course.work, queue) for queue in workers_of(wave, parallel)], lambda: progress(course.tally()))
            except BaseException:
                course.over = True  # the pool waits for its threads
                raise
    return _result(steps, course, stopped)


def _result(steps: Iterable[Step], course: _Course, stopped: bool) -> ApplyResult:
    applied, skipped = [], []
    items: dict[str, dict[str, ClusterError]] = {}
    for step in steps:
        if id(step) in course.applied:
            applied.append(step)
            continue
        if id(step) not in course.failed:
            skipped.append(step)
        if step.item:
            key = LaneKey(step.cluster, step.item)
            error = course.failed.get(id(step)) or course.broken.get(key) or course.ended.get(step.cluster)
            items.setdefault(step.item, {}).setdefault(step.cluster, error or _not_tried(step.cluster))
    return ApplyResult(
        applied=tuple(applied),
        failures=dict(course.ended),
        skipped=tuple(skipped),
        stopped=stopped,
        items=items,
        doubtful=course.doubtful,
    )


def _kept_back(step: Step, missing: Step) -> KeptBack:
    where = "" if missing.cluster == step.cluster else f" in {missing.cluster}"
    written = "deleted" if missing.verb == "delete" else "written"
    meant = "may be restricted by it" if missing.needs else "may replace it"
    return KeptBack(
        f"{step.object} is kept as it is, because {missing.object} of {missing.item} was not {written}{where} and {meant}.",
        remedy=f"Resolve the failed write and run again: the run then {'deletes' if step.verb == 'delete' else 'changes'} it.",
        cluster=step.cluster,
    )


def _not_tried(cluster: str) -> ClusterError:
    why = "Not tried: more clusters had failed than max_failures allows."
    return ClusterError(why, remedy="Run again when they answer.", cluster=cluster)


def _write(manager: str, cluster: Cluster, step: Step, values: Mapping[str, Sealed], now: datetime) -> None:
    action = step.action
    if isinstance(action, ApiWrite):
        _call(action.manager or manager, cluster, action, api_body(action, values, now))
        return
    if isinstance(action, ApplySecret):
        cluster.apply(_core_path("Secret", action.namespace, action.name), secret_body(action, values), manager=manager)
    elif isinstance(action, ApplyHostAliases):
        path = f"/apis/apps/v1/namespaces/{action.namespace}/{WORKLOADS[action.kind]}/{action.name}"
        cluster.apply(path, host_aliases_body(action, now), manager=manager)
    elif isinstance(action, WriteUsers) and step.verb == "create":
        # By server-side apply: the right to create can be limited to the name, and a ConfigMap with other users that another writer made
        # meanwhile is a conflict, as users.yaml is one field.
        cluster.apply(_core_path("ConfigMap", action.namespace, action.name), users_body(action), manager=manager)
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
    """Return the body to send: the time filled in, the values of ``secret_data`` as base64."""
    body: dict[str, Any] = _with_time(action.body, _time_text(now))
    if values:
        body["data"] = {**(body.get("data") or {}), **{key: b64encode(value.reveal()).decode() for key, value in values.items()}}
    return body


def _time_text(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_time(value: Any, time: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_time(item, time) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_time(item, time) for item in value]
    return value.replace(NOW, time) if isinstance(value, str) else value


def secret_body(action: ApplySecret, values: Mapping[str, Sealed]) -> dict[str, Any]:
    """Return all keys of the binding in the Secret, and nothing else: server-side apply removes owned keys that are not sent."""
    metadata: dict[str, Any] = {"name": action.name, "namespace": action.namespace}
    if action.labels:
        metadata["labels"] = dict(action.labels)
    if action.annotations:
        metadata["annotations"] = dict(action.annotations)
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    if values:
        body["data"] = {key: b64encode(value.reveal()).decode() for key, value in values.items()}
    return body


def host_aliases_body(action: ApplyHostAliases, now: datetime) -> dict[str, Any]:
    """Return all hostAliases entries of the binding: server-side apply removes owned entries that are not sent."""
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": action.kind,
        "metadata": {"name": action.name, "namespace": action.namespace},
    }
    if action.annotations:
        body["metadata"]["annotations"] = _with_time(action.annotations, _time_text(now))
    if action.aliases:
        entries = [{"ip": ip, "hostnames": list(names)} for ip, names in action.aliases.items()]
        body["spec"] = {"template": {"spec": {"hostAliases": entries}}}
    return body


def users_body(action: WriteUsers) -> dict[str, Any]:
    """Return the ConfigMap to create."""
    metadata = {
        "name": action.name,
        "namespace": action.namespace,
        "labels": dict(action.labels),
        "annotations": {**action.marks, **({action.annotation_key: action.annotation} if action.annotation else {})},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"users.yaml": action.text}}


def users_patch(action: WriteUsers) -> dict[str, Any]:
    """Return a merge patch that is refused if the ConfigMap is not the one that was read."""
    annotation = {action.annotation_key: action.annotation or None}
    metadata = {"resourceVersion": action.resource_version, "annotations": annotation}
    return {"metadata": metadata, "data": {"users.yaml": action.text}}


def _core_path(kind: str, namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{COLLECTIONS[kind]}" + (f"/{name}" if name else "")
