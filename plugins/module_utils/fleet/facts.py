# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Karmada's API holds for one tenant, as facts. Pure; fleet/reads.py makes them of answers.

What an API answers may be half there: every field that is missing or of another form is a default, never an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

from ..base.json_fields import annotations_of, items, labels_of, mapping, number, parse_time, text, texts
from ..base.json_reader import load_json
from .contents import TenantObject
from .names import NAME_LABEL

HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
"""What Karmada says of the health of an object (Karmada: ResourceHealth)."""

APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
"""Annotation of a ResourceBinding with the placement that its clusters were chosen by; the scheduler writes both at once (Karmada:
pkg/scheduler, patchScheduleResultForResourceBinding)."""


@dataclass(frozen=True, kw_only=True)
class MemberFacts:
    """Cluster of Karmada. ``since``: when it became Ready, or ceased to be; None if that is unknown."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    reason: str = ""
    since: datetime | None = None
    tainted: bool = False  # new workloads do not come
    deleting: bool = False


@dataclass(frozen=True, kw_only=True)
class PlacedFacts:
    """Object in one member, as its ResourceBinding reports it. It may be stale: Karmada keeps the last report of a dead member."""

    applied: bool = False
    health: str = "Unknown"  # Healthy, Unhealthy or Unknown
    message: str = ""
    generation: int | None = None  # of the template that the report is about; None: the kind has none
    replicas: int = 0
    ready: int = 0
    updated: int = 0


@dataclass(frozen=True, kw_only=True)
class BindingFacts:
    """ResourceBinding of one object. ``scheduled``: None while the scheduler has not decided."""

    scheduled: bool | None = None
    reason: str = ""
    message: str = ""
    replicas: Mapping[str, int] = field(default_factory=dict)  # member -> replicas that it shall have
    suspended: frozenset[str] = frozenset()
    placed: Mapping[str, PlacedFacts] = field(default_factory=dict)  # by member
    placement: Mapping[str, Any] = field(default_factory=dict)  # that the scheduler has applied
    total: int = 0  # replicas of the template that the scheduler has to divide
    deleting: bool = False


class OwnedFacts(NamedTuple):
    """What was made for one workload: the API's own objects, by key or name."""

    objects: dict[TenantObject, Mapping[str, Any]]
    policies: dict[str, Mapping[str, Any]]
    revisions: dict[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TenantFacts:
    """Everything of the tenant's namespace in Karmada, and the tenant's members.

    ``objects``, ``policies`` and ``revisions`` are the API's own objects, by key or name. ``now`` is the clock of the API server.
    """

    now: datetime
    namespace: Mapping[str, Any] | None = None
    namespace_policy: Mapping[str, Any] | None = None
    objects: Mapping[TenantObject, Mapping[str, Any]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    revisions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bindings: Mapping[str, BindingFacts] = field(default_factory=dict)  # by name
    members: Mapping[str, MemberFacts] = field(default_factory=dict)

    def owner(self, found: Mapping[str, Any]) -> str:
        """Return the workload that an object was made for, "" if it has none."""
        return labels_of(found).get(NAME_LABEL, "")

    @property
    def owners(self) -> Collection[str]:
        """Workloads for which something was made."""
        return self._by_owner.keys()

    def owned(self, workload: str) -> OwnedFacts:
        """Return what was made for a workload, in the order in which it was listed."""
        return self._by_owner.get(workload) or OwnedFacts({}, {}, {})

    @property
    def outliving(self) -> Mapping[str, BindingFacts]:
        """ResourceBindings by name whose template is gone: Karmada deletes them when the objects are out of every cluster."""
        known = {key.binding for key in self.objects}
        return {name: binding for name, binding in self.bindings.items() if name not in known}

    @cached_property
    def _by_owner(self) -> Mapping[str, OwnedFacts]:
        # Each workload would otherwise look through what all have: with 200 of them and ten revisions each, that took seconds a round.
        found: dict[str, OwnedFacts] = {}

        def owned(entry: Mapping[str, Any]) -> OwnedFacts:
            return found.setdefault(self.owner(entry), OwnedFacts({}, {}, {}))

        for key, entry in self.objects.items():
            owned(entry).objects[key] = entry
        for name, entry in self.policies.items():
            owned(entry).policies[name] = entry
        for name, entry in self.revisions.items():
            owned(entry).revisions[name] = entry
        found.pop("", None)  # made for the tenant as a whole, or by others
        return found


def condition(found: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the condition of this type of an object, {} if there is none."""
    return next((entry for entry in items(found, "status", "conditions") if entry.get("type") == kind), {})


def member_facts(found: Mapping[str, Any]) -> MemberFacts:
    """Return the facts of a Cluster of Karmada."""
    ready = condition(found, "Ready")
    return MemberFacts(
        name=text(found, "metadata", "name"),
        labels=labels_of(found),
        ready=text(ready, "status") == "True",
        reason=text(ready, "reason") or "NotReported",
        since=parse_time(text(ready, "lastTransitionTime")),
        tainted=any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in items(found, "spec", "taints")),
        deleting=bool(text(found, "metadata", "deletionTimestamp")),
    )


def binding_facts(found: Mapping[str, Any]) -> BindingFacts:
    """Return the facts of a ResourceBinding."""
    kind = text(found, "spec", "resource", "kind")
    scheduled = condition(found, "Scheduled")
    return BindingFacts(
        scheduled={"True": True, "False": False}.get(text(scheduled, "status")),
        reason=text(scheduled, "reason"),
        message=text(scheduled, "message"),
        replicas={text(entry, "name"): number(entry, "replicas") for entry in items(found, "spec", "clusters")},
        suspended=frozenset(texts(found, "spec", "suspension", "dispatchingOnClusters", "clusterNames")),
        placement=_applied_placement(annotations_of(found).get(APPLIED_PLACEMENT, "")),
        total=number(found, "spec", "replicas"),
        placed={text(entry, "clusterName"): _placed(entry, kind) for entry in items(found, "status", "aggregatedStatus")},
        deleting=bool(text(found, "metadata", "deletionTimestamp")),
    )


def _applied_placement(annotation: str) -> Mapping[str, Any]:
    try:
        return mapping(load_json(annotation))
    except ValueError:
        return {}


def _is_unobserved(status: Mapping[str, Any], kind: str) -> bool:
    """Return whether the member's own controller is known not to have seen the present object yet.

    Karmada calls such an object Unhealthy, whatever runs (v1.18, pkg/resourceinterpreter/default/native/healthy.go: generation and
    observedGeneration differ). It is so for a moment after every change, and says nothing of the pods. Of a StatefulSet it never passes on
    observedGeneration (reflectstatus.go), so that such a moment cannot be distinguished from an illness.
    """
    return kind != "StatefulSet" and number(status, "observedGeneration") < number(status, "generation")


def _placed(entry: Mapping[str, Any], kind: str) -> PlacedFacts:
    status = mapping(entry, "status")
    generation, health = status.get("resourceTemplateGeneration"), text(entry, "health")
    daemons = "desiredNumberScheduled" in status
    return PlacedFacts(
        applied=entry.get("applied") is True,
        health=health if health in HEALTHS and not (health == "Unhealthy" and _is_unobserved(status, kind)) else "Unknown",
        message=text(entry, "appliedMessage"),
        generation=generation if isinstance(generation, int) and not isinstance(generation, bool) else None,
        replicas=number(status, "desiredNumberScheduled" if daemons else "replicas"),
        ready=number(status, "numberReady" if daemons else "readyReplicas"),
        updated=number(status, "updatedNumberScheduled" if daemons else "updatedReplicas"),
    )
