# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses as the engine makes them, of every kind and in every state: what the operator writes into the status of a custom resource.

Together they have every field that the schemas have (tests/unit/operator/test_crds.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import ControllerProof, ProofVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.node_health import FailedNode, NodePath, NodeReport
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.outcome import PROVEN, REFUTES, UNDECIDED, Reachability
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.status import Course, item_rows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.fabric import BindingRow, fabric_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BY_KIND
from mesh_operator.meshes.request import Wait
from mesh_operator.meshes.status import row_of_binding, status_of_fabric, status_of_failed_run, status_of_result, status_of_waiting
from mesh_operator.runs.runner import RunResult, RunState
from mesh_operator.source.stored import Stored
from tests.testing.exposure_world import EVERYONE, OFFICE, cluster, settled
from tests.testing.facts_builders import NOW, cluster_facts, failure, link_facts, mesh_of, not_ready, reader_facts
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, SERVED, object_facts, scene, service, slice_facts, traffic

NGINX: Final = {"namespace": NAMESPACE, "name": "nginx"}
MCS: Final = "multicluster.x-k8s.io/v1alpha1"


class Made(NamedTuple):
    """One status. ``about``: what it was made of."""

    kind: str
    about: str
    status: dict[str, Any]


@cache
def statuses() -> tuple[Made, ...]:
    """Those of the engine, and what the operator makes of each. No test may change one: they share them."""
    engine = [*_bindings(), *_services(), *_intents(), *_exposures(), *_fabrics()]
    return (*engine, *(made for row in engine for made in _by_the_operator(row)))


def _by_the_operator(made: Made) -> list[Made]:
    """As it is written after a run, and after that while the mesh waits, and when a run broke off."""
    row = BY_KIND[made.kind]
    metadata = {"name": "x", "namespace": "default", "generation": 4}
    fresh = Stored(
        ObjectKey(made.kind, "lc", "default", "x"), {"metadata": metadata, "spec": {"clusterRefs": [{"name": "c1"}]}}, "https://kcp"
    )
    if made.kind == "Fabric":
        return [Made(made.kind, f"operator: {made.about}", status_of_fabric(fresh, [row_of_binding("b0", None)], NOW))]
    named = {"name": "x", **made.status}
    finding = Finding(
        code="CM-X-01", severity=Severity.ADVISORY, cluster="c1", peer="c2", summary="It is so.", fix="Change it.\nOr not.", accepted=True
    )
    advice = [{**finding.to_dict(), "item": f"{row.listed}/x" if row.listed else ""}]
    result = {"status": {row.listed or "binding": [named] if row.listed else made.status}, "advice": advice}
    status = status_of_result(fresh, result, NOW)
    assert status is not None
    before = replace(fresh, obj={**fresh.obj, "status": status})
    held = Wait(phase="Pending", reason="ClusterNotReady", message="c1 is not ready", standing=True)
    broken = RunResult(state=RunState.FAILED, rc=2, mesh_result=None, last_task="Connect", seconds=1.0)
    later = {"run": status, "waiting": status_of_waiting(before, held, NOW), "broken": status_of_failed_run(before, broken, NOW)}
    return [Made(made.kind, f"operator, {how}: {made.about}", status) for how, status in later.items()]


def _bindings() -> list[Made]:
    mesh = mesh_of("c1", "c2")
    facts = {host: cluster_facts(host) for host in ("c1", "c2")}
    readers = {"c1": reader_facts("c1", ["c2"]), "c2": reader_facts("c2", ["c1"])}
    down = replace(readers["c1"], links=tuple(not_ready(link, error="x509: unknown authority") for link in readers["c1"].links))
    proofs = {("c1", "c2"): ControllerProof(cluster="c1", peer="c2", verdict=ProofVerdict.PROVEN, heartbeat=NOW)}
    cut = FailedNode(name="c2-n1", path=NodePath.POD_NETWORK)
    lost = NodeReport(cluster="c1", peer="c2", node="c1-n1", failed=(cut,), oldest="2026-09-01T11:59:00Z")
    counts = dict.fromkeys(("nodes", "services", "endpoints", "identities"), 2)
    counted = tuple(replace(link, arrived=counts) for link in readers["c1"].links)
    probed = {**readers, "c1": replace(readers["c1"], links=counted, nodes=(lost,), nodes_asked=("c1-n1",))}
    blocking = Finding(code="CM-CIDR-01", severity=Severity.BLOCKING, cluster="c1", summary="overlap")
    made = {
        "connected": build_status(mesh, facts, {}, readers, now=NOW, generation=3, proofs=proofs),
        "proven without a heartbeat": build_status(
            mesh, facts, {}, readers, now=NOW, proofs={("c1", "c2"): replace(proofs["c1", "c2"], heartbeat=None)}
        ),
        "packets are lost": build_status(mesh, facts, {}, probed, now=NOW),
        "a link is down": build_status(mesh, facts, {}, {**readers, "c1": down}, now=NOW),
        "nothing configured": build_status(mesh, facts, {}, {}, now=NOW),
        "blocked": build_status(mesh, facts, {}, {}, now=NOW, findings=[blocking]),
        "a silent member": build_status(mesh, {"c1": facts["c1"]}, {"c2": failure("c2")}, {"c1": readers["c1"]}, now=NOW, written=True),
        "no cluster answers": build_status(mesh, {}, {host: failure(host) for host in ("c1", "c2")}, {}, now=NOW),
        "by metrics": build_status(
            mesh, facts, {}, {**readers, "c1": replace(readers["c1"], links=(link_facts("c1", "c2", source="metrics"),))}, now=NOW
        ),
    }
    return [Made("ClusterMeshBinding", about, status) for about, status in made.items()]


def _rows(
    kind: str, name: str, about: str, entries: list[dict[str, Any]], before: Scene, after: Scene | None = None, course: Course | None = None
) -> list[Made]:
    """The rows of a list of items after a run, without their names, which the custom resources have already."""
    wanted = desired_of({name: [{"generation": 2, **entry} for entry in entries]}, before.mesh)
    decided = plan_items(wanted, before)
    after_run = after or settled(applied(before, decided.plan.steps, before.binding))
    rows = item_rows(wanted, decided, after_run, course or Course(), now=NOW)[name]
    return [Made(kind, f"{about}: {row['name']}", {key: value for key, value in row.items() if key != "name"}) for row in rows]


def _services() -> list[Made]:
    balanced = traffic("c1", services=[service(ingress=[{"hostname": "lb.example.com"}])], slices=(slice_facts(),))
    current = scene(balanced, cluster("c2"), traffic("c3"), members=["c4"])
    items = [
        {"name": "by-name", "selector": NGINX, "affinity": "Local", "targetClusters": ["c1", "c2"], "failover": {}},
        {"name": "not-there", "selector": {**NGINX, "name": "solo"}},
        {"name": "wrong", "selector": {}},
    ]
    labels = [{"name": "by-labels", "selector": {"namespace": NAMESPACE, "labelSelector": {"app": "nginx"}}, "createMissingServices": True}]
    failed = Course(failed={"globalServices/by-name": {"c2": "may not patch services"}})
    made = [
        *_rows("GlobalService", "globalServices", "run", items, current),
        *_rows("GlobalService", "globalServices", "before the writes", items, current, current),
        *_rows("GlobalService", "globalServices", "a write failed", items, current, course=failed),
        *_rows("GlobalService", "globalServices", "not connected", items, replace(current, phase="Connecting")),
        *_rows("GlobalService", "globalServices", "run", labels, current),
    ]
    facts = {host: cluster_facts(host, version="1.19.5", config={"clustermesh-enable-mcs-api": "true"}) for host in ("c1", "c2")}
    mcs = scene(*(replace(cluster(host), served=SERVED | {MCS}) for host in facts), facts=facts)
    exported = [{"name": "mcs", "selector": NGINX, "backend": "MCS"}]
    written = applied(mcs, plan_items(desired_of({"globalServices": exported}, mcs.mesh), mcs).plan.steps, mcs.binding)
    return [*made, *_rows("GlobalService", "globalServices", "Cilium spoke", exported, mcs, _spoken(written))]


def _spoken(current: Scene) -> Scene:
    """What Cilium's controllers write: a conflict, and an import."""
    key = (NAMESPACE, "nginx")
    conditions = [{"type": "Valid", "status": "True", "reason": "Valid", "message": ""}, {"type": "Conflict", "status": "True"}]
    found = object_facts("ServiceImport", "serviceimports", "nginx", namespace=NAMESPACE, api=f"/apis/{MCS}")
    imported = replace(found, status={"clusters": [{"cluster": "c1"}]})
    exports = {key: replace(current.traffic["c1"].exports[key], status={"conditions": conditions})}
    return replace(current, traffic={**current.traffic, "c1": replace(current.traffic["c1"], exports=exports, imports={key: imported})})


def _intents() -> list[Made]:
    current = scene(traffic("c1"), traffic("c2"), members=["c3"])
    sides: dict[str, Any] = {"source": {**NGINX, "name": "web"}, "destination": NGINX}
    items: list[dict[str, Any]] = [
        {"name": "allow", "action": "Allow", **sides, "probe": {"enabled": True}},
        {"name": "deny", "action": "Deny", **sides, "policyMode": "Clusterwide"},
        {"name": "isolate", "action": "Isolate", "destination": {**NGINX, "clusters": ["c2"]}},
        {"name": "wrong", "action": "Permit"},
    ]
    probes: dict[str, Reachability] = {
        "allow": Reachability(result=PROVEN, time=NOW, method="hubble", message="packets were delivered", evidence=("c1/web -> c2/nginx",)),
        "deny": Reachability(result=REFUTES, time=NOW, method="job", message="packets were let in"),
        "isolate": Reachability(result=UNDECIDED, message="no evidence was found"),
    }
    failed: Mapping[str, Mapping[str, str]] = {"connectivityIntents/deny": {"c2": "may not create policies"}}
    kind, name = "ConnectivityIntent", "connectivityIntents"
    return [
        *_rows(kind, name, "run", items, current),
        *_rows(kind, name, "before the writes", items, current, current),
        *_rows(kind, name, "probed, and a write failed", items, current, course=Course(probes=probes, failed=failed)),
        *_rows(kind, name, "not connected", items, replace(current, phase="Error")),
    ]


def _exposures() -> list[Made]:
    facts = {host: cluster_facts(host, config={"enable-gateway-api": "true"}) for host in ("c1", "c2")}
    current = scene(cluster("c1"), cluster("c2", ready=0), facts=facts, members=["c3"])
    shop: dict[str, Any] = {"service": NGINX, "port": {"number": 80}, "sourceRanges": list(OFFICE)}
    items = [
        {"name": "balanced", **shop, "class": "LoadBalancer", "hostname": "shop.example.com"},
        {"name": "node-port", **shop, "class": "NodePort", "clusters": {"names": ["c1"]}, "sourceRanges": list(EVERYONE)},
        {"name": "gateway", **shop, "class": "Gateway", "hostname": "*.example.com", "sourceRanges": list(EVERYONE)},
        {"name": "standby", **shop, "class": "LoadBalancer", "clusters": {"primary": "c2", "standby": ["c1"]}},
        {"name": "nobody", **shop, "class": "LoadBalancer", "sourceRanges": []},
        {"name": "wrong", "class": "Door"},
    ]
    kind, name = "ExposedService", "exposedServices"
    both = scene(cluster("c1"), cluster("c2"))
    globally = desired_of({"globalServices": [{"name": "nginx", "selector": NGINX}]}, both.mesh)
    with_global = applied(both, plan_items(globally, both).plan.steps, both.binding)
    return [
        *_rows(kind, name, "run", items, current),
        *_rows(kind, name, "before the writes", items, current, current),
        *_rows(kind, name, "a write failed", items, current, course=Course(failed={"exposedServices/balanced": {"c1": "no"}})),
        *_rows(kind, name, "not connected", items, replace(current, phase="Pending")),
        *_rows(kind, name, "of a global Service", items[:1], with_global),
    ]


def _fabrics() -> list[Made]:
    rows = [BindingRow(name=f"b{place}", clusters=("c1", "c2"), status=made.status) for place, made in enumerate(_bindings())]
    made = {
        "all of them": fabric_status("europe", rows, now=NOW),
        "one": fabric_status("europe", rows[:1], now=NOW),
        "one that is not there": fabric_status("europe", [BindingRow(name="gone")], now=NOW),
        "none": fabric_status("europe", [], now=NOW),
    }
    return [Made("Fabric", about, {key: value for key, value in status.items() if key != "name"}) for about, status in made.items()]
