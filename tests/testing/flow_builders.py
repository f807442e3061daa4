# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Flows as ``hubble observe -o jsonpb`` writes them: proto names, fields with their default value left out (cilium: api/v1/flow)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

TYPES = {"drop": 1, "trace": 4, "policy-verdict": 5}


def side(cluster: str, pod: str, *, namespace: str = "production", **labels: str) -> dict[str, Any]:
    """An endpoint of a pod."""
    found = {"io.cilium.k8s.policy.cluster": cluster, "io.kubernetes.pod.namespace": namespace, **labels}
    listed = sorted(f"k8s:{key}={value}" for key, value in found.items())
    return {"ID": 1234, "identity": 131073, "cluster_name": cluster, "namespace": namespace, "labels": listed, "pod_name": pod}


FRONTEND = side("c1", "frontend-1", app="frontend")
BACKEND = side("c2", "backend-1", app="backend")


def flow(
    verdict: str = "FORWARDED",
    *,
    time: datetime | str = "2026-08-20T09:59:00.123456789Z",
    kind: str = "trace",
    source: dict[str, Any] | None = None,
    destination: dict[str, Any] | None = None,
    port: int = 8080,
    protocol: str = "TCP",
    node: str = "c2/c2-node1",
    **fields: Any,
) -> str:
    """One line. A trace is one at TO_ENDPOINT, a drop one by policy; ``fields`` are put over all of that, None takes one away."""
    when = time if isinstance(time, str) else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    icmp = protocol.startswith("ICMP")
    body: dict[str, Any] = {
        "time": when,
        "uuid": "0e6e1f5a-6a2b-4c7f-9f52-6c6c5a4c0b11",
        "verdict": verdict,
        "ethernet": {"source": "ca:fe:00:00:00:01", "destination": "ca:fe:00:00:00:02"},
        "IP": {"source": "10.1.0.10", "destination": "10.2.0.20", "ipVersion": "IPv4"},
        "l4": {protocol: {"type": port} if icmp else {"source_port": 42345, "destination_port": port, "flags": {"SYN": True}}},
        "source": FRONTEND if source is None else source,
        "destination": BACKEND if destination is None else destination,
        "Type": "L3_L4",
        "node_name": node,
        "event_type": {"type": TYPES[kind]},
        "traffic_direction": "INGRESS",
        "Summary": "TCP Flags: SYN",
    }
    if kind == "trace":
        body |= {"trace_observation_point": "TO_ENDPOINT", "is_reply": False}
    elif verdict == "DROPPED":
        body |= {"drop_reason": 133, "drop_reason_desc": "POLICY_DENIED"}
        body["event_type"]["sub_type"] = 133
    else:
        body["is_reply"] = False
    body = {key: value for key, value in {**body, **fields}.items() if value is not None}
    return json.dumps({"flow": body, "node_name": node, "time": when})
