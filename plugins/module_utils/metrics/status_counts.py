# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Counts over the statuses of many custom resources, as the operator's metrics have them: states, findings, phases; no name of a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..base.json_fields import items, mapping
from ..findings.catalogue import CATALOGUE
from ..findings.finding import Severity
from ..mesh.binding.fleet_kinds import ROLLOUT_PHASES, FleetKind
from .catalogue import OPERATOR
from .member_state import MemberState, link_states_of, member_states_of

Counts = Mapping[str, Mapping[tuple[str, ...], float]]
"""Name of a metric -> values of its labels -> number."""

_SEVERITIES: Final = frozenset(severity.value for severity in Severity)
_PHASES: Final = {
    "meshes": ("Pending", "Connecting", "Connected", "Degraded", "Error"),
    "workloads": FleetKind.WORKLOAD.phases,
    "rollouts": ROLLOUT_PHASES,
}
"""Phases of operator/deploy/crds and fleet-crds. Another writer may have set another one, which is not shown."""
_STATES: Final = ("members", "links")
_One = Counter[tuple[str, ...]]


class StatusCounts:
    """Counts of statuses. What an object adds is computed once for each of its versions."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, _One]] = {}

    def of(self, objects: Iterable[Mapping[str, Any]]) -> Counts:
        """Return the counts over ClusterMeshBindings and FleetWorkloads, with 0 for each state and phase that none has."""
        known, total = self._known, Counter[tuple[str, ...]]()
        self._known = {}
        for obj in objects:
            metadata = obj["metadata"]
            uid, version = str(metadata.get("uid", metadata.get("name"))), str(metadata.get("resourceVersion", ""))
            before = known.get(uid)
            own = before[1] if before is not None and before[0] == version != "" else _counts_of(obj)
            self._known[uid] = (version, own)
            total.update(own)
        empty = [(name, state.value) for name in _STATES for state in MemberState if state is not MemberState.REMOVED]
        empty += [(name, phase) for name, phases in _PHASES.items() for phase in phases]
        found: dict[str, dict[tuple[str, ...], float]] = {OPERATOR + name: {} for name in (*_STATES, *_PHASES, "findings")}
        for name, *labels in (*empty, *total):
            found[OPERATOR + name][tuple(labels)] = total[name, *labels]
        return found


def _counts_of(obj: Mapping[str, Any]) -> _One:
    status = mapping(obj, "status")
    found: _One = Counter()
    for row in items(status, "findings"):
        code, severity = row.get("code"), row.get("severity")
        if code in CATALOGUE and severity in _SEVERITIES and not row.get("accepted"):
            found["findings", str(code), str(severity)] += 1
    if obj.get("kind") == FleetKind.WORKLOAD:
        _count_phases(status, found)
    else:
        _count_states(obj, status, found)
    return found


def _count_phases(status: Mapping[str, Any], found: _One) -> None:
    phases = {"workloads": status.get("phase"), "rollouts": mapping(status, "rollout").get("phase")}
    for name, phase in phases.items():
        if phase in _PHASES[name]:
            found[name, str(phase)] += 1


def _count_states(obj: Mapping[str, Any], status: Mapping[str, Any], found: _One) -> None:
    """Count mesh, members and links. Of a binding that is deleted, and of a member that it does not name any more, they are leaving."""
    if status.get("phase") in _PHASES["meshes"]:
        found["meshes", str(status["phase"])] += 1
    asked = {str(row.get("name")) for row in items(obj, "spec", "clusterRefs")}
    if obj["metadata"].get("deletionTimestamp"):
        asked = set()
    links = link_states_of(status)
    members = dict.fromkeys(asked, MemberState.NEVER_JOINED) | member_states_of(status, links)
    for name, state in members.items():
        found["members", (state if name in asked else MemberState.LEAVING).value] += 1
    for link, state in links.items():
        found["links", (state if asked.issuperset(link) else MemberState.LEAVING).value] += 1
