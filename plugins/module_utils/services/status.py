# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of a GlobalService: the clusters that export it, their endpoints, and the clusters that can use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.conditions import condition
from ..base.errors import clause
from ..base.tables import count
from ..findings.wording import listed, printable
from ..items.item import Item
from ..items.models import GlobalService
from ..items.planned import ItemPlan
from ..items.scene import Scene
from ..mesh.facts.traffic import Key
from .annotations import affinity_of, is_shared, says
from .assignment import Place
from .index import stub_item
from .mcs import Condition, conditions_of, export_obstacle, importing_clusters, is_exported
from .mesh_view import MeshView

PENDING: Final = "is not written yet"
CONSUMES: Final = "consumes only (shared is false)"


@dataclass(frozen=True, kw_only=True)
class ServiceDetail:
    """Part of the plan of a GlobalService that its status needs (``ItemPlan.detail``)."""

    services: Mapping[Key, tuple[str, ...]]  # Services that the selector matches -> targets that have them
    wanted: Mapping[Place, Mapping[str, str]] = field(default_factory=dict)  # annotations; backend Annotations only


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """Progress of the targets. Hosts are in the order of the members."""

    exported: tuple[str, ...]
    wrong: Mapping[str, str]  # host -> why it does not export
    pending: tuple[str, ...]  # Cilium, or a write, is still to come
    consuming: tuple[str, ...]  # as asked for: shared is false
    ready: int  # endpoints in clusters that export
    conflicts: tuple[str, ...] = ()  # "c1: message"


