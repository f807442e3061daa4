# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exposed services as their users meet them: an address, who may come to it, what takes over, and that nothing stays behind.

Load balancers are the lab's. No controller serves Gateways there: the API is the real one, and the tests answer as a controller would.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.integration.labs import TWO_118
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import EXPOSURE, NAMESPACE, furnish
from tests.lab.api import ApiError, LabApi
from tests.lab.tools.gateway_crds import gateway_crds
from tests.testing.exposure_goldens import Golden, goldens
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.lab(TWO_118)

SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
POLICIES = f"/apis/cilium.io/v2/namespaces/{NAMESPACE}/ciliumnetworkpolicies"
GATEWAY_API = "gateway.networking.k8s.io/v1"
GATEWAYS = f"/apis/{GATEWAY_API}/namespaces/{NAMESPACE}/gateways"
ROUTES = f"/apis/{GATEWAY_API}/namespaces/{NAMESPACE}/httproutes"
CONFIG = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
DNS = "external-dns.alpha.kubernetes.io/hostname"
ITEM = "cilium-mesh.edge-portal.eu/item"
HOST = "shop.example.com"

Object = dict[str, Any]


@pytest.fixture(scope="module")
def lab(module_lab: MeshLab) -> MeshLab:
    """Two clusters with Service production/nginx, a pod behind it, and the Gateway API."""
    made = module_lab
    for name in made.names:
        api = made.api(name)
        for definition in gateway_crds():
            api.create(definition)
        api.patch(CONFIG, {"data": {"enable-gateway-api": "true"}})
        wait_for(partial(_create_class, api), what=f"{name} serves the Gateway API")
    furnish(made)
    return made


def _create_class(api: LabApi) -> bool:
    """The API server takes a moment to serve what was just defined."""
    try:
        api.create(
            {
                "apiVersion": GATEWAY_API,
                "kind": "GatewayClass",
                "metadata": {"name": "cilium"},
                "spec": {"controllerName": "io.cilium/gateway-controller"},
            }
        )
    except ApiError as error:
        return error.status == 409
    return True


def expose(lab: MeshLab, *items: Mapping[str, Any], check: bool = False, own_process: bool = False) -> PlaybookRun:
    """Run the playbook; the mesh itself is not what these tests are about."""
    mesh = {**lab.mesh(), "exposedServices": list(items)}
    arguments = ["--check"] if check else []
    return lab.play("exposures", mesh=mesh, arguments=arguments, own_process=own_process, exposed_service_require_connected=False)


def rows(run: PlaybookRun) -> dict[str, Object]:
    """Statuses by name."""
    assert "Traceback" not in run.output
    return {row["name"]: row for row in run.result["status"]["exposedServices"]}


def condition(row: Mapping[str, Any], kind: str) -> tuple[str, str]:
    return next((entry["status"], entry["reason"]) for entry in row["conditions"] if entry["type"] == kind)


def made(lab: MeshLab, cluster: str, path: str = SERVICES) -> dict[str, Object]:
    """Objects of items, by the item's name."""
    found = {}
    for entry in lab.api(cluster).list(path):
        item = (entry["metadata"].get("annotations") or {}).get(ITEM, "")
        if item:
            found[item.partition("/")[2]] = entry
    return found


def ingress(entry: Mapping[str, Any]) -> list[str]:
    return [row["ip"] for row in entry["status"].get("loadBalancer", {}).get("ingress") or ()]


def address_of(lab: MeshLab, cluster: str) -> list[str]:
    """Addresses of the Service of item shop."""
    return ingress(made(lab, cluster)["shop"])


