# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of items: services, intents and exposures on scenes, and carried out by actions; explanations and probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.limits import Limits
from tests.testing import exposure_goldens, policy_goldens, probe_world, service_goldens
from tests.testing.exposure_world import cluster as exposing
from tests.testing.exposure_world import settled
from tests.testing.facts_builders import NOW, cluster_facts
from tests.testing.flow_builders import flow
from tests.testing.traffic_builders import NAMESPACE, SERVED, namespace_facts, object_facts, pod, scene, service, slice_facts, traffic

from .adapter import Json, after_items, cluster, items, lab, plain_mapping, probes, still
from .meshes import mesh

NGINX: Final = {"namespace": NAMESPACE, "name": "nginx"}
MCS: Final = "multicluster.x-k8s.io/v1alpha1"
SHOP: Final[Json] = {"service": NGINX, "port": {"number": 80}, "sourceRanges": ["192.0.2.0/24"]}
SERVICES: Final[Mapping[str, Json]] = {
    "plain": {},
    "stubs": {"createMissingServices": True},
    "two targets": {"targetClusters": ["c1", "c3"]},
    "not shared": {"shared": False},
    "affinity": {"affinity": "Local"},
    "failover": {"affinity": "Local", "failover": {"minLocalReady": 2, "hysteresis": 1}},
    "failover, slow": {"failover": {"detectWithin": 5, "minLocalReady": 3}},
    "MCS": {"backend": "MCS"},
    "labels": {"selector": {"namespace": NAMESPACE, "labelSelector": {"app": "nginx"}}, "createMissingServices": True},
    "nowhere": {"selector": {"namespace": NAMESPACE, "name": "gone"}},
    "system": {"selector": {"namespace": "kube-system", "name": "kube-dns"}},
    "annotations": {"globalAnnotations": {"service.cilium.io/global-sync-endpoint-slices": "true"}},
    "annotation without permission": {"globalAnnotations": {"example.com/team": "shop"}},
}
SIDES: Final[Json] = {"source": {**NGINX, "name": "web"}, "destination": NGINX}
INTENTS: Final[Mapping[str, Json]] = {
    "allow": {"action": "Allow", **SIDES},
    "allow ports": {"action": "Allow", **SIDES, "ports": [{"protocol": "TCP", "port": 8080}]},
    "allow labels": {
        "action": "Allow",
        "source": {"namespace": NAMESPACE, "selector": {"app": "web"}, "clusters": ["c1"]},
        "destination": {"namespace": NAMESPACE, "selector": {"app": "nginx"}, "clusters": ["c2"]},
    },
    "deny": {"action": "Deny", **SIDES},
    "deny, clusterwide": {"action": "Deny", **SIDES, "policyMode": "Clusterwide"},
    "isolate": {"action": "Isolate", "destination": {**NGINX, "clusters": ["c2"]}},
    "probed": {"action": "Allow", **SIDES, "probe": {"enabled": True}},
}
EXPOSURES: Final[Mapping[str, Json]] = {
    "balanced": {**SHOP, "class": "LoadBalancer", "hostname": "shop.example.com"},
    "node port": {**SHOP, "class": "NodePort", "clusters": {"names": ["c1"]}},
    "open node port": {**SHOP, "class": "NodePort", "sourceRanges": ["0.0.0.0/0", "::/0"]},
    "gateway": {**SHOP, "class": "Gateway", "hostname": "*.example.com", "sourceRanges": ["0.0.0.0/0", "::/0"]},
    "gateway with ranges": {**SHOP, "class": "Gateway", "hostname": "shop.example.com"},
    "gateway with TLS": {**SHOP, "class": "Gateway", "hostname": "a.example.com", "tlsRef": {"name": "tls"}},
    "standby": {**SHOP, "class": "LoadBalancer", "clusters": {"primary": "c2", "standby": ["c1"]}},
    "nobody": {**SHOP, "class": "LoadBalancer", "sourceRanges": []},
    "another port": {**SHOP, "class": "LoadBalancer", "port": {"number": 81}},
    "by name": {**SHOP, "class": "LoadBalancer", "port": {"name": "http"}, "allocateLoadBalancerNodePorts": False},
    "system": {**SHOP, "service": {"namespace": "kube-system", "name": "kube-dns"}, "class": "LoadBalancer"},
}
ITEMS: Final[Mapping[str, Mapping[str, Json]]] = {
    "globalServices": {name: {"selector": NGINX, **spec} for name, spec in SERVICES.items()},
    "connectivityIntents": INTENTS,
    "exposedServices": EXPOSURES,
}


