# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of an ExposedService: its addresses, cluster by cluster, and what was not proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.conditions import condition
from ..base.tables import count
from ..findings.wording import listed
from ..items.item import Item
from ..items.models import ExposedService
from ..items.planned import ItemPlan
from ..items.scene import Scene
from .assessment import Assessment, State
from .competing_services import CompetingServices
from .enforcement import UNCHECKED
from .placement import PlacementDecision, decide_placement

_MESSAGES: Final = {
    State.SILENT: "The cluster does not answer; the objects that were written there stay as they were.",
    State.EMPTY: "The Service has no ready endpoints.",
    State.STARTING: "No address is assigned yet.",
    State.LATE: "No address is assigned, and none is expected until the cause is fixed.",
    State.WELL: "",
}


def exposure_status(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the status of an ExposedService. See ``KindRow`` (reconcile/kinds.py).

    ``addresses`` has a row for every cluster of the item, in its order.
    """
    view = _view(item, plan, scene, failed)
    decision = view.decision
    found: dict[str, Any] = {"phase": view.phase(), "addresses": [view.row(host) for host in decision.order]}
    hostname = view.hostname()
    if hostname:
        found["hostname"] = hostname
    conditions = [
        condition("Accepted", True, "SpecValid"),
        view.programmed(),
        condition("Reachable", None, "NotProbed", "No connection to the addresses from outside was tested."),
        view.ready(),
        view.degraded(),
    ]
    return {**found, "conditions": conditions}


def lacking_clusters(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> frozenset[str]:
    """Return the clusters that should serve an ExposedService, do not, and will not in a moment. See ``KindRow`` (reconcile/kinds.py)."""
    return frozenset(_view(item, plan, scene, failed).missed)


def _view(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> _View:
    if not isinstance(item, ExposedService):
        raise TypeError(f"not an ExposedService: {item.name}")
    siblings = plan.detail if isinstance(plan.detail, CompetingServices) else CompetingServices()
    return _View(decide_placement(item, siblings, scene), failed)


class _View:
    """Placement after the writes, with the errors of writes."""

    def __init__(self, decision: PlacementDecision, failed: Mapping[str, str]) -> None:
        self.decision = decision
        self._failed = failed
        self._assessments = decision.assessments

    @property
    def _closed(self) -> bool:
        return not self.decision.item.source_ranges

    def _serves(self, host: str) -> bool:
        return host in self.decision.serving and self._assessments[host].state is State.WELL and host not in self._failed

    @property
    def _serving(self) -> list[str]:
        return [host for host in self.decision.order if self._serves(host)]

    @property
    def _lacking(self) -> list[str]:
        """Clusters that should serve and do not. Of a primary and its standbys, one is enough; the primary should."""
        item = self.decision.item
        asked = [item.primary] if item.primary else list(self.decision.order)
        return [host for host in asked if not self._serves(host)] + [h for h in self._failed if h not in asked]

    def _programmed(self, host: str) -> bool:
        """Return whether the cluster has the object, and the object an address."""
        assessment = self._assessments[host]
        return assessment.observed is not None and bool(assessment.standing.addresses) and host not in self._failed

    @property
    def _awaited(self) -> list[str]:
        """Clusters whose address may still be assigned."""
        return [h for h in self.decision.wanted if self._assessments[h].state is State.STARTING and h not in self._failed]

    @property
    def missed(self) -> list[str]:
        """Clusters of ``_lacking`` that waiting does not help; none for a service that is closed, as no cluster should serve it."""
        return [] if self._closed else [host for host in self._lacking if host not in self._awaited]

    def phase(self) -> str:
        """Return the phase of the item."""
        if self._closed:
            return "Pending"
        if self._serving and not self.missed:
            return "Exposing" if self._lacking else "Exposed"
        if self._serving:
            return "Degraded"
        if self._awaited:
            return "Exposing"
        if all(assessment.state is State.SILENT for assessment in self._assessments.values()):
            return "Degraded" if not self._failed else "Error"
        return "Error" if self._failed or not self.decision.wanted else "Degraded"

    def hostname(self) -> str:
        """Return the hostname, once it leads to a cluster."""
        item = self.decision.item
        led = [host for host in self.decision.serving if self._assessments[host].named and host not in self._failed]
        return item.hostname if item.hostname and led and not self._closed else ""

    def row(self, host: str) -> dict[str, Any]:
        """Return the row of one cluster."""
        assessment = self._assessments[host]
        row: dict[str, Any] = {
            "clusterName": host,
            "role": self.decision.role(host),
            "serving": self._serves(host),
            "addresses": list(assessment.standing.addresses) if assessment.observed is not None else [],
        }
        if assessment.standing.port:
            row["port"] = assessment.standing.port
        if assessment.target is not None:
            row["protocol"] = assessment.target.protocol
            row["endpoints"] = assessment.ready
        if assessment.remote:
            row["remoteEndpoints"] = assessment.remote
        if assessment.enforcement is not None and host in self.decision.wanted:
            row["sourceRangesBy"] = _enforced_by(assessment)
        return {**row, "conditions": [self._row_programmed(host), self._row_ready(host)]}

    def _row_programmed(self, host: str) -> dict[str, Any]:
        assessment = self._assessments[host]
        if host in self._failed:
            return condition("Programmed", False, "WriteFailed", self._failed[host])
        if assessment.state is State.SILENT:
            return condition("Programmed", None, State.SILENT.value, _MESSAGES[State.SILENT])
        if self._closed:
            return condition("Programmed", False, "NoSourceRanges", "No client has access.")
        if assessment.trouble is not None:
            return condition("Programmed", False, assessment.trouble.reason, f"{assessment.trouble.summary}.")
        if host not in self.decision.wanted:
            return condition("Programmed", False, "Standby", "It takes over when the clusters before it cannot serve.")
        if assessment.standing.rejected:
            return condition("Programmed", False, assessment.standing.rejected, assessment.standing.message)
        if not self._programmed(host):
            reason = "AddressPending" if assessment.observed is not None else "NotWritten"
            state = assessment.state if assessment.state in (State.STARTING, State.LATE) else State.STARTING
            return condition("Programmed", False, reason, _MESSAGES[state])
        return condition("Programmed", True, "AddressAssigned")

    def _row_ready(self, host: str) -> dict[str, Any]:
        programmed = self._row_programmed(host)
        if programmed["status"] != "True":
            holds = None if programmed["status"] == "Unknown" else False
            return condition("Ready", holds, programmed["reason"], programmed["message"])
        state = self._assessments[host].state
        return condition("Ready", state is State.WELL, state.value, _MESSAGES.get(state, ""))

    def programmed(self) -> dict[str, Any]:
        """Return the condition Programmed."""
        if self._closed:
            return condition("Programmed", False, "NoSourceRanges", "No source range is given, so no client has access.")
        hosts = [host for host in self.decision.order if host in self.decision.wanted or not self.decision.item.primary]
        missing = [host for host in hosts if not self._programmed(host)]
        if hosts and not missing:
            return condition("Programmed", True, "AllClustersProgrammed", f"An address in {listed(hosts)}.")
        if not hosts:
            return condition("Programmed", False, "NotWritten", "No cluster has it.")
        first = self._row_programmed(missing[0])
        done = len(hosts) - len(missing)
        return condition(
            "Programmed",
            False,
            "PartlyProgrammed" if done else first["reason"],
            f"{done} of {len(hosts)} clusters have an address; {missing[0]}: {first['reason']}. {first['message']}".strip(),
        )

    def ready(self) -> dict[str, Any]:
        """Return the condition Ready."""
        if self._serving:
            return condition("Ready", True, "Exposed", f"{listed(self._serving)} can answer.")
        reason = self.programmed()["reason"] if not self._closed else "NoSourceRanges"
        first = next((self._row_ready(host) for host in self.decision.order if host in self.decision.serving), None)
        return condition("Ready", False, first["reason"] if first and not self._closed else reason, "No cluster can answer.")

    def degraded(self) -> dict[str, Any]:
        """Return the condition Degraded."""
        lacking = self.missed
        if not lacking:
            return condition("Degraded", False, "AllClustersServe" if not self._closed else "NoSourceRanges")
        item = self.decision.item
        on_standby = bool(item.primary) and bool(self._serving)
        reason = "WriteFailed" if self._failed else "OnStandby" if on_standby else "SomeClustersLack"
        said = "; ".join(f"{host}: {self._row_ready(host)['reason']}" for host in lacking if host in self._assessments)
        return condition("Degraded", True, reason, said)


def _enforced_by(assessment: Assessment) -> str:
    """Return what enforces the source ranges, as far as it is known: ``Nobody`` only where every address may come in."""
    means = assessment.enforcement
    if means is None or means.opens_to_everyone:
        return "Nobody"
    if means.by_policy:
        return "NetworkPolicy"
    unchecked = any(remark.reason == UNCHECKED for remark in means.remarks)
    return "LoadBalancer" if unchecked or assessment.standing.beyond else "Cluster"


def exposure_brief(status: Mapping[str, Any]) -> str:
    """Return a status in a few words for a table: the clusters that serve; "" if it names no cluster."""
    places = status.get("addresses") or ()
    return count(sum(bool(place.get("serving")) for place in places), "cluster") if places else ""
