# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The variable ``fleet`` -> ``FleetRequest``. The structure of specs is that of the CRDs (fleet/schemas.py); rules beside it are here.

An object whose spec is not valid is refused alone: it may be one of many, written by others. An object without a usable name cannot be
identified, and is an error of the whole variable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import LABEL, SUBDOMAIN, Problems, generation_of, json_type_name, list_items, quoted, sentence, suggest
from ..base.spec_limits import exceeded_limit, truncate_problems
from ..base.structure import SchemaReader
from ..base.tables import count
from ..items.labels import valid_key, valid_value
from ..mesh.binding.fleet_kinds import FleetKind
from .models import (
    WELL_KNOWN,
    ClusterRequirement,
    Fleet,
    FleetCluster,
    FleetRequest,
    FleetWorkload,
    Migration,
    Operation,
    PlacementPolicy,
    RefusedObject,
    RolloutRules,
    Spread,
)
from .names import Tenant, member_name
from .rollout_state import EVICT, RETURN
from .schemas import SPECS

KEYS: Final = (
    "workspace",
    "namespace",
    "karmada",
    "managementPlane",
    "managementNamespace",
    *(kind.listed for kind in FleetKind),
    "connected",
    "takenGlobalServices",
    "maxEvictions",
    "operator",
)
RESERVED: Final = ("karmada.io", "edge-connect.eu", "edge-portal.eu")
"""Domains of labels and annotations to which Karmada and this project give a meaning."""
CILIUM: Final = ("cilium.io", "io.cilium")
NAME_LIMIT: Final = 52  # of a workload: its pods and revisions have a longer name
VOLUME_SOURCES: Final = ("configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "ephemeral")
CLAIM_FIELDS: Final = ("accessModes", "resources", "storageClassName", "volumeMode")
_REMEDY: Final = "See docs/fleet.md for the variable fleet; no cluster was contacted."


@dataclass(frozen=True)
class FleetInput:
    """What the variable says: the request, and the inventory name of the control plane."""

    request: FleetRequest
    karmada: str


def parse_fleet(raw: Any, inventory: Collection[str]) -> FleetInput:
    """Return what the variable asks for.

    :param raw: value of the variable ``fleet``.
    :param inventory: names of all hosts.
    :raises InvalidInput: when the variable itself is not valid; it lists all problems.
    """
    problems = Problems()
    if not isinstance(raw, Mapping):
        raise InvalidInput("fleet must be a mapping with workspace, karmada, clusters, fleets and workloads.", remedy=_REMEDY)
    given = problems.mapping("fleet", raw, KEYS, optional=False)
    tenant = Tenant(_workspace(problems, given), _namespace(problems, given))
    karmada = _host(problems, given.get("karmada"), inventory)
    clusters = {cluster.name: cluster for cluster in _clusters(problems, tenant, given.get("clusters"))}
    refused: list[RefusedObject] = []
    fleets = _objects(problems, refused, FleetKind.FLEET, given, _fleet)
    policies = _objects(problems, refused, FleetKind.POLICY, given, _policy)
    workloads = _objects(problems, refused, FleetKind.WORKLOAD, given, _workload)
    connected = _connected(problems, given.get("connected"))
    taken = list_items(problems, "fleet.takenGlobalServices", given.get("takenGlobalServices"), "names of GlobalServices")
    most = problems.typed("fleet.maxEvictions", given.get("maxEvictions"), int, "a whole number") or 0
    if most < 0:
        problems.add("fleet.maxEvictions", "must not be negative; 0 is any number")
    operator = problems.typed("fleet.operator", given.get("operator"), str, "a text") or ""
    if problems.found:
        text = f"fleet has {count(len(problems.found), 'problem')}: {sentence(problems.found)}"
        raise InvalidInput(text, remedy=_REMEDY)
    request = FleetRequest(
        tenant=tenant,
        clusters=clusters,
        fleets=fleets,
        policies=policies,
        workloads=workloads if given.get("workloads") is not None else None,
        refused=tuple(refused),
        connected=connected,
        taken_services=frozenset(str(name) for _workspace, name in taken),
        max_evictions=most,
        operator=str(operator),
    )
    return FleetInput(request, karmada)


def _workspace(problems: Problems, given: Mapping[str, Any]) -> str:
    value = given.get("workspace")
    if not isinstance(value, str) or not value or not valid_value(value):
        problems.add("fleet.workspace", "must be the value of a label: at most 63 letters, digits, '-', '_' and '.'")
        return ""
    return value


def _namespace(problems: Problems, given: Mapping[str, Any]) -> str:
    value = given.get("namespace") or "default"
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        problems.add("fleet.namespace", "must be the name of a namespace")
        return ""
    return value


def _host(problems: Problems, value: Any, inventory: Collection[str]) -> str:
    if isinstance(value, str) and value in inventory:
        return value
    named = quoted(value) if isinstance(value, str) else json_type_name(value)
    problems.add(
        "fleet.karmada",
        f"must be the inventory name of the Karmada API server, not {named}; {suggest(str(value), tuple(inventory), 'hosts are')}",
    )
    return ""


def _clusters(problems: Problems, tenant: Tenant, value: Any) -> list[FleetCluster]:
    found: dict[str, FleetCluster] = {}
    for where, entry in list_items(problems, "fleet.clusters", value, "clusters"):
        given = problems.mapping(where, entry, ("name", "host", "provider", "region", "zone", "labels", "spec"), optional=False)
        name = given.get("name")
        if not isinstance(name, str) or not SUBDOMAIN.fullmatch(name):
            problems.add(f"{where}.name", "must be a DNS-1123 name")
            continue
        if name in found:
            problems.add(f"{where}.name", f"{quoted(name)} is there twice")
        fields = {key: str(problems.typed(f"{where}.{key}", given.get(key), str, "a text") or "") for key in WELL_KNOWN}
        labels = given.get("labels") or {}
        if not isinstance(labels, Mapping) or not all(isinstance(key, str) and isinstance(text, str) for key, text in labels.items()):
            problems.add(f"{where}.labels", "must be a mapping of texts")
            labels = {}
        found[name] = FleetCluster(name=name, member=member_name(tenant, name), labels=dict(labels), **fields)
    return list(found.values())


def _connected(problems: Problems, value: Any) -> dict[str, tuple[str, ...]]:
    """Return the clusters that each ClusterMeshBinding has Connected."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.add("fleet.connected", "must be a mapping: name of a ClusterMeshBinding -> its connected clusters")
        return {}
    return {
        str(name): tuple(str(entry) for number, entry in list_items(problems, f"fleet.connected.{name}", entries, "names of clusters"))
        for name, entries in value.items()
    }


def _objects(
    problems: Problems,
    refused: list[RefusedObject],
    kind: FleetKind,
    given: Mapping[str, Any],
    parse: Callable[[Problems, str, Mapping[str, Any], int], Any],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names: set[str] = set()
    for where, entry in list_items(problems, f"fleet.{kind.listed}", given.get(kind.listed), "objects"):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        limit = NAME_LIMIT if kind is FleetKind.WORKLOAD else 63
        if not isinstance(entry, Mapping) or not isinstance(name, str) or not LABEL.fullmatch(name) or len(name) > limit:
            problems.add(where, f"must be a mapping with a name, which is a DNS-1123 label of at most {limit} characters")
            continue
        if name in names:
            problems.add(f"{where}.name", f"{quoted(name)} is there twice; a name is unique within {kind.listed}")
        names.add(name)
        own = Problems()
        generation = generation_of(own, "generation", entry.get("generation"))
        spec = {str(part): value for part, value in entry.items() if part not in ("name", "generation")}
        too_large = exceeded_limit(spec)
        if too_large:
            refused.append(RefusedObject(kind, name, (f"the spec {too_large}",), generation))
            continue
        read = SchemaReader(own).read(SPECS[kind], spec)
        parsed = parse(own, name, read, generation) if not own.found else None
        if own.found or parsed is None:
            refused.append(RefusedObject(kind, name, truncate_problems(own.found), generation))
        else:
            found[name] = parsed
    return found


def _fleet(problems: Problems, name: str, spec: Mapping[str, Any], generation: int) -> Fleet:
    selector = spec.get("selector")
    clusters = tuple(dict.fromkeys(entry["name"] for entry in spec.get("clusterRefs", ())))
    if not clusters and not selector:
        problems.add("", "needs clusterRefs, or a selector that says something")
    requirements: list[ClusterRequirement] = []
    for key, value in (selector or {}).get("matchLabels", {}).items():
        if not valid_key(key):
            problems.add("selector.matchLabels", f"{quoted(key)} is not the key of a label")
        requirements.append(ClusterRequirement(key, "In", (value,)))
    requirements += _requirements(problems, "selector.matchExpressions", (selector or {}).get("matchExpressions", ()))
    return Fleet(name=name, clusters=clusters, selector=tuple(requirements) if selector else None)


def _requirements(problems: Problems, path: str, given: Any, *, fields: bool = False) -> list[ClusterRequirement]:
    found = []
    for place, entry in enumerate(given):
        requirement = ClusterRequirement(entry["key"], entry["operator"], tuple(entry.get("values", ())))
        where = f"{path}[{place}]"
        if not valid_key(requirement.key):
            problems.add(where, f"{quoted(requirement.key)} is not the key of a label")
        if fields and requirement.key in WELL_KNOWN and requirement.operator not in ("In", "NotIn"):
            problems.add(where, f"the keys {', '.join(WELL_KNOWN)} take the operators In and NotIn only")
        elif requirement.operator in ("In", "NotIn") and not requirement.values:
            problems.add(where, "the operators In and NotIn need values")
        elif requirement.operator not in ("In", "NotIn") and requirement.values:
            problems.add(where, "the operators Exists and DoesNotExist have no values")
        found.append(requirement)
    return found


def _policy(problems: Problems, name: str, spec: Mapping[str, Any], generation: int) -> PlacementPolicy:
    strategy, weights, spread = spec["strategy"], spec.get("weights", ()), spec.get("spread")
    if weights and strategy != "Weighted":
        problems.add("weights", "is for strategy Weighted")
    if spread and strategy != "Spread":
        problems.add("spread", "is for strategy Spread")
    if spread and spread.get("max", spread["min"]) < spread["min"]:
        problems.add("spread.max", "is at least min")
    rules = spec.get("migration", {})
    usual = Migration()
    return PlacementPolicy(
        name=name,
        strategy=strategy,
        requirements=tuple(_requirements(problems, "requirements", spec.get("requirements", ()), fields=True)),
        weights={entry["cluster"]: entry["weight"] for entry in weights},
        spread=Spread(spread["by"], spread["min"], spread.get("max", 0))
        if spread
        else Spread("cluster", 1, 0)
        if strategy == "Spread"
        else None,
        connected_in=spec.get("requireConnected", {}).get("meshRef", {}).get("name", ""),
        migration=Migration(
            auto=rules.get("auto", usual.auto),
            dwell=rules.get("dwellSeconds", usual.dwell),
            unhealthy=rules.get("unhealthySeconds", usual.unhealthy),
            min_available_percent=rules.get("minAvailablePercent", usual.min_available_percent),
            max_evictions=rules.get("maxEvictions", usual.max_evictions),
        ),
    )


def _workload(problems: Problems, name: str, spec: Mapping[str, Any], generation: int) -> FleetWorkload:
    kind, template, service = spec["kind"], spec["template"], spec.get("service")
    if kind == "DaemonSet" and "replicas" in spec:
        problems.add("replicas", "is not for kind DaemonSet, which has one pod per node")
    _check_keys(problems, "template.labels", template.get("labels", {}))
    _check_keys(problems, "template.annotations", template.get("annotations", {}))
    _check_pod(problems, template["spec"])
    if service is not None:
        _check_service(problems, name, service)
    resources = tuple(spec.get("resources", ()))
    _check_resources(problems, resources)
    rules, operation = spec.get("rollout", {}), spec.get("operation")
    if rules.get("waves") and rules.get("batchSize"):
        problems.add("rollout", "waves and batchSize exclude each other; remove one of them")
    if operation and (operation["type"] == "Rollback") != ("toRevision" in operation):
        problems.add("operation.toRevision", "is for type Rollback, and needed there")
    if operation and (operation["type"] in (EVICT, RETURN)) != ("clusterName" in operation):
        problems.add("operation.clusterName", f"is for the types {EVICT} and {RETURN}, and needed there")
    return FleetWorkload(
        name=name,
        fleet=spec["fleetRef"]["name"],
        placement=spec.get("placementRef", {}).get("name", ""),
        kind=kind,
        replicas=spec.get("replicas", 1),
        template=template,
        service=service,
        resources=resources,
        rollout=RolloutRules(
            waves=tuple(tuple(wave["clusters"]) for wave in rules.get("waves", ())),
            batch_size=rules.get("batchSize", 0),
            max_unavailable=rules.get("maxUnavailable"),
            pause=rules.get("pauseSeconds", 0),
            deadline=rules.get("progressDeadlineSeconds", RolloutRules.deadline),
            paused=rules.get("paused", False),
        ),
        history_limit=spec.get("revisionHistoryLimit", FleetWorkload.history_limit),
        operation=_operation(operation) if operation else None,
        generation=generation,
    )


def _operation(spec: Mapping[str, Any]) -> Operation:
    return Operation(spec["type"], spec["id"], spec.get("toRevision", 0), spec.get("clusterName", ""))


def _check_pod(problems: Problems, spec: Mapping[str, Any]) -> None:
    """Check what the schema cannot: it has no field by which a pod reaches its node, and these rules are about combinations."""
    names = [container["name"] for container in (*spec["containers"], *spec.get("initContainers", ()))]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add("template.spec.containers", f"the name {quoted(name)} is there twice")
    for place, volume in enumerate(spec.get("volumes", ())):
        found = [source for source in VOLUME_SOURCES if source in volume]
        if len(found) != 1:
            problems.add(f"template.spec.volumes[{place}]", f"needs one of {', '.join(VOLUME_SOURCES)}")
    if spec.get("priorityClassName", "").startswith("system-"):
        problems.add("template.spec.priorityClassName", "is not one of the classes system-*, which are the cluster's own")


def _check_service(problems: Problems, name: str, service: Mapping[str, Any]) -> None:
    if not name[0].isalpha():
        problems.add("service", f"needs a workload whose name begins with a letter, as that of a Service does, and {quoted(name)} does not")
    if service.get("headless") and service["type"] != "ClusterIP":
        problems.add("service.headless", "is for type ClusterIP")
    if service.get("global") and not service.get("meshRef"):
        problems.add("service.global", "needs service.meshRef, whose clusters then share the Service")
    ports = [port.get("name") for port in service["ports"]]
    if len(ports) > 1 and (None in ports or len(set(ports)) < len(ports)):
        problems.add("service.ports", "of several ports each has a name of its own")
    _check_keys(problems, "service.annotations", service.get("annotations", {}), (*RESERVED, *CILIUM))


def _check_resources(problems: Problems, resources: tuple[Mapping[str, Any], ...]) -> None:
    seen: set[tuple[str, str]] = set()
    for place, entry in enumerate(resources):
        where, key = f"resources[{place}]", (entry["kind"], entry["name"])
        if key in seen:
            problems.add(where, f"{entry['kind']} {entry['name']} is there twice")
        seen.add(key)
        plain = entry["kind"] in ("ConfigMap", "ServiceAccount")
        if "data" in entry and entry["kind"] != "ConfigMap":
            problems.add(f"{where}.data", "is for kind ConfigMap")
        if plain == ("spec" in entry):
            problems.add(f"{where}.spec", "is not for the kinds ConfigMap and ServiceAccount" if plain else "is missing")
        elif entry["kind"] == "PersistentVolumeClaim":  # volumeName and dataSource reach volumes of others
            for field in sorted(set(entry["spec"]) - set(CLAIM_FIELDS)):
                problems.add(f"{where}.spec", f"{quoted(str(field))} is not permitted; the fields are {', '.join(CLAIM_FIELDS)}")
        _check_keys(problems, f"{where}.labels", entry.get("labels", {}))
        _check_keys(problems, f"{where}.annotations", entry.get("annotations", {}), (*RESERVED, *CILIUM))


def _check_keys(problems: Problems, path: str, given: Mapping[str, str], reserved: Collection[str] = RESERVED) -> None:
    """Report keys of labels and annotations that are no keys, or to which others give a meaning."""
    for key in given:
        domain = key.lower().rpartition("/")[0]
        if not valid_key(key):
            problems.add(path, f"{quoted(key)} is not the key of a label or annotation")
        elif any(domain == own or domain.endswith(f".{own}") for own in reserved):
            problems.add(path, f"{quoted(key)} has a domain to which others give a meaning; these are {', '.join(reserved)}")
