# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runner of one Job: created, awaited, read, deleted. The deletion is tried whatever happens in between.

Three mechanisms remove a Job that was not deleted, for example after a killed run: it is ended after Limits.job_seconds, Kubernetes
removes it Limits.job_ttl seconds after its end, and the next run deletes leftovers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ..base.clocks import Clocks
from ..base.errors import ClusterError, WriteConflict
from ..base.json_fields import labels_of, parse_time, text
from ..kube.client import Cluster
from ..mesh.binding.model import Binding
from ..mesh.ownership.marks import MANAGED_BY_LABEL, OWNER_LABEL
from ..probe.evidence import JobResult
from ..probe.job import POD_LABEL, PROBE_LABEL, ConnectionResult, ContainerEnd, container_ends, finished, publishing_services
from ..probe.limits import Limits

_SERVICES = 500  # read in the Job's namespace


def jobs_path(namespace: str = "") -> str:
    """Return the API path of Jobs in the namespace; of all Jobs without one."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" if namespace else "/apis/batch/v1/jobs"


def sweep_jobs(cluster: Cluster, binding: Binding, limits: Limits, *, now: datetime) -> str:
    """Delete the Jobs that earlier runs of this binding left behind, in every namespace. It takes one list.

    Returns why that failed, else "". A young Job that runs may be that of another run; it stays.
    """
    selector = f"{PROBE_LABEL}=true,{OWNER_LABEL}={binding.owner}"
    try:
        for job in cluster.list(jobs_path(), label_selector=selector):
            if finished(job) or _age(job, now) > limits.job_seconds:
                cluster.delete(f"{jobs_path(text(job, 'metadata', 'namespace'))}/{text(job, 'metadata', 'name')}", uid=_uid(job))
    except WriteConflict:
        return ""  # another Job has its name now
    except ClusterError as error:
        return error.clause
    return ""


def run_job(cluster: Cluster, binding: Binding, body: Mapping[str, Any], limits: Limits, *, deadline: float, clocks: Clocks) -> JobResult:
    """Create the Job and wait until its containers have ended. A ClusterError becomes the problem of the result.

    :param deadline: of ``clocks.clock``, at which waiting ends.
    """
    metadata = body["metadata"]
    collection = jobs_path(metadata["namespace"])
    try:
        problem = _in_the_way(cluster, body)
        if problem:
            return JobResult(problem=problem)
        made = _created(cluster, binding, collection, body, limits, clocks)
    except ClusterError as error:
        return JobResult(problem=f"the Job could not be made: {error.clause}")
    if made is None:
        return JobResult(problem="another run is probing the intent right now")
    found: tuple[ContainerEnd, ...] = ()
    problem, left = "", False
    try:
        found, problem = _waited(cluster, metadata["namespace"], metadata["name"], len(_containers(body)), limits, deadline, clocks)
    finally:
        left = not _deleted(cluster, f"{collection}/{metadata['name']}", _uid(made))
    return JobResult(ends=found, problem=problem, left=left)


def _in_the_way(cluster: Cluster, body: Mapping[str, Any]) -> str:
    """Return why Services forbid the Job, as they would send traffic to its pod; "" if none does.

    A pod that is not ready is in no ready EndpointSlice, but some Services publish all.
    """
    namespace, labels = body["metadata"]["namespace"], body["spec"]["template"]["metadata"]["labels"]
    services = cluster.list(f"/api/v1/namespaces/{namespace}/services", most=_SERVICES)
    if len(services) == _SERVICES:
        return f"no Job was made: {namespace} has {_SERVICES} Services or more, and the probe does not read all of them"
    found = publishing_services(services, labels)
    return f"no Job was made: Service {found[0]} publishes addresses that are not ready and would lead traffic to it" if found else ""


def _created(cluster: Cluster, binding: Binding, collection: str, body: Mapping[str, Any], limits: Limits, clocks: Clocks) -> Any:
    """Create the Job; return None when one of that name runs. A leftover of that name is deleted first."""
    try:
        return cluster.create(collection, body, manager=binding.manager)
    except WriteConflict:
        path = f"{collection}/{body['metadata']['name']}"
        existing = cluster.get(path)
        if existing is not None and not _ours(existing, binding):
            raise
        if existing is not None and not finished(existing) and _age(existing, clocks.now()) <= limits.job_seconds:
            return None
        if existing is not None:
            cluster.delete(path, uid=_uid(existing))
            _gone(cluster, path, clocks)
    return cluster.create(collection, body, manager=binding.manager)


def _gone(cluster: Cluster, path: str, clocks: Clocks) -> None:
    """Wait until the Job is gone; its finalizers take a moment."""
    for _turn in range(20):
        if cluster.get(path) is None:
            return
        clocks.sleep(0.25)


def _waited(
    cluster: Cluster, namespace: str, name: str, count: int, limits: Limits, deadline: float, clocks: Clocks
) -> tuple[tuple[ContainerEnd, ...], str]:
    """Return (how each container ended, what went wrong). A single failed read does not end the wait."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    problem, seen = "", False
    while clocks.clock() < deadline:
        try:
            found = cluster.list(pods, label_selector=f"{POD_LABEL}={name}", most=2)
            job = cluster.get(f"{jobs_path(namespace)}/{name}")
        except ClusterError as error:
            problem = error.clause
        else:
            seen = seen or bool(found)
            states = container_ends(found[0], count) if found else []
            over = "is gone" if job is None else finished(job)
            if states and (all(states) or over):
                return tuple(state or ContainerEnd(tried=ConnectionResult.NOTHING, words=f"the Job {over}") for state in states), ""
            if over:
                return (), f"the Job ended before its pod could be read ({over})"
            problem = ""
        clocks.sleep(limits.poll)
    return (), problem or (
        "the Job had not ended in time" if seen else "no pod was made for the Job in time (a quota, or an admission rule)"
    )


def _deleted(cluster: Cluster, path: str, uid: str) -> bool:
    for _turn in range(2):
        try:
            cluster.delete(path, uid=uid)
        except WriteConflict:
            return True  # ours is gone, and another Job has its name
        except ClusterError:
            continue
        return True
    return False


def _ours(job: Any, binding: Binding) -> bool:
    labels = labels_of(job)
    return labels.get(OWNER_LABEL) == binding.owner and labels.get(PROBE_LABEL) == "true" and MANAGED_BY_LABEL in labels


def _age(job: Any, now: datetime) -> float:
    """Return the age in seconds. A Job without a time counts as old."""
    made = parse_time(text(job, "metadata", "creationTimestamp"))
    return (now - made).total_seconds() if made else float("inf")


def _uid(job: Any) -> str:
    return text(job, "metadata", "uid")


def _containers(body: Mapping[str, Any]) -> Sequence[Any]:
    found: Sequence[Any] = body["spec"]["template"]["spec"]["containers"]
    return found
