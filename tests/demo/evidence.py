# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the running kvstoremesh of a cluster says, asked with the kubernetes client: past the collection, and past the lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.stream import stream

NAMESPACE = "kube-system"
COMMAND = ["clustermesh-apiserver", "kvstoremesh-dbg", "status", "-o", "json"]
TIMEOUT = 20  # seconds


def ask_kvstoremesh(kubeconfig: Path) -> list[dict[str, Any]]:
    """Rows with ``name``, ``ready``, ``status`` per peer; [] when no pod runs or it does not answer. As ``kubectl exec`` would ask."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        core = client.CoreV1Api(api)
        pods = core.list_namespaced_pod(NAMESPACE, label_selector="k8s-app=clustermesh-apiserver").items
        running = [pod.metadata.name for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
        if not running:
            return []
        # Unread: with _preload_content the client would turn JSON into the text of a Python dictionary.
        answer = stream(
            core.connect_get_namespaced_pod_exec,
            running[0],
            NAMESPACE,
            container="kvstoremesh",
            command=COMMAND,
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
        answer.run_forever(timeout=TIMEOUT)
        text = answer.read_stdout(timeout=1)
        answer.close()
    try:
        return json.loads(text) or []
    except ValueError:
        return []