def _scenes() -> dict[str, Any]:
    mcs = {"clustermesh-enable-mcs-api": "true", "enable-gateway-api": "true"}
    facts = {host: cluster_facts(host, version="1.19.5", config=mcs) for host in ("c1", "c2", "c3")}
    served = SERVED | {MCS}
    new = {host: cluster_facts(host, version="1.20.0", config={"enable-gateway-api": "true"}) for host in ("c1", "c2", "c3")}
    whole = scene(*(exposing(host) for host in new), facts=new)
    pods = (pod("nginx-0", app="nginx"), pod("web-0", app="web"))
    return {
        "three, 1.20": whole,
        "three, 1.19 with MCS": scene(*(replace(exposing(h), served=exposing(h).served | served, pods=pods) for h in facts), facts=facts),
        "1.16": scene(*(exposing(h, gateways=False) for h in ("c1", "c2")), version="1.16.19", members=["c3"]),
        "no endpoints": scene(exposing("c1"), exposing("c2", ready=0), facts={h: new[h] for h in ("c1", "c2")}, members=["c3"]),
        "nothing there": scene(*(traffic(host, pods=pods) for host in ("c1", "c2", "c3")), facts=new),
        "not connected": replace(whole, phase="Connecting"),
        "private namespaces": scene(
            *(
                traffic(
                    host,
                    services=[service(type="ExternalName") if host == "c2" else service()],
                    slices=(slice_facts(),),
                    namespaces=[namespace_facts(clustermesh__cilium__io="false")],
                )
                for host in new
            ),
            facts={
                host: cluster_facts(host, version="1.20.0", config={"enable-policy": "never", "kube-proxy-replacement": "false"})
                for host in new
            },
        ),
    }


def on_scenes() -> dict[str, Any]:
    """Return what a run makes of each item, on each scene."""
    found = {}
    with still():
        for place, there in _scenes().items():
            for kind, named in ITEMS.items():
                for name, spec in named.items():
                    raw = {kind: [{"name": "item", "generation": 2, **spec}]}
                    found[f"{place}: {kind} {name}"] = items(there, raw, settle=settled)
    return found


def settings() -> dict[str, Any]:
    """Return what is said of items where the installation, the objects or the links are not as an item needs them."""
    found = {}
    with still():
        for name, (there, raw) in _settings().items():
            found[name] = items(there, raw)
    return found


FRONT: Final = {"namespace": NAMESPACE, "selector": {"app": "frontend"}, "clusters": ["c1"]}
BACK: Final = {"namespace": NAMESPACE, "selector": {"app": "backend"}, "clusters": ["c2"]}
WAY: Final[Json] = {"name": "way", "action": "Allow", "source": FRONT, "destination": BACK, "ports": [{"protocol": "TCP", "port": 8080}]}


Cases = dict[str, tuple[Any, Json]]
KEY: Final = (NAMESPACE, "nginx")
PRIVATE: Final = namespace_facts(NAMESPACE, **{"clustermesh.cilium.io__global": "false"})


def _settings() -> Cases:
    return {**_of_policies(), **_of_services(), **_of_exposures()}


def _intents(*entries: Json) -> Json:
    return {"connectivityIntents": list(entries)}


def _services(**spec: Any) -> Json:
    return {"globalServices": [{"name": "nginx", "selector": NGINX, **spec}]}


def _exposed(**spec: Any) -> Json:
    return {"exposedServices": [{"name": "shop", **SHOP, "class": "LoadBalancer", **spec}]}


def _shop(host: str, *, ready: int = 2, **fields: Any) -> Any:
    return traffic(host, services=[service(**fields)], slices=(slice_facts(ready=ready),))