def scale(lab: MeshLab, cluster: str, replicas: int) -> None:
    api = lab.api(cluster)
    api.patch(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/nginx", {"spec": {"replicas": replicas}})
    wait_for(lambda: ready(api), equals(replicas), what=f"{cluster} has {replicas} ready endpoints")


def ready(api: LabApi) -> int:
    """Ready endpoints of the tenant's Service; what is made beside it has slices of its own."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
    slices = api.list(path, label_selector="kubernetes.io/service-name=nginx")
    return sum(bool(entry["conditions"].get("ready")) for found in slices for entry in found.get("endpoints") or ())


def node_ip(lab: MeshLab, cluster: str) -> str:
    (node,) = lab.api(cluster).list("/api/v1/nodes")
    return next(str(row["address"]) for row in node["status"]["addresses"] if row["type"] == "InternalIP")


def test_three_ways_out_and_back(lab: MeshLab) -> None:
    balanced = {**EXPOSURE, "hostname": HOST}
    rival = {**balanced, "name": "rival"}
    web = {**EXPOSURE, "name": "web", "class": "Gateway", "sourceRanges": ["0.0.0.0/0"], "clusters": ["c2"], "hostname": "web.example.com"}
    closed = {**EXPOSURE, "name": "closed", "sourceRanges": []}
    held = {**EXPOSURE, "name": "held", "class": "NodePort"}
    before = {name: lab.api(name).list(SERVICES) for name in lab.names}

    promised = expose(lab, balanced, web, closed, check=True)
    assert promised.result["changed"] and {name: lab.api(name).list(SERVICES) for name in lab.names} == before

    first = expose(lab, balanced, rival, web, closed, held, own_process=True)
    assert first.rc != 0, first.output
    kept = ("exposedServices/shop", "exposedServices/web")
    objects = [step["object"] for step in first.result["plan"]["steps"]]
    assert objects == [step["object"] for step in promised.result["plan"]["steps"]]
    assert {step["item"] for step in first.result["plan"]["steps"]} == set(kept)
    assert condition(rows(first)["rival"], "Accepted") == ("False", "HostnameConflict")
    assert condition(rows(first)["held"], "Accepted") == ("False", "RangesNotEnforceable")  # it would close the load balancer too
    assert {"CM-EXPO-04", "CM-EXPO-06", "CM-EXPO-07"} <= set(first.finding_codes())
    assert (rows(first)["closed"]["phase"], condition(rows(first)["closed"], "Programmed")) == ("Pending", ("False", "NoSourceRanges"))
    service = made(lab, "c1")["shop"]
    assert (service["spec"]["type"], service["spec"]["loadBalancerSourceRanges"]) == ("LoadBalancer", ["192.0.2.0/24"])
    assert [port["port"] for port in service["spec"]["ports"]] == [80]
    assert service["metadata"]["annotations"][DNS] == HOST
    for name in lab.names:
        wait_for(partial(address_of, lab, name), what=f"the Service in {name} has an address")

    gateway = made(lab, "c2", GATEWAYS)["web"]
    answer = {"addresses": [{"type": "IPAddress", "value": "203.0.113.9"}]}
    lab.api("c2").patch(f"{GATEWAYS}/{gateway['metadata']['name']}/status", {"status": answer})
    again = expose(lab, balanced, web)
    assert (again.rc, again.result["changed"], again.result["plan"]["steps"]) == (0, False, []), again.output
    found = rows(again)
    assert [(row["clusterName"], row["addresses"], row["port"]) for row in found["shop"]["addresses"]] == [
        (name, ingress(made(lab, name)["shop"]), 80) for name in lab.names
    ]
    assert (found["shop"]["phase"], found["shop"]["hostname"]) == ("Exposed", HOST)
    assert condition(found["shop"], "Reachable") == ("Unknown", "NotProbed")
    assert (found["web"]["phase"], found["web"]["addresses"][0]["addresses"]) == ("Exposed", ["203.0.113.9"])
    assert made(lab, "c2", ROUTES)["web"]["spec"]["hostnames"] == ["web.example.com"]

    gone = expose(lab)
    assert gone.rc == 0 and gone.result["changed"], gone.output
    assert not any(made(lab, name, path) for name in lab.names for path in (SERVICES, GATEWAYS, ROUTES, POLICIES))
    after = {name: lab.api(name).list(SERVICES) for name in lab.names}
    assert after == before  # the tenant's own Services are as they were, to the version


def test_a_node_port_is_held_to_its_ranges_or_open_in_words(lab: MeshLab) -> None:
    held = {**EXPOSURE, "class": "NodePort", "clusters": ["c1"]}
    run = expose(lab, held)
    assert run.rc == 0, run.output
    (row,) = rows(run)["shop"]["addresses"]
    service, policy = made(lab, "c1")["shop"], made(lab, "c1", POLICIES)["shop"]
    assert (row["addresses"], row["port"]) == ([node_ip(lab, "c1")], service["spec"]["ports"][0]["nodePort"])
    assert (row["sourceRangesBy"], service["spec"]["externalTrafficPolicy"]) == ("NetworkPolicy", "Local")
    assert policy["spec"]["ingressDeny"][0]["fromCIDRSet"] == [{"cidr": "0.0.0.0/0", "except": ["192.0.2.0/24"]}]
    port = row["port"]
    wide = expose(lab, {**held, "sourceRanges": ["0.0.0.0/0"]})
    assert wide.rc == 0, wide.output
    (row,) = rows(wide)["shop"]["addresses"]
    assert (row["port"], row["sourceRangesBy"], made(lab, "c1", POLICIES)) == (port, "Nobody", {})
    assert made(lab, "c1")["shop"]["spec"]["externalTrafficPolicy"] == "Cluster"
    gone = expose(lab, {**held, "sourceRanges": []})
    assert (gone.rc, made(lab, "c1")) == (0, {})


def test_a_standby_takes_over_and_gives_back(lab: MeshLab) -> None:
    item = {**EXPOSURE, "hostname": HOST, "clusters": {"primary": "c1", "standby": ["c2"]}}

    def named() -> list[str]:
        return [
            name for name in lab.names if DNS in made(lab, name).get("shop", {"metadata": {"annotations": {}}})["metadata"]["annotations"]
        ]

    expose(lab, item)
    address = wait_for(partial(address_of, lab, "c1"), what="the Service in c1 has an address")
    assert (named(), made(lab, "c2")) == (["c1"], {})
    scale(lab, "c1", 0)
    over = expose(lab, item)
    assert "CM-EXPO-11" in over.finding_codes(), over.output
    assert named() == ["c2"]
    wait_for(partial(address_of, lab, "c2"), what="the Service in c2 has an address")
    steady = expose(lab, item)
    assert (steady.result["changed"], rows(steady)["shop"]["phase"]) == (False, "Degraded")
    assert [(row["role"], row["serving"]) for row in rows(steady)["shop"]["addresses"]] == [("primary", False), ("standby", True)]
    scale(lab, "c1", 1)
    back = expose(lab, item)
    assert (back.rc, rows(back)["shop"]["phase"], named(), made(lab, "c2")) == (0, "Exposed", ["c1"], {}), back.output
    assert ingress(made(lab, "c1")["shop"]) == address  # the primary kept it all along
    expose(lab)
    assert not any(made(lab, name) for name in lab.names)


@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)
def test_api_servers_take_the_golden_objects_as_they_are(lab: MeshLab, golden: Golden) -> None:
    api = lab.api("c1")
    for body in golden.becomes:
        created = api.create(body)
        assert _within(body["spec"], created["spec"]), f"{body['kind']}: {created['spec']}"
        plural = {"CiliumNetworkPolicy": POLICIES, "Gateway": GATEWAYS, "HTTPRoute": ROUTES}.get(body["kind"], SERVICES)
        api.delete(f"{plural}/{body['metadata']['name']}")


def test_api_servers_refuse_source_ranges_on_a_node_port(lab: MeshLab) -> None:
    """Why a policy has to hold a NodePort to its ranges."""
    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"app": "x"}, "loadBalancerSourceRanges": ["192.0.2.0/24"]}
    with pytest.raises(ApiError, match="may only be used when `type` is 'LoadBalancer'"):
        lab.api("c1").create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": NAMESPACE}, "spec": spec})


def _within(wanted: Any, stored: Any) -> bool:
    """Is everything that was sent there still? Servers add defaults."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(key in stored and _within(value, stored[key]) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(stored, list) and len(wanted) == len(stored) and all(map(_within, wanted, stored))
    return bool(wanted == stored)
