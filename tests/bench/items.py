# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""500 global services and 500 intents over 3 clusters, each a real API server with pods' metadata, Services and EndpointSlices: the first
apply and a second one as whole playbook runs, beside the same requests sent bare at the same concurrency.

The API servers share the machine's processors with what is measured, so a run is compared with the bare requests of the same round.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.child import measured
from tests.bench.table import Target, columns
from tests.demo.play import Desk, Run
from tests.testing.namespaced import install_clusters, install_definitions
from tests.testing.one_server import OneServer

CLUSTERS: Final = ("c1", "c2", "c3")
CILIUM: Final = "1.20"
ITEMS: Final = 500
FEW: Final = 10
NAMESPACES: Final = tuple(f"shop-{number}" for number in range(10))
RATIO, NO_OP_SECONDS = 1.3, 5.0
PLAYBOOK: Final = str(Path(__file__).with_name("items.yml"))
FIRST, SECOND, AWAY = "first apply", "second apply", "taken away"
_AT_ONCE = 8


def measure(say: Callable[[str], None], items: int = ITEMS, rounds: int = 3) -> dict[str, Any]:
    """Medians over the rounds, and the number of lists with few and with all items."""
    with ExitStack() as stack:
        servers = {}
        for number, name in enumerate(CLUSTERS, 1):
            say(f"items: an API server for {name} with {items} Services and pods")
            servers[name] = stack.enter_context(OneServer())
            _furnish(servers[name], name, number, items)
        inventory = {name: {"kubeconfig": str(server.kubeconfig), "namespace": name} for name, server in servers.items()}
        asked = {"inventory": inventory, "mesh": mesh_variable(items)}
        few = measured("items_run", "plan", asked={**asked, "mesh": mesh_variable(FEW)})
        rows = [_round(number, asked, say) for number in range(1, rounds + 1)]
    found = {kind: {key: median(row[kind][key] for row in rows) for key in rows[0][kind]} for kind in rows[0]}
    ratio = median(row[FIRST]["wall"] / row["bare"]["wall"] for row in rows)
    return {
        "items": items,
        "rounds": rounds,
        "rows": found,
        "ratio": ratio,
        "lists": {"few": max(few["lists"].values()), "all": found["plan"]["lists"]},
    }


def targets(found: dict[str, Any]) -> list[Target]:
    """What the project promises."""
    rows = found["rows"]
    return [
        Target("items: first apply beside the bare requests, ratio", found["ratio"], RATIO),
        Target("items: second apply, wall s", rows[SECOND]["wall"], NO_OP_SECONDS),
        Target(
            f"items: lists per cluster that {found['items']} items need more than {FEW}", found["lists"]["all"] - found["lists"]["few"], 0
        ),
    ]


def as_text(found: dict[str, Any]) -> str:
    """The table for people."""
    rows = found["rows"]
    bare = rows["bare"]["wall"]
    head = (
        f"{found['items']} global services, {found['items']} intents, {len(CLUSTERS)} clusters",
        "wall s",
        "to bare",
        "CPU s",
        "peak MB",
    )
    body = [("the same requests, bare", f"{bare:.2f}", "1.00x", "", "")]
    for kind in (FIRST, SECOND, AWAY):
        row = rows[kind]
        body.append((kind, f"{row['wall']:.2f}", f"{row['wall'] / bare:.2f}x", f"{row['cpu']:.2f}", f"{row['peak'] / 1e6:.0f}"))
    plan = rows["plan"]
    parts = ", ".join(f"{name} {plan[name]:.2f} s" for name in ("observe", "scene", "plan"))
    return f"{columns([head, *body])}\nby the engine alone: {parts}; {plan['writes']:.0f} writes; {plan['lists']:.0f} lists per cluster"