def _of_policies() -> Cases:
    cases: Cases = {}
    switches: tuple[tuple[str, str, Json], ...] = (
        ("enable-non-default-deny-policies", "false", {"action": "Deny"}),
        ("enable-policy", "never", {}),
        ("enable-policy", "always", {}),
        ("enable-cilium-network-policy", "false", {}),
        ("enable-cilium-clusterwide-network-policy", "false", {"policyMode": "Clusterwide"}),
        ("enable-icmp-rules", "false", {"ports": [{"protocol": "ICMP", "type": 8}]}),
        ("enable-sctp", "false", {"ports": [{"protocol": "SCTP", "port": 9}]}),
        ("labels", "k8s:tier", {}),
    )
    for key, value, more in switches:
        cases[f"{key} {value}"] = (_ways(config={"c2": {key: value}}), _intents({**WAY, **more}))
    for version in ("1.14.20", "1.15.19", "1.16.19", "1.19.5", "1.20.2"):
        for action in ("Deny", "Isolate"):
            entry = {k: v for k, v in WAY.items() if action != "Isolate" or k not in ("source", "ports")}
            cases[f"{action} at {version}"] = (_ways(versions={"c2": version}), _intents({**entry, "action": action}))
    cases["a name that is not known"] = (
        _ways(members=("c9",), names={"c1": "c1", "c2": "c2"}),
        _intents({**WAY, "source": {**FRONT, "clusters": ["c1", "c9"]}}),
    )
    hub = _ways(hosts=("c1", "c2", "c3"))
    cases["no link between the two"] = (replace(hub, mesh=_hub_of(hub.mesh, "c3")), _intents(WAY))
    cases["a link is down"] = (_ways(link_errors={("c2", "c1"): "tls: certificate has expired"}), _intents({**WAY, "action": "Deny"}))
    cases["a namespace that exports nothing"] = (_ways(versions={"c1": "1.20.2"}, c1={"namespaces": (PRIVATE,)}), _intents(WAY))
    without = _ways()
    cases["no namespace"] = (
        replace(without, traffic={h: replace(t, namespaces={}) if h == "c2" else t for h, t in without.traffic.items()}),
        _intents(WAY),
    )
    made = after_items(_ways(), _intents(WAY))
    (policy,) = made.traffic["c2"].policies
    said = {"conditions": [{"type": "Valid", "status": "False", "message": "unable to parse"}]}
    variants = {
        "a policy that Cilium refuses": replace(policy, status=said),
        "a policy that another writer loosened": replace(policy, spec={**policy.spec, "ingress": [{}, *policy.spec["ingress"]]}),
        "a policy to which another writer added": replace(policy, specs=({"endpointSelector": {}, "ingress": [{}]},)),
        "a policy of another writer": replace(policy, labels={}, annotations={}),
    }
    for name, variant in variants.items():
        cases[name] = (replace(made, traffic={**made.traffic, "c2": replace(made.traffic["c2"], policies=(variant,))}), _intents(WAY))
    cases["an item that is gone"] = (made, _intents())
    cases["two intents of one pod"] = (
        _ways(),
        _intents(
            WAY, {**WAY, "name": "another", "source": {**FRONT, "selector": {"app": "other"}}}, {**WAY, "name": "no", "action": "Deny"}
        ),
    )
    cases["other policies there"] = (
        _ways(c2={"pods": (pod("backend-1", app="backend"),), "policies": (_isolating(),)}),
        _intents(WAY),
    )
    cases["a policy of another writer that Cilium refuses"] = (
        _ways(c2={"pods": (pod("backend-1", app="backend"),), "policies": (replace(_isolating(), status=said),)}),
        _intents(WAY),
    )
    unread = (Unread(what="pods", message="forbidden", remedy="allow it"),)
    cases["pods cannot be read"] = (
        replace(without, traffic={h: replace(t, pods=(), unread=unread) for h, t in without.traffic.items()}),
        _intents(WAY, {"name": "alone", "action": "Isolate", "destination": BACK}),
    )
    system = {"namespace": "kube-system", "selector": {"k8s-app": "clustermesh-apiserver"}}
    cases["the mesh's own pods"] = (_ways(), _intents({"name": "cut", "action": "Isolate", "destination": system}))
    return cases


