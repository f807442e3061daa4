# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One Job: made, waited for, read, deleted. Whatever happens in between, the deletion is tried.

Three things take a Job away that nobody deletes, for example after a killed run: it is ended after Limits.job_seconds, Kubernetes removes
it Limits.job_ttl seconds after its end, and the next run sweeps what is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import ClusterError, WriteConflict
from ..kube import Cluster
from ..model import Binding
from ..observe.objects import labels_of, text, time_of
from ..steps import MANAGED_BY_LABEL, OWNER_LABEL
from .job import POD_LABEL, PROBE_LABEL, Ended, Tried, ends, finished, publishing_services
from .limits import Limits

_SERVICES = 500  # looked at in the Job's namespace


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What the Job came to. ``ends`` is by target, () when it never ran; ``problem`` says why, or what went wrong beside."""

    ends: tuple[Ended, ...] = ()
    problem: str = ""
    left: bool = False  # it could not be deleted


def jobs_path(namespace: str = "") -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" if namespace else "/apis/batch/v1/jobs"


def sweep(cluster: Cluster, binding: Binding, limits: Limits) -> str:
    """Delete what earlier runs of this binding left behind, in every namespace. Returns why it could not, else "". One list.

    A Job that runs and is young may be that of another run; it stays.
    """
    selector = f"{PROBE_LABEL}=true,{OWNER_LABEL}={binding.owner}"
    try:
        for job in cluster.list(jobs_path(), label_selector=selector):
            if finished(job) or _age(job) > limits.job_seconds:
                cluster.delete(f"{jobs_path(text(job, 'metadata', 'namespace'))}/{text(job, 'metadata', 'name')}", uid=_uid(job))
    except WriteConflict:
        return ""  # another one took its place since
    except ClusterError as error:
        return error.message
    return ""


def attempt(cluster: Cluster, binding: Binding, body: Mapping[str, Any], limits: Limits, *, deadline: float) -> Attempt:
    """Make the Job and wait until its containers have ended. Raises nothing of ClusterError.

    :param deadline: time.monotonic at which waiting ends.
    """
    metadata = body["metadata"]
    collection = jobs_path(metadata["namespace"])
    try:
        problem = _in_the_way(cluster, body)
        if problem:
            return Attempt(problem=problem)
        made = _created(cluster, binding, collection, body, limits)
    except ClusterError as error:
        return Attempt(problem=f"the Job could not be made: {error.message}")
    if made is None:
        return Attempt(problem="another run is probing the intent right now")
    found: tuple[Ended, ...] = ()
    problem, left = "", False
    try:
        found, problem = _waited(cluster, metadata["namespace"], metadata["name"], len(_containers(body)), limits, deadline)
    finally:
        left = not _deleted(cluster, f"{collection}/{metadata['name']}", _uid(made))
    return Attempt(ends=found, problem=problem, left=left)


def _in_the_way(cluster: Cluster, body: Mapping[str, Any]) -> str:
    """Services that would send traffic to the Job's pod. A pod that is not ready is in no ready EndpointSlice, but some publish all."""
    namespace, labels = body["metadata"]["namespace"], body["spec"]["template"]["metadata"]["labels"]
    services = cluster.list(f"/api/v1/namespaces/{namespace}/services", most=_SERVICES)
    if len(services) == _SERVICES:
        return f"no Job was made: {namespace} has {_SERVICES} Services or more, and not all of them are looked at"
    found = publishing_services(services, labels)
    return f"no Job was made: Service {found[0]} publishes addresses that are not ready and would lead traffic to it" if found else ""


def _created(cluster: Cluster, binding: Binding, collection: str, body: Mapping[str, Any], limits: Limits) -> Any:
    """The Job; None when one of that name is at work. What an earlier run left under the name is deleted first."""
    try:
        return cluster.create(collection, body, manager=binding.manager)
    except WriteConflict:
        path = f"{collection}/{body['metadata']['name']}"
        there = cluster.get(path)
        if there is not None and not _ours(there, binding):
            raise
        if there is not None and not finished(there) and _age(there) <= limits.job_seconds:
            return None
        if there is not None:
            cluster.delete(path, uid=_uid(there))
            _gone(cluster, path)
    return cluster.create(collection, body, manager=binding.manager)


def _gone(cluster: Cluster, path: str) -> None:
    """Its finalizers take a moment."""
    for _turn in range(20):
        if cluster.get(path) is None:
            return
        time.sleep(0.25)


def _waited(cluster: Cluster, namespace: str, name: str, count: int, limits: Limits, deadline: float) -> tuple[tuple[Ended, ...], str]:
    """(how each container ended, what went wrong). A read that fails once is no reason to give up."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    problem, seen = "", False
    while time.monotonic() < deadline:
        try:
            found = cluster.list(pods, label_selector=f"{POD_LABEL}={name}", most=2)
            job = cluster.get(f"{jobs_path(namespace)}/{name}")
        except ClusterError as error:
            problem = error.message
        else:
            seen = seen or bool(found)
            states = ends(found[0], count) if found else []
            over = "is gone" if job is None else finished(job)
            if states and (all(states) or over):
                return tuple(state or Ended(tried=Tried.NOTHING, words=f"the Job {over}") for state in states), ""
            if over:
                return (), f"the Job ended before its pod could be read ({over})"
            problem = ""
        time.sleep(limits.poll)
    return (), problem or (
        "the Job had not ended in time" if seen else "no pod was made for the Job in time (a quota, or an admission rule)"
    )


def _deleted(cluster: Cluster, path: str, uid: str) -> bool:
    for _turn in range(2):
        try:
            cluster.delete(path, uid=uid)
        except WriteConflict:
            return True  # ours is gone, another one stands there
        except ClusterError:
            continue
        return True
    return False


def _ours(job: Any, binding: Binding) -> bool:
    labels = labels_of(job)
    return labels.get(OWNER_LABEL) == binding.owner and labels.get(PROBE_LABEL) == "true" and MANAGED_BY_LABEL in labels


def _age(job: Any) -> float:
    """Seconds. One without a time counts as old."""
    made = time_of(text(job, "metadata", "creationTimestamp"))
    return (datetime.now(UTC) - made).total_seconds() if made else float("inf")


def _uid(job: Any) -> str:
    return text(job, "metadata", "uid")


def _containers(body: Mapping[str, Any]) -> Sequence[Any]:
    found: Sequence[Any] = body["spec"]["template"]["spec"]["containers"]
    return found
