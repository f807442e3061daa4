# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of a ConnectivityIntent: the clusters in which its policy is in force, as the API servers show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.conditions import condition
from ..base.tables import count
from ..findings.wording import listed
from ..items.item import Item
from ..items.models import ConnectivityIntent
from ..items.owned import DesiredObject, matches_body, owning_item
from ..items.planned import ItemPlan
from ..items.scene import Scene
from ..mesh.facts.traffic import ObjectFacts
from .compile import destinations
from .evaluate.rules import condition_of_refusal
from .plan import IntentDetail

_WORST_FIRST: Final = ("ApplyFailed", "PolicyInvalid", "ClusterUnreachable", "NamespaceMissing", "Applying")


def intent_status(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> dict[str, Any]:
    """See ``KindRow`` (reconcile/kinds.py). Beside the CRD's fields: ``policies``, one row per policy that is in force."""
    applied, troubles = _standing(item, plan, scene, failed)
    return {
        "phase": _phase(bool(applied), {reason for reason, _message in troubles.values()}),
        "appliedClusters": [entry.cluster for entry in applied],
        "policies": [_policy_row(entry) for entry in applied],
        "conditions": _conditions(plan, [entry.cluster for entry in applied], troubles),
    }


def lacking_destinations(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> frozenset[str]:
    """Return the clusters in which the policy of an intent should be in force and is not. See ``KindRow`` (reconcile/kinds.py)."""
    return frozenset(_standing(item, plan, scene, failed)[1])


def _standing(
    item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]
) -> tuple[list[DesiredObject], dict[str, tuple[str, str]]]:
    """Return the policies that are in force, and for each other cluster the (reason, message)."""
    if not isinstance(item, ConnectivityIntent):
        raise TypeError(f"{plan.ref} is not a ConnectivityIntent")
    detail = plan.detail if isinstance(plan.detail, IntentDetail) else IntentDetail()
    wanted = {entry.cluster: entry for entry in detail.wanted}
    applied: list[DesiredObject] = []
    troubles: dict[str, tuple[str, str]] = {}
    for host in destinations(item, scene.mesh.clusters):
        trouble = _trouble(host, wanted.get(host), plan, scene, failed, detail)
        if trouble is None:
            applied.append(wanted[host])
        else:
            troubles[host] = trouble
    return applied, troubles


def _trouble(
    host: str, wanted: DesiredObject | None, plan: ItemPlan, scene: Scene, failed: Mapping[str, str], detail: IntentDetail
) -> tuple[str, str] | None:
    """(reason, message) when the policy is not in force in ``host``."""
    if host in failed:
        return "ApplyFailed", failed[host]
    if host not in scene.hosts:
        return "ClusterUnreachable", scene.failures[host].message if host in scene.failures else "nothing is known of the cluster"
    if host in detail.unwritten:
        return "NamespaceMissing", detail.unwritten[host]
    observed = _observed_policy(scene, wanted) if wanted is not None else None
    if wanted is None or observed is None or owning_item(scene.binding, observed) != plan.ref or not matches_body(observed, wanted.body):
        return "Applying", "the policy is not there yet"
    refused = condition_of_refusal(observed)
    return ("PolicyInvalid", f"Cilium refuses the policy: {refused}") if refused is not None else None


def _observed_policy(scene: Scene, wanted: DesiredObject) -> ObjectFacts | None:
    return scene.traffic[wanted.cluster].by_path.get(wanted.path)


def _phase(some: bool, reasons: set[str]) -> str:
    if not reasons:
        return "Applied"
    if reasons == {"Applying"}:
        return "Applying"
    if some:
        return "Degraded"
    return "Error" if reasons & {"ApplyFailed", "PolicyInvalid"} else "Pending"


def _conditions(plan: ItemPlan, applied: list[str], troubles: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    accepted = condition("Accepted", True, plan.reason, plan.message)
    if not troubles:
        return [
            accepted,
            condition("Applied", True, "AllClustersApplied", f"the policy is in force in {listed(applied)}"),
            condition("Ready", True, "Applied"),
            condition("Degraded", False, "AllClustersApplied"),
        ]
    reasons = {reason for reason, _message in troubles.values()}
    reason = next(entry for entry in _WORST_FIRST if entry in reasons)
    message = "; ".join(f"{host}: {text}" for host, (_reason, text) in troubles.items())
    return [
        accepted,
        condition("Applied", False, reason, message),
        condition("Ready", False, reason, message),
        condition("Degraded", bool(applied) and reasons != {"Applying"}, "PartiallyApplied" if applied else "NotApplied", message),
    ]


def _policy_row(entry: DesiredObject) -> dict[str, str]:
    metadata = entry.body["metadata"]
    where = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    return {"clusterName": entry.cluster, "kind": str(entry.body["kind"]), **where, "name": str(metadata["name"])}


def intent_brief(status: Mapping[str, Any]) -> str:
    """Return a status in a few words for a table: clusters, and the result of the probe; "" if it says nothing of them."""
    applied, probe = status.get("appliedClusters"), status.get("probeStatus")
    texts = [count(len(applied), "cluster")] if isinstance(applied, (list, tuple)) else []
    return ", ".join([*texts, *([str(probe.get("result", ""))] if isinstance(probe, Mapping) else [])])


def intent_interval(item: Item) -> int | None:
    """Return the seconds between two probes of an intent; None where none is enabled."""
    return max(1, item.probe.interval_seconds) if isinstance(item, ConnectivityIntent) and item.probe.enabled else None