def _of_services() -> Cases:
    cases: Cases = {}
    cases["two of three have it"] = (scene(_shop("c1"), _shop("c2"), traffic("c3")), _services(targetClusters=["c1", "c2"]))
    cases["not all are targets"] = (scene(_shop("c1"), _shop("c2")), _services(targetClusters=["c1"]))
    cases["ports differ"] = (
        scene(_shop("c1"), _shop("c2", ports=({"name": "web", "port": 8080, "protocol": "TCP"},))),
        _services(),
    )
    cases["no selector"] = (scene(_shop("c1", selector={}), _shop("c2")), _services())
    cases["external name"] = (scene(_shop("c1", type="ExternalName"), _shop("c2")), _services())
    cases["headless"] = (scene(_shop("c1", clusterIP="None"), _shop("c2", clusterIP="None")), _services())
    cases["no endpoint is ready"] = (scene(_shop("c1", ready=0), _shop("c2", ready=0)), _services())
    cases["remote is preferred"] = (scene(_shop("c1"), _shop("c2", ready=0)), _services(affinity="Remote"))
    cases["a namespace that is not global"] = (
        scene(*(replace(_shop(h), namespaces={NAMESPACE: PRIVATE}) for h in ("c1", "c2")), version="1.20.0"),
        _services(),
    )
    cases["with kube-proxy"] = (
        scene(_shop("c1"), _shop("c2"), facts={h: cluster_facts(h, config={"kube-proxy-replacement": "false"}) for h in ("c1", "c2")}),
        _services(),
    )
    cases["what runs the mesh"] = (scene(_shop("c1"), _shop("c2")), _services(selector={"namespace": "kube-system", "name": "kube-dns"}))
    cases["the mesh's own Service"] = (
        scene(_shop("c1"), _shop("c2")),
        _services(selector={"namespace": "kube-system", "name": "clustermesh-apiserver"}),
    )
    mcs = {h: cluster_facts(h, version="1.19.5", config={"clustermesh-enable-mcs-api": "true"}) for h in ("c1", "c2")}
    places = (replace(_shop(h), served=SERVED | {MCS}) for h in mcs)
    exported = after_items(scene(*places, facts=mcs), _services(backend="MCS"))
    unlike = _shop("c2", ports=({"name": "http", "port": 8080, "protocol": "TCP"},))
    cases["exports that will be in conflict"] = (
        scene(*(replace(each, served=SERVED | {MCS}) for each in (_shop("c1"), unlike)), facts=mcs),
        _services(backend="MCS"),
    )
    valid = {"type": "Valid", "status": "True", "reason": "Valid", "message": ""}
    reports: dict[str, list[Json]] = {
        "exports in conflict": [
            valid,
            {"type": "Conflict", "status": "True", "reason": "PortConflict", "message": "Ports differ.\non http"},
        ],
        "an export that is not valid": [{**valid, "status": "False", "reason": "NoService", "message": "Service doesn't exist"}],
        "an export without a message": [{**valid, "status": "False", "reason": "NoService"}],
    }
    for name, conditions in reports.items():
        export = replace(exported.traffic["c2"].exports[KEY], status={"conditions": conditions})
        changed = replace(exported, traffic={**exported.traffic, "c2": replace(exported.traffic["c2"], exports={KEY: export})})
        cases[name] = (changed, _services(backend="MCS"))
    settled_scene = after_items(scene(_shop("c1"), _shop("c2")), _services())
    ours = settled_scene.traffic["c1"].services[KEY].annotations
    cases["one is refused, and another is gone"] = (settled_scene, {"globalServices": [{"name": "other", "selector": {}}]})
    texts: dict[str, Mapping[str, str]] = {
        "another writer changed it": {**ours, "service.cilium.io/global": "false"},
        "another writer took all away": {"service.cilium.io/global": "false"},
        "the record is broken": {name: "x" if name.startswith("global-service.") else value for name, value in ours.items()},
    }
    for name, edited in texts.items():
        changed = _with_service(settled_scene, "c1", replace(settled_scene.traffic["c1"].services[KEY], annotations=edited))
        cases[name] = (changed, _services())
        cases[f"{name}, and it is gone"] = (changed, {"globalServices": []})
    stubs = after_items(scene(_shop("c1"), traffic("c2")), _services(createMissingServices=True))
    cases["stubs"] = (stubs, _services(createMissingServices=True))
    cases["stubs are no longer wanted"] = (stubs, {"globalServices": []})
    own = stubs.traffic["c2"].services[KEY]
    stranger = replace(own, spec={**own.spec, "selector": {"app": "mine"}})
    for name, stub in (("a stub with a selector", stranger), ("a stub without labels", replace(own, labels={}))):
        changed = _with_service(stubs, "c2", stub)
        cases[name] = (changed, _services(createMissingServices=True))
        cases[f"{name}, and it is gone"] = (changed, {"globalServices": []})
    cases["stubs lost their model"] = (
        replace(stubs, traffic={**stubs.traffic, "c1": traffic("c1")}),
        _services(createMissingServices=True),
    )
    cases["two items of one Service"] = (
        scene(_shop("c1"), _shop("c2")),
        {"globalServices": [{"name": "one", "selector": NGINX}, {"name": "two", "selector": NGINX, "affinity": "Remote"}]},
    )
    contract: Json = {"affinity": "Local", "failover": {"detectWithin": 30, "minLocalReady": 2, "hysteresis": 1}}
    for version in ("1.18.11", "1.19.5", "1.20.0"):
        one = scene(_shop("c1", ready=1), _shop("c2"), version=version, members=["c3"])
        cases[f"failover at {version}"] = (one, _services(**contract))
        over = after_items(one, _services(**contract))
        fewer = replace(over.traffic["c1"], slices=(slice_facts(ready=2),))
        cases[f"back at {version}, not enough"] = (replace(over, traffic={**over.traffic, "c1": fewer}), _services(**contract))
        alone = {host: entry for host, entry in over.traffic.items() if host == "c1"}
        gone = replace(over, traffic=alone, facts={"c1": over.facts["c1"]}, link_errors={("c1", "c2"): "refused"})
        cases[f"the other is dead at {version}"] = (gone, _services(**contract))
    return cases


