# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters in which services are exposed: scenes, items as users write them, and what controllers do to the objects that are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.gateway_fitness import SERVED as GATEWAY_API
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.parse import parse_exposed_service
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.plan import plan_exposures, prune_exposures
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.status import exposure_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ExposedService
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, SliceFacts, TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Step
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, SERVED, object_facts, scene, service, slice_facts, traffic

MEMBERS = ("c1", "c2", "c3")
EVERYONE = ("0.0.0.0/0", "::/0")
OFFICE = ("192.0.2.0/24",)


def spec(**overrides: Any) -> dict[str, Any]:
    """A spec as a user writes it: Service production/nginx, port 80, to the office, in all clusters. None takes a key out."""
    values: dict[str, Any] = {
        "service": {"namespace": NAMESPACE, "name": "nginx"},
        "port": {"number": 80},
        "class": "LoadBalancer",
        "sourceRanges": list(OFFICE),
    }
    return {key: value for key, value in {**values, **overrides}.items() if value is not None}


def item(name: str = "shop", members: Sequence[str] = MEMBERS, **overrides: Any) -> ExposedService:
    """The parsed item."""
    problems = Problems()
    found = parse_exposed_service(problems, name, spec(**overrides), tuple(members))
    assert found is not None and not problems.found, problems.found
    return found


def endpoints(host: str, ready: int) -> SliceFacts:
    """The EndpointSlice of nginx, its pods on the first node of the cluster."""
    found = slice_facts(ready=ready)
    return replace(found, endpoints=tuple(replace(entry, node=f"{host}-n1") for entry in found.endpoints))


def gateway_class(name: str = "cilium", controller: str = "io.cilium/gateway-controller") -> ObjectFacts:
    api = "/apis/gateway.networking.k8s.io/v1"
    return object_facts("GatewayClass", "gatewayclasses", name, api=api, spec={"controllerName": controller})


def cluster(
    host: str,
    *,
    services: Iterable[ObjectFacts] | None = None,
    slices: Iterable[SliceFacts] | None = None,
    ready: int = 2,
    gateways: bool = True,
    **fields: Any,
) -> TrafficFacts:
    """A cluster with Service production/nginx and its endpoints, and with the Gateway API."""
    classes = {"gateway_classes": {"cilium": gateway_class()}} if gateways else {}
    return traffic(
        host,
        services=[service()] if services is None else services,
        slices=tuple((endpoints(host, ready),) if slices is None else slices),
        served=SERVED | ({GATEWAY_API} if gateways else set()),
        **{**classes, **fields},
    )


def clusters(*traffics: TrafficFacts, **fields: Any) -> Scene:
    """A scene of them; by default of c1, c2 and c3 as they should be."""
    return scene(*(traffics or tuple(cluster(host) for host in MEMBERS)), **fields)


def desired(current: Scene, *items: ExposedService) -> Desired:
    return Desired(mesh=current.mesh, items={ItemKind.EXPOSURE: tuple(items)}, kinds=frozenset({ItemKind.EXPOSURE}))


def steps_of(plans: Iterable[ItemPlan]) -> list[Step]:
    """As the runner takes them: of items that are accepted."""
    return [step for plan in plans if plan.verdict is ItemVerdict.ACCEPTED for step in plan.steps]


def planned(current: Scene, *items: ExposedService) -> tuple[list[ItemPlan], list[Step]]:
    """The plans of the items, and every step of a run: what is removed first."""
    wanted = desired(current, *items)
    plans = plan_exposures(wanted, current)
    pruned, _findings = prune_exposures(wanted, current)
    return plans, [*pruned, *steps_of(plans)]


def run(current: Scene, *items: ExposedService, settle: bool = True) -> Scene:
    """Plan and apply; ``settle``: then the controllers do their part."""
    _plans, steps = planned(current, *items)
    after = applied(current, steps, current.binding)
    return settled(after) if settle else after


def status(current: Scene, wanted: ExposedService, *others: ExposedService, failed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The status that ``wanted`` has now."""
    plan = plan_exposures(desired(current, wanted, *others), current)[0]
    assert plan.verdict is ItemVerdict.ACCEPTED, plan
    return exposure_status(wanted, plan, current, failed or {})


def settled(current: Scene, hosts: Iterable[str] | None = None) -> Scene:
    """What the API server and controllers add: node ports, addresses of load balancers and Gateways."""
    places = frozenset(current.hosts if hosts is None else hosts)
    return replace(current, traffic={host: _settled(entry) if host in places else entry for host, entry in current.traffic.items()})


def _settled(found: TrafficFacts) -> TrafficFacts:
    number = int("".join(c for c in found.host if c.isdigit()) or 1)
    services = {key: _with_address(entry, number) for key, entry in found.services.items()}
    gateways = {
        key: replace(entry, status={"addresses": [{"type": "IPAddress", "value": f"203.0.113.{number}"}]})
        for key, entry in found.gateways.items()
    }
    return replace(found, services=services, gateways=gateways)


def _with_address(entry: ObjectFacts, number: int) -> ObjectFacts:
    kind = entry.spec.get("type")
    if kind not in ("LoadBalancer", "NodePort"):
        return replace(entry, status={})
    ports = [{**port, "nodePort": 30000 + port["port"]} for port in entry.spec["ports"]]
    spec_now = {**entry.spec, "ports": ports} if entry.spec.get("allocateLoadBalancerNodePorts") is not False else entry.spec
    ingress = {"loadBalancer": {"ingress": [{"ip": f"203.0.113.{number}"}]}} if kind == "LoadBalancer" else {}
    return replace(entry, spec=spec_now, status=ingress)


def changed(current: Scene, host: str, change: Callable[[TrafficFacts], TrafficFacts]) -> Scene:
    """``current`` with ``change`` made to what one cluster has."""
    return replace(current, traffic={**current.traffic, host: change(current.traffic[host])})


def with_endpoints(current: Scene, host: str, ready: int) -> Scene:
    """Service nginx has that many ready endpoints in ``host``."""
    return changed(current, host, lambda entry: replace(entry, slices=(endpoints(host, ready),)))


def without(current: Scene, host: str) -> Scene:
    """``host`` does not answer any more."""
    left = {name: entry for name, entry in current.traffic.items() if name != host}
    return replace(current, traffic=left, facts={name: entry for name, entry in current.facts.items() if name != host})


def ours(current: Scene, host: str) -> list[ObjectFacts]:
    """What is there beside the tenant's own Services."""
    return [entry for entry in current.traffic[host].owned if entry.labels.get("app.kubernetes.io/managed-by")]