def mesh_variable(items: int) -> dict[str, Any]:
    """The variable ``cilium_mesh``: a global service and an intent per application."""
    services, intents = [], []
    for number in range(items):
        namespace, other = _namespace(number), (number + len(NAMESPACES)) % items
        selector = {"namespace": namespace, "name": f"app-{number}"}
        services.append({"name": f"app-{number}", "selector": selector, "affinity": "Local"})
        ends = {"source": {"namespace": _namespace(other), "name": f"app-{other}"}, "destination": selector}
        intents.append({"name": f"to-app-{number}", "action": "Allow", **ends, "ports": [{"protocol": "TCP", "port": 8080}]})
    binding = {"name": "many", "clusterRefs": [{"name": name} for name in CLUSTERS]}
    return {"binding": binding, "globalServices": services, "connectivityIntents": intents}


def _namespace(number: int) -> str:
    return NAMESPACES[number % len(NAMESPACES)]


def _furnish(server: OneServer, name: str, number: int, items: int) -> None:
    api = server.api
    install_definitions(api, CILIUM)
    install_clusters(server, [name], version=CILIUM, first_id=number)
    for namespace in NAMESPACES:
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def one(place: int) -> None:
        for obj in _application(place, f"10.{number}.{place // 250}.{place % 250 + 1}"):
            api.create(obj)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, range(items)))


def _application(number: int, address: str) -> list[dict[str, Any]]:
    """A pod, its Service and the EndpointSlice that a controller would have written."""
    name, namespace = f"app-{number}", _namespace(number)
    metadata = {"namespace": namespace, "labels": {"app": name, "tier": f"tier-{number % 5}", "pod-template-hash": "7d9f8b6c5"}}
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}
    target = {"kind": "Pod", "name": f"{name}-0", "namespace": namespace}
    labels = {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "name": f"{name}-0"},
            "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**metadata, "name": name},
            "spec": {"selector": {"app": name}, "ports": [port]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{name}-abcde", "namespace": namespace, "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "targetRef": target}],
        },
    ]


def _round(number: int, asked: dict[str, Any], say: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Bare and as a playbook, each from clusters in which there is nothing of it."""
    say(f"items, round {number}: the bare requests")
    plan = measured("items_run", "plan", asked=asked)
    bare = measured("items_run", "bare", asked={**asked, "writes": plan["writes"]})
    hosts = {
        name: {"cilium_mesh_kubeconfig": values["kubeconfig"], "cilium_mesh_namespace": values["namespace"]}
        for name, values in asked["inventory"].items()
    }
    shared = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    rows: dict[str, dict[str, float]] = {
        "plan": {
            **{name: phase["wall"] for name, phase in plan["phases"].items()},
            "writes": len(plan["writes"]),
            "lists": max(plan["lists"].values()),
        },
        "bare": {"wall": bare["wall"]},
    }
    with Desk({}, {"cilium_mesh": asked["mesh"]}) as desk:
        desk.write("inventory.json", {"all": {"vars": shared, "hosts": hosts}})
        _run(desk, "absent")  # also of what the bare requests left
        for kind, state, changed in ((FIRST, "present", True), (SECOND, "present", False), (AWAY, "absent", True)):
            say(f"items, round {number}: {kind}")
            rows[kind] = _figures(kind, _run(desk, state), changed)
    return rows


def _run(desk: Desk, state: str) -> Run:
    run = desk.run(PLAYBOOK, "-e", f"bench_state={state}", quiet=True)
    if run.status != 0:
        desk.run(PLAYBOOK, "-e", f"bench_state={state}")  # once more, to be seen
        raise SystemExit(f"items, {state}: the playbook ended with status {run.status}; its output is above.")
    return run


def _figures(kind: str, run: Run, changed: bool) -> dict[str, float]:
    found = (run.mesh_result or {}).get("changed")
    if found is not changed:
        raise SystemExit(f"items, {kind}: changed is {found}, not {changed}: the figure would mean nothing.")
    return {"wall": run.wall, "cpu": run.cpu, "peak": run.peak}