def _of_exposures() -> Cases:
    cases: Cases = {}
    cases["no address is assigned"] = (scene(exposing("c1"), exposing("c2")), _exposed())
    cases["the primary is silent"] = (
        scene(exposing("c2"), members=["c1"]),
        _exposed(clusters={"primary": "c1", "standby": ["c2"]}),
    )
    six = {h: cluster_facts(h, config={"enable-ipv6": "true"}) for h in ("c1", "c2")}
    cases["ranges of IPv4 alone"] = (scene(exposing("c1"), exposing("c2"), facts=six), _exposed())
    dual = [
        replace(exposing(h), services={KEY: service(ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="PreferDualStack")}) for h in ("c1", "c2")
    ]
    cases["ranges of IPv4 alone, a Service of both"] = (scene(*dual, facts=six), _exposed())
    late = after_items(scene(exposing("c1"), exposing("c2")), _exposed())
    cases["no address for an hour"] = (replace(late, now=late.now + timedelta(hours=1)), _exposed())
    wide: Json = {"class": "Gateway", "sourceRanges": ["0.0.0.0/0", "::/0"]}
    gates = {h: cluster_facts(h, config={"enable-gateway-api": "true"}) for h in ("c1", "c2")}
    gate = after_items(scene(exposing("c1"), exposing("c2"), facts=gates), _exposed(**wide))
    no = {"type": "ResolvedRefs", "status": "False", "reason": "InvalidCertificateRef", "message": "Secret not found."}
    refused = {
        host: replace(t, gateways={key: replace(g, status={"listeners": [{"conditions": [no]}]}) for key, g in t.gateways.items()})
        for host, t in gate.traffic.items()
    }
    cases["a Gateway that is refused"] = (replace(gate, traffic=refused), _exposed(**wide))
    for hosts in (("c1",), ("c1", "c2")):
        only_six = {h: cluster_facts(h, config={"enable-ipv4": "false", "enable-ipv6": "true"} if h in hosts else {}) for h in ("c1", "c2")}
        cases[f"ranges of IPv4 alone, {len(hosts)} of IPv6 alone"] = (scene(exposing("c1"), exposing("c2"), facts=only_six), _exposed())
    cases["two of one hostname"] = (
        scene(exposing("c1"), exposing("c2")),
        {"exposedServices": [{"name": name, **SHOP, "class": "LoadBalancer", "hostname": "shop.example.com"} for name in ("one", "two")]},
    )
    return cases


def _with_service(current: Any, host: str, changed: Any) -> Any:
    """Return the scene with another Service nginx in one cluster."""
    return replace(current, traffic={**current.traffic, host: replace(current.traffic[host], services={changed.key: changed})})


