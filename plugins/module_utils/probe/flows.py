# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the output of ``hubble observe -o jsonpb``: one GetFlowsResponse a line, in proto3's JSON mapping. Pure.

Names are those of the proto files (cilium: api/v1/observer/observer.proto, api/v1/flow/flow.proto; observer.pb.json.go:
UseProtoNames). Fields with their default value are left out.

Names and labels in a flow are a tenant's, so every value is checked for its type. A line that is not understood counts as broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.json_fields import mapping, number, parse_time, text, texts
from ..base.json_reader import NotJson, load_json
from ..mesh.facts.flows import Flow, FlowSide

POLICY_DROPS: Final = frozenset({"POLICY_DENIED", "POLICY_DENY"})
"""No policy allows it; a deny rule forbids it (flow.proto, DropReason)."""

_LINES: Final = 4000
_LABELS: Final = 200
_NAMESPACE: Final = "io.kubernetes.pod.namespace"
_CLUSTER: Final = "io.cilium.k8s.policy.cluster"
_TRACE, _POLICY_VERDICT = 4, 5  # event_type.type: MessageTypeTrace, MessageTypePolicyVerdict (cilium: pkg/monitor/api/types.go)
_PORTS: Final = ("TCP", "UDP", "SCTP")
_ICMP: Final = {"ICMPv4": "ICMP", "ICMPv6": "ICMPv6"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Parsed output of one call."""

    flows: tuple[Flow, ...] = ()
    broken: int = 0  # lines that are no flow in a known form
    lost: int = 0  # events that the agent says it lost


def parse_flows(output: str, *, limit: int) -> Answer:
    """Parse the first ``limit`` characters of the output. Flows other than of layer 3 and 4 are skipped."""
    whole = output[:limit]
    lines = whole.splitlines()[:_LINES]
    flows: list[Flow] = []
    broken = lost = 0
    for line in lines:
        if not line.strip():
            continue
        answer = _decoded(line)
        if answer is None:
            broken += 1
        elif "lost_events" in answer:
            lost += _count(mapping(answer, "lost_events").get("num_events_lost"))
        elif "flow" in answer:
            found = _flow(mapping(answer, "flow"))
            broken += found is None and text(answer, "flow", "Type") in ("", "L3_L4")
            flows += [found] if found is not None else []
    return Answer(flows=tuple(flows), broken=broken, lost=lost)


def _decoded(line: str) -> Mapping[str, Any] | None:
    try:
        found = load_json(line)
    except NotJson:
        return None
    return found if isinstance(found, dict) else None


def _flow(value: Mapping[str, Any]) -> Flow | None:
    time = parse_time(text(value, "time"))
    layer4 = _layer4(mapping(value, "l4"))
    if time is None or layer4 is None or text(value, "Type") not in ("", "L3_L4"):
        return None
    protocol, port, flags = layer4
    reply = value.get("is_reply")
    direction = text(value, "traffic_direction")
    verdict = text(value, "verdict")
    event = number(value, "event_type", "type")
    let_in = event == _POLICY_VERDICT and direction == "INGRESS"
    handed = event == _TRACE and text(value, "trace_observation_point") == "TO_ENDPOINT" and direction != "EGRESS"
    return Flow(
        time=time,
        verdict=verdict,
        reason=text(value, "drop_reason_desc"),
        source=_side(value, "source"),
        destination=_side(value, "destination"),
        protocol=protocol,
        port=port,
        direction=direction if direction in ("INGRESS", "EGRESS") else "",
        reply=reply if isinstance(reply, bool) else None,
        delivered=verdict == "FORWARDED" and reply is False and (let_in or handed),
        answers=flags.get("SYN") is True and flags.get("ACK") is True,
    )


def _layer4(value: Mapping[str, Any]) -> tuple[str, int, Mapping[str, Any]] | None:
    """Return (protocol, port or type, TCP flags); None for a protocol that an intent cannot name. A oneof: exactly one is there."""
    if len(value) != 1:
        return None
    for name in _PORTS:
        port = number(value, name, "destination_port")
        if name in value:
            return (name, port, mapping(value, name, "flags")) if 0 < port < 65536 else None
    for name, protocol in _ICMP.items():
        if name in value:
            return protocol, number(value, name, "type"), {}
    return None


def _side(value: Mapping[str, Any], key: str) -> FlowSide:
    labels: dict[str, str] = {}
    reserved = ""
    for label in texts(value, key, "labels")[:_LABELS]:
        name, _sep, content = label.partition("=")
        if name.startswith("k8s:"):
            labels[name.removeprefix("k8s:")] = content
        elif name.startswith("reserved:"):
            reserved = reserved or name.removeprefix("reserved:")
    address = text(value, "IP", key)
    return FlowSide(
        namespace=labels.get(_NAMESPACE, "") or text(value, key, "namespace"),
        cluster=labels.get(_CLUSTER, "") or text(value, key, "cluster_name"),
        labels=labels,
        reserved=reserved,
        name=text(value, key, "pod_name") or address,
    )


def _count(value: Any) -> int:
    """Return a uint64, which is a string in proto3's JSON mapping."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else 0
