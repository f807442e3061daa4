# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Two clusters as a probe meets them, in memory: pods, agents with flows, and Jobs that end as a test says. No server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Unreachable, WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    PodSelection,
    PortRule,
    Probe,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import item_marks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.streams import ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.job import POD_LABEL
from tests.testing.facts_builders import cluster_facts
from tests.testing.traffic_builders import object_facts, pod, scene, traffic

NAME = "front-to-back"
CNP = "/apis/cilium.io/v2"
Object = dict[str, Any]


def intent(action: str = "Allow", *, name: str = NAME, probe: Mapping[str, Any] | None = None, **fields: Any) -> ConnectivityIntent:
    """``frontend`` of c1 to ``backend`` of c2 on TCP 8080, probed."""
    values: dict[str, Any] = {
        "source": PodSelection(namespace="production", labels={"app": "frontend"}, clusters=("c1",)),
        "destination": PodSelection(namespace="production", labels={"app": "backend"}, clusters=("c2",)),
        "ports": (PortRule(protocol="TCP", port=8080),),
        "probe": Probe(enabled=True, **(probe or {})),
    }
    return ConnectivityIntent(name=name, action=action, **{**values, **fields})


def pod_object(
    name: str,
    *,
    ready: bool = True,
    address: str = "10.2.0.20",
    node: str = "node-1",
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A pod as the API server shows it."""
    return {
        "metadata": {"name": name, "namespace": "production", "labels": dict(labels or {"app": name.rpartition("-")[0]})},
        "spec": {
            "nodeName": node,
            "serviceAccountName": "default",
            "containers": [{"name": "main", "ports": [{"containerPort": 8080}]}],
            **(spec or {}),
        },
        "status": {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def agent_object(node: str = "node-1") -> Object:
    return {
        "metadata": {"name": f"cilium-{node}", "namespace": "kube-system", "labels": {"k8s-app": "cilium"}},
        "spec": {"nodeName": node, "containers": [{"name": "cilium-agent"}]},
        "status": {"phase": "Running"},
    }


@dataclass
class FakeCluster:
    """Answers what a probe asks. ``job_ends``: (exit code, last words) of each container of a Job, None: it never ends."""

    host: str
    pods: list[Object] = field(default_factory=list)
    agents: list[Object] = field(default_factory=lambda: [agent_object()])
    services: list[Object] = field(default_factory=list)
    flows: Callable[[Sequence[str]], ExecResult] = lambda command: ExecResult(stdout="", stderr="", exit_code=0)
    job_ends: Sequence[tuple[int, str]] | None = ((0, ""),)
    fail: dict[str, ClusterError] = field(default_factory=dict)  # by "verb resource"
    jobs: dict[str, Object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    made: list[Object] = field(default_factory=list)

    def get(self, path: str) -> Object | None:
        self._ask("get", path)
        if "/jobs/" in path:
            return self.jobs.get(path)
        return None

    def list(self, path: str, *, label_selector: str = "", most: int = 0) -> list[Object]:
        self._ask("list", path)
        if path.endswith("/jobs"):
            return list(self.jobs.values())
        if path.endswith("/services"):
            return self.services[: most or None]
        if "kube-system" in path:
            return self.agents
        if label_selector.startswith(POD_LABEL):
            return [self._job_pod(job) for job in self.jobs.values()] if self.job_ends is not None else []
        wanted = dict(part.split("=") for part in label_selector.split(",") if "=" in part)
        return [p for p in self.pods if wanted.items() <= p["metadata"]["labels"].items()][: most or None]

    def create(self, path: str, body: Object, *, manager: str) -> Object:
        self._ask("create", path)
        where = f"{path}/{body['metadata']['name']}"
        if where in self.jobs:
            raise WriteConflict("it exists", cluster=self.host)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.jobs[where] = {**body, "metadata": {**body["metadata"], "uid": f"uid-{len(self.made)}", "creationTimestamp": now}}
        self.made.append(body)
        return self.jobs[where]

    def delete(self, path: str, *, uid: str = "") -> None:
        self._ask("delete", path)
        if path in self.jobs and self.jobs[path]["metadata"]["uid"] != uid:
            raise WriteConflict("another one", cluster=self.host)
        self.jobs.pop(path, None)

    def exec(self, pod: str, container: str, command: Sequence[str], *, timeout: float, partial: bool) -> ExecResult:
        del pod, container, timeout, partial
        self._ask("exec", "/api/v1/namespaces/kube-system/pods/x")
        self.commands.append(list(command))
        return self.flows(command)

    def _ask(self, verb: str, path: str) -> None:
        parts = path.split("/")
        resource = next(part for part in reversed(parts) if part.endswith("s") and part not in ("kube-system",))
        self.asked.append(f"{verb} {resource}")
        if f"{verb} {resource}" in self.fail:
            raise self.fail[f"{verb} {resource}"]

    def _job_pod(self, job: Object) -> Object:
        states = [
            {
                "name": f"probe-{n}",
                "state": {"terminated": {"exitCode": code, "message": words, "reason": "Error" if code else "Completed"}},
            }
            for n, (code, words) in enumerate(self.job_ends or ())
        ]
        return {"metadata": {"labels": job["spec"]["template"]["metadata"]["labels"]}, "status": {"containerStatuses": states}}


def said(*lines: str, code: int = 0) -> Callable[[Sequence[str]], ExecResult]:
    """An agent that always says this."""
    return lambda command: ExecResult(stdout="\n".join(lines), stderr="", exit_code=code)


def world(
    *,
    hubble: bool = True,
    phase: str = "Connected",
    intents: Sequence[str] = (NAME,),
    changed: str = "2026-09-01T11:00:00Z",
    seen: str = "",
    job_ends: Sequence[tuple[int, str]] | None = ((0, ""),),
    **fields: Any,
) -> tuple[Scene, dict[str, Any]]:
    """(the scene, the clusters by name): pods on both sides, the policies of the intents in both clusters.

    ``seen``: the flow that agents of c2 report. ``job_ends``: of Jobs in c1.
    """
    on = {"enable-hubble": "true" if hubble else "false"}
    binding = Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2"))
    policies = tuple(
        object_facts(
            "CiliumNetworkPolicy",
            "ciliumnetworkpolicies",
            name,
            namespace="production",
            api=CNP,
            changed=changed,
            **item_marks(binding, ItemRef(ItemKind.INTENT, name)),
        )
        for name in intents
    )
    facts = {host: cluster_facts(host, config=on) for host in ("c1", "c2")}
    found = scene(
        traffic("c1", pods=(pod("frontend-1", app="frontend"),), policies=policies),
        traffic("c2", pods=(pod("backend-1", app="backend"),), policies=policies),
        facts=facts,
        phase=phase,
        **fields,
    )
    c1 = FakeCluster("c1", pods=[pod_object("frontend-1")], job_ends=job_ends)
    return found, {"c1": c1, "c2": FakeCluster("c2", pods=[pod_object("backend-1")], flows=said(seen))}


def silent(cluster: FakeCluster) -> None:
    """Its agents cannot be asked."""
    cluster.fail["exec pods"] = Unreachable("It took longer than 10 s.", cluster=cluster.host)