def _isolating() -> Any:
    spec = {"endpointSelector": {"matchLabels": {"app": "backend"}}, "ingress": [{"fromEndpoints": [{"matchLabels": {"app": "x"}}]}]}
    names: Json = {"namespace": NAMESPACE, "api": "/apis/cilium.io/v2", "spec": spec}
    return object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", "theirs", **names)


def _ways(*, hosts: tuple[str, ...] = ("c1", "c2"), config: Mapping[str, Json] | None = None, **fields: Any) -> Any:
    """Return a mesh in which the frontend runs in c1 and the backend in c2, as tests/unit/policies/test_plan_intents.py has it."""
    versions = fields.pop("versions", {})
    pods = {"c1": (pod("frontend-1", app="frontend"),), "c2": (pod("backend-1", app="backend"),)}
    facts = {host: cluster_facts(host, version=versions.get(host, "1.18.11"), config=(config or {}).get(host)) for host in hosts}
    members = [traffic(host, **{"pods": pods.get(host, ()), **fields.pop(host, {})}) for host in hosts]
    return scene(*members, facts=facts, **fields)


def _hub_of(wanted: Any, hub: str) -> Any:
    """Return the mesh with one hub."""
    return replace(wanted, binding=replace(wanted.binding, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=(hub,))))


def probed() -> dict[str, Any]:
    """Return what probes say of flows and of Jobs."""
    seen = NOW - timedelta(seconds=30)
    lines = {"delivered": flow(time=seen), "denied": flow("DROPPED", kind="drop", time=seen), "nothing": ""}
    quick: Json = {"limits": Limits(settle=0.0, poll=0.01, job_seconds=1, per_intent=4.0)}
    found: dict[str, Any] = {}
    with still():
        for action in ("Allow", "Deny"):
            for word, line in lines.items():
                there, clusters = probe_world.world()
                clusters["c2"].flows = probe_world.said(line)
                found[f"{action}, {word}"] = probes(there, clusters, [probe_world.intent(action)], **quick)
                for code in (0, 1):
                    there, clusters = probe_world.world()
                    clusters["c1"].job_ends = ((code, "word"),)
                    wanted = probe_world.intent(action, probe={"image": "busybox:1.36"})
                    found[f"{action}, {word}, by a Job that ends with {code}"] = {
                        **probes(there, clusters, [wanted], **quick),
                        "jobs": [*clusters["c1"].made, *clusters["c2"].made],
                    }
        there, clusters = probe_world.world(hubble=False)
        clusters["c1"].fail["delete jobs"] = Forbidden("RBAC forbids to delete jobs (403).", cluster="c1")
        found["a Job that stays"] = probes(there, clusters, [probe_world.intent(probe={"image": "busybox:1.36"})], **quick)
        there, clusters = probe_world.world()
        for one in clusters.values():
            probe_world.silent(one)
        found["silent"] = probes(there, clusters, [probe_world.intent()], **quick)
        names = [f"intent-{number}" for number in range(6)]
        there, clusters = probe_world.world(intents=names)
        few = Limits(settle=0.0, poll=0.01, job_seconds=1, per_intent=4.0, intents=2)
        found["too many"] = probes(there, clusters, [probe_world.intent(name=name) for name in names], limits=few)
    return plain_mapping(found)


def goldens() -> dict[str, Any]:
    """Return what the golden files of services, policies and exposures become."""
    found: dict[str, Any] = {}
    with still():
        for name, golden in service_goldens.goldens().items():
            found[f"service {name}"] = service_goldens.outcome(golden)
        for entry in policy_goldens.goldens():
            found[f"policy {entry.name}"] = policy_goldens.compiled(entry.intent)
        for exposed in exposure_goldens.goldens():
            found[f"exposure {exposed.name}"] = exposure_goldens.compiled(exposed)
    return plain_mapping(found)


