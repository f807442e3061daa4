# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The status of a pod as a kubelet reports it, from what its containers do."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass
class ContainerState:
    """One container. ``running_since`` set: it runs; ``ended`` set: it does not, and how it ended; neither: it waits for ``reason``."""

    name: str
    image: str
    reason: str = "ContainerCreating"
    message: str = ""
    running_since: str = ""
    ended: Object | None = None
    last_ended: Object | None = None
    ready: bool = False
    restarts: int = 0

    def started(self) -> None:
        self.last_ended = self.ended or self.last_ended
        self.running_since, self.ended, self.reason, self.message = now(), None, "", ""

    def ended_with(self, code: int) -> None:
        """``code``: exit status, negative for a signal."""
        reason = "Completed" if code == 0 else "Error"
        status = code if code >= 0 else 128 - code
        self.ended = {"exitCode": status, "reason": reason, "startedAt": self.running_since or now(), "finishedAt": now()}
        self.running_since, self.ready = "", False

    def waits(self, reason: str, message: str = "") -> None:
        self.last_ended = self.ended or self.last_ended
        self.running_since, self.ended, self.ready = "", None, False
        self.reason, self.message = reason, message

    def to_status(self) -> Object:
        if self.running_since:
            state: Object = {"running": {"startedAt": self.running_since}}
        elif self.ended:
            state = {"terminated": self.ended}
        else:
            state = {"waiting": {"reason": self.reason, **({"message": self.message} if self.message else {})}}
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image,
            "ready": self.ready,
            "started": bool(self.running_since),
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": self.last_ended} if self.last_ended else {},
        }


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_status(
    pod: Mapping[str, Any],
    init: Sequence[ContainerState],
    containers: Sequence[ContainerState],
    *,
    host_ip: str,
    pod_ip: str,
    network: bool,
) -> Object:
    """Body of ``status``. ``network``: whether the pod's volumes and network are there, so that containers can start."""
    initialized = all(state.ended is not None and state.ended["exitCode"] == 0 for state in init)
    ready = initialized and all(state.ready for state in containers)
    old = pod.get("status") or {}
    open_gates = ready and _gates_hold(pod, old)
    return {
        "phase": _phase(pod, containers, was=str(old.get("phase") or "")),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip if network else None,
        "podIPs": [{"ip": pod_ip}] if network else None,
        "startTime": old.get("startTime") or now(),
        "qosClass": old.get("qosClass"),
        "conditions": _conditions(
            old.get("conditions") or [],
            {"PodReadyToStartContainers": network, "Initialized": network and initialized, "ContainersReady": ready, "Ready": open_gates},
        ),
        "initContainerStatuses": [state.to_status() for state in init] or None,
        "containerStatuses": [state.to_status() for state in containers],
    }


def _gates_hold(pod: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Conditions of others that the pod waits for before it is ready (PodSpec.readinessGates)."""
    true = {condition["type"] for condition in old.get("conditions") or [] if condition["status"] == "True"}
    return all(gate["conditionType"] in true for gate in (pod.get("spec") or {}).get("readinessGates") or [])


def _phase(pod: Mapping[str, Any], containers: Sequence[ContainerState], *, was: str) -> str:
    """A pod is over when every container has ended for good (kubelet, getPhase)."""
    policy = (pod.get("spec") or {}).get("restartPolicy", "Always")
    codes = [state.ended["exitCode"] for state in containers if state.ended is not None]
    if policy != "Always" and len(codes) == len(containers):
        if not any(codes):
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    return "Running" if was == "Running" or any(state.running_since for state in containers) else "Pending"


def _conditions(old: Sequence[Mapping[str, Any]], wanted: Mapping[str, bool]) -> list[Object]:
    """Conditions of others (PodScheduled) stay; a condition's time is that of its last change."""
    before = {condition["type"]: condition for condition in old}
    result: list[Object] = [dict(condition) for condition in old if condition["type"] not in wanted]
    for name, holds in wanted.items():
        status = "True" if holds else "False"
        same = name in before and before[name]["status"] == status
        condition: Object = {"type": name, "status": status, "lastTransitionTime": before[name]["lastTransitionTime"] if same else now()}
        if not holds and name in ("Ready", "ContainersReady"):
            condition["reason"] = "ContainersNotReady"
        result.append(condition)
    return result