def service_status(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the status of a GlobalService. See ``KindRow`` (reconcile/kinds.py)."""
    if not isinstance(item, GlobalService) or not isinstance(plan.detail, ServiceDetail):
        raise TypeError(f"{plan.ref} is no GlobalService that was planned")
    detail, view = plan.detail, MeshView(scene=scene)
    standing = _standing(item, detail, view, failed)
    found: dict[str, Any] = {
        "phase": _phase(standing),
        "exportedClusters": list(standing.exported),
        "endpointSummary": [_summary(item, host, detail, view) for host in scene.hosts if host in item.targets],
    }
    rows = [_service(item, key, view) for key in detail.services]
    if item.selector.selects_many:
        found["services"] = rows
    elif rows:
        found["consumers"] = rows[0]["consumers"]
    if item.backend == "MCS":
        found["exports"] = [_export(host, key, view) for key, hosts in detail.services.items() for host in hosts]
    return {**found, "conditions": _conditions(item, standing)}


def lacking_targets(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> frozenset[str]:
    """Return the targets that do not export a GlobalService. See ``KindRow`` (reconcile/kinds.py)."""
    if not isinstance(item, GlobalService) or not isinstance(plan.detail, ServiceDetail):
        raise TypeError(f"{plan.ref} is no GlobalService that was planned")
    return frozenset(_standing(item, plan.detail, MeshView(scene=scene), failed).wrong)


def _standing(item: GlobalService, detail: ServiceDetail, view: MeshView, failed: Mapping[str, str]) -> _Standing:
    scene = view.scene
    states: dict[str, list[str]] = {}
    for host in item.targets:
        if host in scene.silent:
            states[host] = ["does not answer"]
        elif host in failed:
            states[host] = [printable(failed[host])]
        else:
            states[host] = [
                said for key, hosts in detail.services.items() if (said := _state(item, host, key, hosts, detail, view)) is not None
            ]
    good = tuple(host for host, said in states.items() if said and not any(said))
    pending = tuple(host for host, said in states.items() if PENDING in said)
    consuming = tuple(host for host, said in states.items() if said and set(said) == {CONSUMES})
    wrong = {host: "; ".join(dict.fromkeys(filter(None, said))) for host, said in states.items() if any(said) and host not in consuming}
    conflicts = _conflicts(detail, view) if item.backend == "MCS" else ()
    ready = sum(view.endpoints(host, key).ready for key, hosts in detail.services.items() for host in hosts if host in good)
    return _Standing(exported=good, wrong=wrong, pending=pending, consuming=consuming, ready=ready, conflicts=conflicts)


def _state(item: GlobalService, host: str, key: Key, hosts: Sequence[str], detail: ServiceDetail, view: MeshView) -> str | None:
    """Return why one Service is not exported there; "" when it is; None when no Service is expected there."""
    service = view.scene.traffic[host].services.get(key)
    if service is not None and host not in hosts and stub_item(view.scene.binding, service):
        return None
    if service is None or host not in hosts:
        if item.selector.selects_many:
            return None
        return f"there is no Service {key[0]}/{key[1]}{' with the labels of labelSelector' if item.selector.labels else ''}"
    if service.spec.get("type") == "ExternalName":
        return "is an ExternalName"
    if not view.namespace_global(host, key[0]):
        return f"namespace {key[0]} is not global"
    if item.backend == "MCS":
        return _export_state(host, key, view)
    wanted = detail.wanted.get((host, key), {})
    if not all(says(service.annotations, name, value) for name, value in wanted.items()):
        return PENDING
    if not is_shared(service.annotations):
        return CONSUMES
    return ""


def _export_state(host: str, key: Key, view: MeshView) -> str:
    traffic = view.scene.traffic[host]
    found = export_obstacle(view.scene.facts[host], traffic)
    if found:
        return found.what
    export = traffic.exports.get(key)
    if export is None:
        return PENDING
    state = is_exported(export)
    if state is None:
        return PENDING
    return "" if state else "; ".join(_reason_text(c) for c in conditions_of(export).values() if c.status == "False")


def _reason_text(said: Condition) -> str:
    """Return what Cilium says; the message may be empty, and may be a sentence."""
    return f"{said.reason}: {clause(said.message)}" if said.message else said.reason


def _conflicts(detail: ServiceDetail, view: MeshView) -> tuple[str, ...]:
    found = []
    for key, hosts in detail.services.items():
        for host in hosts:
            export = view.scene.traffic[host].exports.get(key)
            said = conditions_of(export).get("Conflict") if export else None
            if said and said.status == "True":
                found.append(f"{host}: {_reason_text(said)}")
    return tuple(found)


def _phase(standing: _Standing) -> str:
    if not standing.wrong and standing.exported:
        return "Exported" if standing.ready and not standing.conflicts else "Degraded"
    if not standing.wrong and standing.consuming:
        return "Exported"
    if standing.pending and set(standing.wrong) == set(standing.pending):
        return "Exporting"
    return "Degraded" if standing.exported or standing.consuming or standing.pending else "Error"


def _conditions(item: GlobalService, standing: _Standing) -> list[dict[str, Any]]:
    reason, message = _exported_reason(standing)
    exported = not standing.wrong and bool(standing.exported)
    ready, why, said = exported and bool(standing.ready), "Exported" if exported else reason, message
    if exported and not standing.ready:
        why, said = "NoReadyEndpoints", "no endpoint is ready in any cluster that exports"
    if reason == "NotShared":
        ready, why = True, "ConsumesOnly"
    bad = bool(standing.wrong) or bool(standing.conflicts) or (exported and not standing.ready)
    bad = bad and reason != "ExportPending"
    degraded = ("ExportConflict", "; ".join(standing.conflicts)) if standing.conflicts and not standing.wrong else (why, said)
    found = [
        condition("Accepted", True, "SpecValid"),
        condition("Exported", exported, reason, message),
        condition("Ready", ready, why, "" if ready else said),
        condition("Degraded", bad, *(degraded if bad else ("AsAsked", ""))),
    ]
    if item.backend == "MCS":
        conflict = bool(standing.conflicts)
        found.append(condition("Conflict", conflict, "ExportConflict" if conflict else "NoConflicts", "; ".join(standing.conflicts)))
    return found


def _exported_reason(standing: _Standing) -> tuple[str, str]:
    """Return reason and message of the condition Exported."""
    message = "; ".join(f"{host}: {why}" for host, why in standing.wrong.items())
    if not standing.wrong and standing.exported:
        return "AllClustersExported", f"exported by {listed(standing.exported)}"
    if not standing.wrong and standing.consuming:
        return "NotShared", f"{listed(standing.consuming)} {CONSUMES}"
    if standing.pending and set(standing.wrong) == set(standing.pending):
        return "ExportPending", message
    if standing.exported:
        return "SomeClustersExported", message
    return "NoClusterExported", message or "the selector matches no Service of any target"


def _summary(item: GlobalService, host: str, detail: ServiceDetail, view: MeshView) -> dict[str, Any]:
    """Return the row of one target. ``endpoints`` and ``ready`` are fields of the CRD; the others are additional."""
    facts, services = view.scene.facts[host], view.scene.traffic[host].services
    keys = [key for key, hosts in detail.services.items() if host in hosts]
    counted = [view.endpoints(host, key) for key in keys]
    ready = sum(count.ready for count in counted)
    annotations = [services[key].annotations for key in keys if key in services]
    found: dict[str, Any] = {
        "clusterName": host,
        "endpoints": sum(count.total for count in counted),
        "ready": ready > 0,
        "readyEndpoints": ready,
        "backend": item.backend,
        "agentsReady": facts.agent.ready if facts.agent else 0,
        "agentsTotal": facts.agent.desired if facts.agent else 0,
    }
    if item.backend == "Annotations" and annotations:
        found["shared"] = all(is_shared(entry) for entry in annotations)
        found["affinity"] = "/".join(sorted({affinity_of(entry) for entry in annotations}))
    addresses = [address for key in keys if key in services for address in _addresses(services[key].status)]
    return {**found, "loadBalancer": addresses} if addresses else found


def _addresses(status: Mapping[str, Any]) -> list[str]:
    """Return host names and addresses that a load balancer assigned to the Service."""
    balancer = status.get("loadBalancer")
    entries = balancer.get("ingress") if isinstance(balancer, Mapping) else None
    return [printable(str(entry.get("hostname") or entry.get("ip"))) for entry in entries or () if isinstance(entry, Mapping)]


def _service(item: GlobalService, key: Key, view: MeshView) -> dict[str, Any]:
    mcs = item.backend == "MCS"
    exporters = tuple(host for host in view.scene.hosts if _by_mcs(host, key, view)) if mcs else view.exporters(key)
    consumers = [] if mcs else [_consumer(host, key, view) for host in view.consumers(key)]
    return {
        "namespace": key[0],
        "name": key[1],
        "exportedClusters": list(exporters),
        "readyEndpoints": view.ready(exporters, key),
        "consumers": consumers,
    }


def _by_mcs(host: str, key: Key, view: MeshView) -> bool:
    export = view.scene.traffic[host].exports.get(key)
    return export is not None and bool(is_exported(export))


def _consumer(host: str, key: Key, view: MeshView) -> dict[str, Any]:
    """Return the row of a cluster that is linked with one that exports.

    ``usable`` says whether it uses backends of other clusters, as far as the API shows.
    """
    service = view.service(host, key)
    usable = view.uses(host, key)
    found: dict[str, Any] = {
        "clusterName": host,
        "usable": usable,
        "localReadyEndpoints": view.endpoints(host, key).ready,
        "remoteReadyEndpoints": view.ready(view.exporters_seen_by(host, key), key) if usable else 0,
        "stub": service is not None and bool(stub_item(view.scene.binding, service)) and not service.spec.get("selector"),
    }
    return {**found, "affinity": affinity_of(service.annotations)} if service is not None and usable else found


def _export(host: str, key: Key, view: MeshView) -> dict[str, Any]:
    traffic = view.scene.traffic[host]
    export, imported = traffic.exports.get(key), importing_clusters(traffic, key)
    conditions = [entry.to_dict() for entry in conditions_of(export).values()] if export else []
    found = {"clusterName": host, "namespace": key[0], "name": key[1], "conditions": conditions}
    return {**found, "importedClusters": list(imported)} if imported is not None else found


def service_brief(status: Mapping[str, Any]) -> str:
    """Return a status in a few words for a table: clusters and endpoints; "" if it says nothing of them."""
    exported, summary = status.get("exportedClusters"), status.get("endpointSummary")
    texts = [count(len(exported), "cluster")] if isinstance(exported, (list, tuple)) else []
    if isinstance(summary, (list, tuple)):
        texts.append(count(sum(int(place.get("endpoints") or 0) for place in summary), "endpoint"))
    return ", ".join(texts)


def service_interval(item: Item) -> int | None:
    """Return the seconds after which a failover has to be checked again: half of what it may take to notice a dead peer."""
    return max(1, item.failover.detect_within // 2) if isinstance(item, GlobalService) and item.failover is not None else None