def actions() -> dict[str, Any]:
    """Return runs of the actions that carry items out: dry run, run, again, one item less, none, and a limit."""
    found: dict[str, Any] = {}
    lists = {kind: [{"name": f"item-{place}", **spec} for place, spec in enumerate(named.values())] for kind, named in ITEMS.items()}
    whole = {**mesh(1, 2, 3), **lists}
    less = {**mesh(1, 2, 3), **{kind: entries[1:2] for kind, entries in lists.items()}}
    options: Json = {"version": "1.20", "extra_config": {"enable-gateway-api": "true"}}
    with lab(*(cluster(number, **options) for number in (1, 2, 3))) as made:
        made.traffic = {host: exposing(host) for host in made.world.clusters}
        made.after_items = settled
        found["not connected"] = made.step("mesh_items", mesh=whole)
        made.run("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
        found["check"] = made.step("mesh_items", mesh=whole, check=True, diff=True)
        found["a hash that is none"] = made.step("mesh_items", mesh=whole, hash="0" * 64)
        found["a hash of a plan that leaves items out"] = made.step(
            "mesh_items", mesh=whole, hash=found["check"]["mesh_result"]["plan"]["hash"]
        )
        found["run"] = made.step("mesh_items", mesh=whole)
        found["again"] = made.step("mesh_items", mesh=whole)
        found["look"] = made.dry_run(whole)
        found["less"] = made.step("mesh_items", mesh=less)
        for action in ("mesh_service", "mesh_policy", "mesh_exposure"):
            found[action] = made.step(action, mesh=less)
            found[f"{action}, dry run"] = made.step(action, mesh=whole, check=True, diff=True)
        made.silent = {"c3"}
        found["one is silent"] = made.step("mesh_items", mesh=whole)
        made.silent, made.refusing = set(), {"c2"}
        found["one refuses"] = made.step("mesh_items", mesh=whole)
        made.refusing = set()
        found["a limit"] = made.step("mesh_items", mesh=less, hosts=["c1", "c2"], limit="c1,c2")
        found["none"] = made.step("mesh_items", mesh=mesh(1, 2, 3), state="absent")
        found["none again"] = made.step("mesh_items", mesh=mesh(1, 2, 3), state="absent")
    return found


def explanations() -> dict[str, Any]:
    """Return why one pod does or does not reach another, with one thing wrong at a time."""
    glob = {"service.cilium.io/global": "true"}
    backends = tuple(pod(f"nginx-{n}", app="nginx") for n in range(2))
    asked: Json = {
        "source": {"cluster": "c1", "namespace": NAMESPACE, "name": "web"},
        "target": {"namespace": NAMESPACE, "service": "nginx"},
        "port": "80",
    }
    deny = object_facts(
        "CiliumNetworkPolicy",
        "ciliumnetworkpolicies",
        "deny",
        namespace=NAMESPACE,
        api="/apis/cilium.io/v2",
        spec={"endpointSelector": {}, "ingressDeny": [{"fromEntities": ["all"]}]},
    )
    here: Json = {"services": (service(annotations=glob),), "pods": (pod("web-0", app="web"),), "slices": (slice_facts(ready=0),)}
    elsewhere: Json = {"services": (service(annotations=glob),), "pods": backends, "slices": (slice_facts(ready=2),)}
    variants: dict[str, tuple[Json, Json, Json]] = {
        "fit": ({}, {}, {}),
        "no Service here": ({"services": ()}, {}, {}),
        "not global": ({"services": (service(),)}, {}, {}),
        "no backends": ({}, {"slices": (slice_facts(ready=0),)}, {}),
        "denied": ({}, {"policies": (deny,)}, {}),
        "another port": ({}, {}, {"port": "81"}),
        "no source": ({"pods": ()}, {}, {}),
        "a pod": ({}, {}, {"target": {"cluster": "c2", "namespace": NAMESPACE, "name": "nginx"}, "port": "8080"}),
        "UDP": ({}, {}, {"protocol": "UDP"}),
        "unknown cluster": ({}, {}, {"source": {"cluster": "c9", "namespace": NAMESPACE, "name": "web"}}),
    }
    found: dict[str, Any] = {}
    for connected in (True, False):
        with lab(cluster(1), cluster(2)) as made:
            if connected:
                made.run("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
            for name, (one, other, question) in variants.items():
                made.traffic = {"c1": traffic("c1", **{**here, **one}), "c2": traffic("c2", **{**elsewhere, **other})}
                step = made.step("mesh_explain", mesh=mesh(1, 2), expected="not_broken", **{**asked, **question})
                found[f"{name}, {'connected' if connected else 'not connected'}"] = step
            made.silent = {"c2"}
            found[f"a silent member, {'connected' if connected else 'not connected'}"] = made.step("mesh_explain", mesh=mesh(1, 2), **asked)
    return found
