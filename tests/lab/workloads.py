# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pods with processes in a lab with real agents: made, entered, and asked over the network from another pod.

Everything goes through the API of the cluster, as kubectl would do it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import kubernetes
from kubernetes.stream import stream

from tests.lab.api import LabApi
from tests.lab.control import LabError
from tests.lab.patience import Budget
from tests.lab.pods import RUN
from tests.lab.responder import PORT

Object = dict[str, Any]

PAUSE: Final = ("sleep", "infinity")
"""Command of a pod that only asks others."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_READY_LIMIT: Final = 60.0


@dataclass(frozen=True)
class Answer:
    """What a command in a pod came to. ``code``: its exit status."""

    text: str
    errors: str
    code: int


def pod(name: str, labels: Mapping[str, str], command: Sequence[str], *, namespace: str = "default", node: str = "") -> Object:
    """Return a Pod whose command runs as a process. ``node``: its name; "" leaves it to the scheduler."""
    container = {
        "name": "main",
        "image": "lab",
        "command": list(command),
        **(
            {"readinessProbe": {"httpGet": {"path": "/", "port": PORT}}, "ports": [{"containerPort": PORT}]}
            if command[0] == "serve"
            else {}
        ),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels), "annotations": {RUN: "true"}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            **({"nodeName": node} if node else {}),
        },
    }


def wait_ready(api: LabApi, namespace: str, name: str, *, limit: float = _READY_LIMIT) -> str:
    """Wait until a pod is ready; return its address.

    :raises LabError: it is not within ``limit`` seconds; the text says what it waits for
    """
    budget = Budget(limit)
    while True:
        found = api.get(f"/api/v1/namespaces/{namespace}/pods/{name}") or {}
        status: Object = found.get("status") or {}
        if any(entry["type"] == "Ready" and entry["status"] == "True" for entry in status.get("conditions") or []):
            return str(status["podIP"])
        if budget.is_spent():
            states = [json.dumps(entry.get("state")) for entry in status.get("containerStatuses") or []]
            raise LabError(f"pod {namespace}/{name} is not ready after {limit:g} s: {'; '.join(states) or 'nothing runs it'}")
        time.sleep(0.1)


def execute(kubeconfig: Path, namespace: str, name: str, command: Sequence[str], *, limit: float = 30.0) -> Answer:
    """Run a command in a pod, as ``kubectl exec`` does. :raises LabError: the API server refused it"""
    if not _NAME.fullmatch(name):  # it becomes a part of a path
        raise LabError(f"{name!r} is no name of a pod; the namespace is an option of its own")
    client = kubernetes.config.new_client_from_config(str(kubeconfig))
    try:
        call = kubernetes.client.CoreV1Api(client).connect_get_namespaced_pod_exec
        session = stream(call, name, namespace, command=list(command), stdout=True, stderr=True, _preload_content=False)
        session.run_forever(timeout=limit)
        text, errors = session.read_stdout(timeout=1) or "", session.read_stderr(timeout=1) or ""
        code = session.returncode
        session.close()
    except kubernetes.client.ApiException as error:
        raise LabError(f"exec in pod {namespace}/{name}: {error.reason or error}") from None
    except ValueError as error:  # the client's, when the kubelet refuses: it takes the reason for an exit status
        raise LabError(f"exec in pod {namespace}/{name}: {error}") from None
    finally:
        client.close()
    return Answer(text, errors, 124 if code is None else int(code))


def curl(kubeconfig: Path, namespace: str, name: str, url: str, *, seconds: float = 2.0) -> Answer:
    """Ask a URL from a pod. Services have the names SERVICE (of the own namespace), SERVICE.NAMESPACE and SERVICE.NAMESPACE.svc.

    :raises LabError: the pod cannot be entered
    """
    return execute(kubeconfig, namespace, name, ["curl", "-sS", "--max-time", f"{seconds:g}", url], limit=seconds + 20)
