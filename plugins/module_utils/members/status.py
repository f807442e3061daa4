# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of the members of a tenant, from what Karmada and the management plane report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ..base.conditions import condition, timestamp, with_transition_times
from ..base.json_fields import items, mapping, number, parse_time, text
from ..mesh.binding.fleet_kinds import ERROR, PENDING, FleetKind
from .facts import Object
from .management import Provisioning
from .models import Member

JOINING: Final = timedelta(minutes=10)
"""How long a new member may be not Ready before that is an error. Karmada needs 40 seconds, and a slow network some more."""

_QUANTITIES: Final = ("cpu", "memory", "pods")
_PARTS: Final = {"allocatable": "allocatable", "requested": "allocated", "pending": "allocating"}
"""Field of ClusterMetrics -> part of resourceSummary, which has no further ones (Karmada: pkg/apis/cluster/v1alpha1/types.go)."""


def readiness(found: Object | None) -> tuple[bool, str]:
    """Return whether Karmada reports a member as ready, and the reason that it gives."""
    ready = next((entry for entry in items(found or {}, "status", "conditions") if entry.get("type") == "Ready"), {})
    return text(ready, "status") == "True", text(ready, "reason") or ("NotJoined" if found is None else "NotReported")


def member_status(
    member: Member, found: Object | None, provisioning: Provisioning, now: datetime, *, refused: str = "", leaving: bool = False
) -> dict[str, Any]:
    """Return the status of one cluster: name, member, phase, conditions, kubernetesVersion and nodes.

    :param found: the Cluster of Karmada; None if there is none, or it is another's.
    :param refused: reason why the cluster is not written, "" if it is.
    :param leaving: whether it is to leave.
    """
    ready, reason = readiness(found)
    known = mapping(found or {}, "status")
    conditions = [
        condition("Provisioned", provisioning.ready, provisioning.reason or "Provisioned"),
        condition("Joined", found is not None, "Joined" if found is not None else refused or "NotJoined"),
        condition("Ready", ready, reason),
    ]
    return {
        "name": member.name,
        "member": member.member,
        "phase": _phase(found, provisioning, now, ready=ready, refused=refused, leaving=leaving),
        "conditions": with_transition_times(conditions, now),
        "kubernetesVersion": text(known, "kubernetesVersion"),
        "nodes": _nodes(known),
    }


def _phase(found: Object | None, provisioning: Provisioning, now: datetime, *, ready: bool, refused: str, leaving: bool) -> str:
    if leaving:
        return "Deleting" if not refused else ERROR
    if refused:
        return ERROR
    if not provisioning.ready:
        return ERROR if provisioning.failed else PENDING if provisioning.reason == PENDING else "Provisioning"
    if ready:
        return FleetKind.CLUSTER.good
    began = parse_time(text(found or {}, "metadata", "creationTimestamp"))
    return ERROR if began is not None and now - began > JOINING else "Joining"


def _nodes(known: Mapping[str, Any]) -> dict[str, int]:
    return {"total": number(known, "nodeSummary", "totalNum"), "ready": number(known, "nodeSummary", "readyNum")}


def metrics(member: Member, found: Object | None, now: datetime) -> dict[str, Any]:
    """Return the ClusterMetrics of one cluster. A quantity that Karmada does not report is left out.

    Karmada reports what the pods of all nodes may request, what those on nodes request, and what those that wait for a node do. It reports
    neither what the nodes have in all nor what is used of it. It leaves out a sum that is 0 (pkg/util/resource.go, ResourceList), so what
    is missing beside an allocatable quantity is 0, and unknown without one.
    """
    known = mapping(found or {}, "status")
    summary = mapping(known, "resourceSummary")
    rows: dict[str, dict[str, str]] = {}
    for name in _QUANTITIES:
        zero = "0" if _quantity(summary, "allocatable", name) else ""
        fields = {field: _quantity(summary, part, name) or zero for field, part in _PARTS.items()}
        if kept := {field: value for field, value in fields.items() if value}:
            rows[name] = kept
    return {"name": member.name, "time": timestamp(now), "memberReady": readiness(found)[0], "nodes": _nodes(known), **rows}


def _quantity(summary: Mapping[str, Any], part: str, key: str) -> str:
    value = mapping(summary, part).get(key)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
