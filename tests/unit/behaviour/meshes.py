# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of meshes: every profile, every topology, and what goes wrong, from the charts' objects to the bytes that are written."""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.node_health import NodePath

from .adapter import Json, Lab, cluster, lab

VERSIONS: Final = ("1.16", "1.17", "1.18", "1.19", "1.20")
SERVICES: Final = ("LoadBalancer", "NodePort", "ClusterIP")
METHODS: Final = ("helm", "cronJob", "provided")
MODES: Final = ("legacy", "migration", "cluster")
LATE: Final = "leaves that ended"


def mesh(*numbers: int, topology: Json | None = None, **binding: Any) -> Json:
    """Return the variable cilium_mesh with these clusters."""
    more = {"topology": topology} if topology else {}
    return {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": f"c{number}"} for number in numbers], **more, **binding}}


def profiles() -> dict[str, Any]:
    """Return connect and disconnect of two clusters of every version, auth mode, kvstoremesh and CA; Services and methods alternate."""
    found = {}
    every = itertools.product(VERSIONS, MODES, (True, False), (False, True))
    for place, (version, mode, kvstoremesh, shared) in enumerate(every):
        service, method = SERVICES[place.bit_count() % 2], METHODS[(place // 2) % 3]
        name = f"{version} {mode} {'kvstoremesh' if kvstoremesh else 'agents'} {'shared' if shared else 'own'} {service} {method}"
        options: Json = {
            "version": version,
            "auth_mode": mode,
            "kvstoremesh": kvstoremesh,
            "service_type": service,
            "tls_method": method,
        }
        # Clusters with node ports need different ones where Cilium replaces kube-proxy (CM-EP-05).
        pair = (cluster(number, node_port=32000 + number, **options) for number in (1, 2))
        with lab(*pair, shared_ca=shared) as made:
            # What the first run reports, writes and measures; then that it left nothing to do; then the way back.
            first = made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
            found[name] = {"connect": first}
            if any(code == "CM-OWN-01" for code, _host, _severity in first["order"]):  # Helm renders the users there
                found[name]["accepted"] = made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5, accept=["CM-OWN-01"])
            if place % 3 == 0:
                found[name]["again"] = _short(made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5))
            found[name]["disconnect"] = made.step("mesh_connect", mesh=mesh(1, 2), state="absent")
    return found


def _short(step: Json) -> Json:
    result = step["mesh_result"]
    return {"changed": result["changed"], "steps": result["plan"]["steps"], "writes": step["writes"], "operator": step["operator"]}


def mixed() -> dict[str, Any]:
    """Return meshes of clusters that differ, with all that an action says: checks, plan, differences, status, what is left."""
    pairs: dict[str, tuple[Json, Json]] = {
        f"{one} with {other}": ({"version": one}, {"version": other}) for one, other in (*itertools.pairwise(VERSIONS), ("1.16", "1.20"))
    }
    pairs |= {
        "kvstoremesh with agents": ({}, {"kvstoremesh": False}),
        "load balancer with node port": ({}, {"service_type": "NodePort", "node_port": 32001}),
        "equal node ports": ({"service_type": "NodePort", "node_port": 32001}, {"service_type": "NodePort", "node_port": 32001}),
        "a ClusterIP": ({"service_type": "ClusterIP"}, {}),
        "helm with certgen": ({"tls_method": "helm"}, {"tls_method": "cronJob"}),
        "legacy with cluster": ({"auth_mode": "legacy"}, {"auth_mode": "cluster"}),
        "equal ids": ({}, {"cluster_id": 1}),
        "no id": ({"cluster_id": 0}, {}),
        "overlapping pools": ({"pod_cidr_pool": "10.0.0.0/8"}, {}),
        "native routing": ({"extra_config": {"routing-mode": "native"}}, {"extra_config": {"routing-mode": "native"}}),
        "IPsec in one": ({"extra_config": {"enable-ipsec": "true"}}, {}),
        "511 clusters in one": ({"max_connected_clusters": 511}, {}),
        "no users": ({"remote_users": False, "auth_mode": "cluster"}, {"auth_mode": "cluster"}),
        "leaves that end soon": ({"leaf_days": 3}, {}),
        LATE: ({"leaf_days": 3}, {}),
    }
    found = {}
    for name, (one, other) in pairs.items():
        with lab(cluster(1, **one), cluster(2, **other)) as made:
            if name == LATE:
                made.clock.sleep(5 * 86400)
            wanted = mesh(1, 2)
            found[name] = {
                "verify": made.step("mesh_verify", mesh=wanted, fail_on="never"),
                "look": made.dry_run(wanted),
                "connect": made.step("mesh_connect", mesh=wanted, wait_timeout=5),
                "status": made.step("mesh_status", mesh=wanted, expected="Connected"),
            }
    return found


def whole_course(made: Lab, wanted: Json, **options: Any) -> Json:
    """Run every action of the links, in the order in which a user would."""
    return {
        "facts": made.step("mesh_info"),
        "verify": made.step("mesh_verify", mesh=wanted, fail_on="never"),
        "look before": made.dry_run(wanted),
        "plan": made.step("mesh_plan", mesh=wanted, **options),
        "check": made.step("mesh_connect", mesh=wanted, check=True, diff=True, **options),
        "connect": made.step("mesh_connect", mesh=wanted, wait_timeout=5, **options),
        "status": made.step("mesh_status", mesh=wanted, expected="Connected"),
        "look": made.dry_run(wanted),
        "objects": made.objects(),
        "verify after": made.step("mesh_verify", mesh=wanted, purpose="disconnect"),
        "disconnect": made.step("mesh_connect", mesh=wanted, state="absent", diff=True),
    }


TOPOLOGIES: Final[Mapping[str, tuple[int, Json | None]]] = {
    "full mesh of 2": (2, None),
    "full mesh of 3": (3, None),
    "full mesh of 5": (5, {"mode": "FullMesh"}),
    "hub and spoke of 3": (3, {"mode": "HubAndSpoke", "hubs": ["c1"]}),
    "two hubs of 5": (5, {"mode": "HubAndSpoke", "hubs": ["c1", "c4"]}),
    "pairs of 3": (3, {"mode": "Pairs", "pairs": [["c1", "c2"]]}),
    "pairs of 5": (5, {"mode": "Pairs", "pairs": [["c1", "c2"], ["c2", "c3"], ["c5", "c4"]]}),
}
WITH_ONE_CA: Final = ("full mesh of 3", "two hubs of 5")


def topologies() -> dict[str, Any]:
    """Return a mesh of each topology, made, changed to another one, and taken apart."""
    found = {}
    for name, (count, topology) in TOPOLOGIES.items():
        wanted = mesh(*range(1, count + 1), topology=topology)
        for shared in (False, True) if name in WITH_ONE_CA else (False,):
            with lab(*(cluster(number) for number in range(1, count + 1)), shared_ca=shared) as made:
                if count < 4 and not shared:
                    course = whole_course(made, wanted)
                else:
                    course = {"connect": made.step("mesh_connect", mesh=wanted, wait_timeout=5), "look": made.dry_run(wanted)}
                    full = mesh(*range(1, count + 1))
                    course["as a full mesh"] = made.step("mesh_connect", mesh=full, wait_timeout=5)
                    course["back"] = made.step("mesh_connect", mesh=wanted, wait_timeout=5)
                    course["one leaves"] = made.step("mesh_connect", mesh=wanted, state="absent", clusters=["c2"], wait_timeout=5)
                found[f"{name}, {'one CA' if shared else 'own CAs'}"] = course
    return found


def _connected(made: Lab, *numbers: int, **options: Any) -> None:
    made.run("mesh_connect", mesh=mesh(*numbers), wait_timeout=5, **options)


def _edit(made: Lab, host: str, name: str, change: Callable[[Json], None], *, manager: str = "kubectl-edit") -> None:
    """Change an object as another writer would."""
    fake = made.world.clusters[host]
    path = next(path for path in fake.objects if path.endswith(name))
    before = {**(fake.objects[path].get("data") or {})}
    change(fake.objects[path])
    for key in {**before, **(fake.objects[path].get("data") or {})}:
        if before.get(key) != (fake.objects[path].get("data") or {}).get(key):
            fake.owners[path][key] = {manager}
    metadata = fake.objects[path]["metadata"]
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1000)


def troubles() -> dict[str, Any]:
    """Return runs in which something is wrong, is limited, or is asked for otherwise."""
    found: dict[str, Any] = {}
    for name, scenario in _TROUBLES.items():
        with lab(*(cluster(number) for number in (1, 2, 3))) as made:
            found[name] = [*scenario(made)]
    for method in ("helm", "cronJob", "provided"):
        new = {"extra_config": {"cluster-name": "default", "cluster-id": "0"}, "tls_method": method}
        with lab(cluster(1, **new), cluster(2), cluster(3)) as made:
            found[f"a cluster without a name, {method}"] = [*_new_names(made)]
    return found


def _silent_first(made: Lab) -> Iterable[Json]:
    made.silent = {"c3"}
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5, max_failures=1)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5, max_failures=0)
    yield {"look": made.dry_run(mesh(1, 2, 3))}
    made.silent = {"c1", "c2", "c3"}
    for action in ("mesh_verify", "mesh_plan", "mesh_connect", "mesh_status", "mesh_info", "mesh_identity", "mesh_ca", "mesh_adopt"):
        yield made.step(action, **({} if action == "mesh_info" else {"mesh": mesh(1, 2, 3)}))


def _silent_later(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3)
    made.silent = {"c3"}
    for action in ("mesh_verify", "mesh_plan", "mesh_connect", "mesh_status", "mesh_identity", "mesh_ca"):
        yield made.step(action, mesh=mesh(1, 2, 3))
    yield {"look": made.dry_run(mesh(1, 2, 3))}
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent", clusters=["c3"], wait_timeout=5)
    made.silent = set()
    yield made.step("mesh_verify", mesh=mesh(1, 2, 3))
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), take_back=["c3"], wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), take_back=["c9"])
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent")


def _unavailable(made: Lab) -> Iterable[Json]:
    made.away = {"c3": "Its Secret is gone."}
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    yield made.step("mesh_status", mesh=mesh(1, 2, 3))
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), max_failures=1, wait_timeout=5)


def _limited(made: Lab) -> Iterable[Json]:
    limits: Json = {"hosts": ["c1", "c2"], "limit": "c1,c2"}
    for action in ("mesh_verify", "mesh_plan", "mesh_connect", "mesh_status", "mesh_identity"):
        yield made.step(action, mesh=mesh(1, 2, 3), **limits)
    _connected(made, 1, 2, 3)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), **limits)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), hosts=["c1"], limit="c1")
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent", **limits)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), hosts=["c9"], limit="c9")
    yield made.step("mesh_verify", purpose="cluster", hosts=["c1"], limit="c1")


def _former(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3)
    yield made.step("mesh_verify", mesh=mesh(1, 2))
    yield made.step("mesh_plan", mesh=mesh(1, 2))
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)


def _refused(made: Lab) -> Iterable[Json]:
    made.refusing = {"c2"}
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    made.refusing = set()
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    made.refusing = {"c1", "c2"}
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent", max_failures=0)
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)


def _links_down(made: Lab) -> Iterable[Json]:
    made.ready = False
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=30)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait=False)
    yield made.step("mesh_status", mesh=mesh(1, 2, 3), expected="Connected")
    yield made.step("mesh_status", mesh=mesh(1, 2, 3), proof="none")


def _readers_mute(made: Lab) -> Iterable[Json]:
    made.mute = {"c1"}
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
    made.mute = {"c1", "c2"}
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5, proof="none")
    made.mute = set()
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)


def _packets_lost(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2)
    for path in NodePath:
        made.lost = {("c1", "c2"): path} if path is not NodePath.REACHED else {("c3", "c2"): path}
        yield made.step("mesh_status", mesh=mesh(1, 2))
    yield made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
    yield {"look": made.dry_run(mesh(1, 2))}


def _trust(made: Lab) -> Iterable[Json]:
    for trust in ("auto", "minted", "copied", "same_ca"):
        yield made.step("mesh_plan", mesh=mesh(1, 2, 3), trust=trust)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), trust="copied", wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), trust="minted", wait_timeout=5, certificate_days=20, renew_before_days=10)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), trust="minted", wait_timeout=5, certificate_days=400, renew_before_days=60)


def _repair(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3)

    def overwrite(obj: Json) -> None:
        text = b64decode(obj["data"]["c2"]).replace(b"c2.mesh.cilium.io", b"other.example.com")
        obj["data"]["c2"] = b64encode(text).decode()

    _edit(made, "c1", "/secrets/cilium-kvstoremesh", overwrite)
    for more in ({}, {"repair": True}):
        yield made.step("mesh_verify", mesh=mesh(1, 2, 3))
        yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5, diff=True, **more)

    def taken(obj: Json) -> None:
        del obj["data"]["c3"]

    _edit(made, "c2", "/secrets/cilium-kvstoremesh", taken, manager="argocd-controller")
    yield made.step("mesh_verify", mesh=mesh(1, 2, 3))
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)


def _approved(made: Lab) -> Iterable[Json]:
    planned = made.step("mesh_plan", mesh=mesh(1, 2, 3))
    yield planned
    plan = planned["mesh_result"]["plan"]
    yield made.step("mesh_apply", mesh=mesh(1, 2), hash=plan["hash"])
    yield made.step("mesh_apply", mesh=mesh(1, 2), plan=plan)
    yield made.step("mesh_apply", mesh=mesh(1, 2, 3), hash=plan["hash"], check=True)
    yield made.step("mesh_apply", mesh=mesh(1, 2, 3), plan=plan, wait_timeout=5)
    yield made.step("mesh_plan", mesh=mesh(1, 2, 3), purpose="disconnect", clusters=["c1"])
    off = made.step("mesh_plan", mesh=mesh(1, 2, 3), purpose="disconnect")
    yield off
    yield made.step("mesh_apply", mesh=mesh(1, 2, 3), purpose="disconnect", hash=off["mesh_result"]["plan"]["hash"])


def _leaving(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent", clusters=["c3"], wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent", clusters=["c2", "c3"], check=True, diff=True)
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent")
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3), state="absent")


def _identity(made: Lab) -> Iterable[Json]:
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3))
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), identity_policy="assign", check=True, diff=True)
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), identity_policy="assign")
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), identity_policy="assign", names={"c1": {"name": "other", "id": 9}})
    _connected(made, 1, 2, 3)
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3))
    yield made.step("mesh_identity", mesh=mesh(1, 2))


def _new_names(made: Lab) -> Iterable[Json]:
    assign: Json = {"identity_policy": "assign", "wait_timeout": 5}
    for verify in ({"identity_policy": "verify"}, {**assign, "names": {"c1": {"id": 2}}}, {**assign, "names": {"c1": {"name": "c2"}}}):
        yield made.step("mesh_identity", mesh=mesh(1, 2, 3), **verify)
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), check=True, diff=True, **assign)
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), wait=False, **assign)
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), **assign)
    yield made.step("mesh_verify", mesh=mesh(1, 2, 3), fail_on="never")
    made.silent = {"c2", "c3"}
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), **assign)


def _answers(made: Lab) -> Iterable[Json]:
    kinds = ("Unreachable", "CredentialsInvalid", "Forbidden", "ServerRefused", "ClusterError", "WriteConflict")
    for kind in kinds:
        made.failing = {"c2": kind}
        yield made.step("mesh_verify", mesh=mesh(1, 2, 3))
        yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
        yield made.step("mesh_status", mesh=mesh(1, 2, 3))
        made.failing = {"c2": f"write {kind}"}
        yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
    for kind in ("MissingLibrary", "no error of the engine"):
        made.failing = {"c2": kind}
        yield made.step("mesh_verify", mesh=mesh(1, 2, 3))


def _fabric(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3)
    chain = [{"name": "one", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}, {"name": "two", "clusterRefs": ["c2", "c3"]}]
    yield made.step("mesh_fabric", fabric={"name": "europe", "bindings": chain}, expected="Connected")
    known = {"phase": "Degraded", "meshStatus": [{"clusterName": "x1", "connected": False}], "links": [], "conditions": []}
    far = {"name": "europe", "bindings": [chain[0], {"name": "far"}]}
    yield made.step("mesh_fabric", fabric=far, statuses={"far": {"status": {"binding": known}}})
    stale = {**known, "lastSyncTime": "2026-08-01T00:00:00Z"}
    yield made.step("mesh_fabric", fabric=far, statuses={"far": stale}, expected="Connected")
    made.silent = {"c2"}
    yield made.step("mesh_fabric", fabric={"name": "europe", "bindings": chain}, expected="Connected")
    made.silent = set()
    clash = [{"name": "one", "clusterRefs": ["c1", "c2"]}, {"name": "two", "clusterRefs": ["c2", "c3"]}]
    _edit(made, "c3", "/configmaps/cilium-config", lambda obj: obj["data"].update({"cluster-name": "c1"}))
    yield made.step("mesh_fabric", fabric={"name": "europe", "bindings": clash})
    yield made.step("mesh_fabric", fabric={"name": "europe", "bindings": [{}]})
    yield made.step("mesh_fabric", fabric=far, statuses={"near": known})


def _options(made: Lab) -> Iterable[Json]:
    wrong: list[tuple[str, Json]] = [
        ("mesh_connect", {"clusters": ["c1"]}),
        ("mesh_connect", {"state": "absent", "clusters": ["c9"]}),
        ("mesh_connect", {"state": "gone"}),
        ("mesh_connect", {"accept": ["CM-NONE-77"]}),
        ("mesh_connect", {"accept": ["CM-INST-01"]}),
        ("mesh_connect", {"trust": "blind"}),
        ("mesh_connect", {"wait_timeout": "soon"}),
        ("mesh_connect", {"timeout": 3}),
        ("mesh_connect", {"parallel": 0}),
        ("mesh_connect", {"max_failures": -1}),
        ("mesh_connect", {"certificate_days": 0}),
        ("mesh_verify", {"probe_timeout": 0}),
        ("mesh_verify", {"purpose": "fun"}),
        ("mesh_apply", {}),
        ("mesh_apply", {"hash": "abc"}),
        ("mesh_apply", {"plan": {"steps": []}}),
        ("mesh_identity", {"quarantine_hours": -1}),
        ("mesh_identity", {"names": {"c1": 7}}),
        ("mesh_ca", {"state": "rolled", "clusters": ["c9"]}),
        ("mesh_ca", {"state": "shared"}),
        ("mesh_ca", {"state": "shared", "source": "c9"}),
        ("mesh_ca", {"state": "rolled", "confirm": "another"}),
        ("mesh_ca", {"stage": "never"}),
        ("mesh_items", {"hash": "abc"}),
        ("mesh_explain", {}),
        ("mesh_explain", {"source": {}, "target": {}, "port": "x"}),
    ]
    for action, options in wrong:
        yield made.step(action, mesh=mesh(1, 2, 3), **options)


def _drifting(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3)

    def renumber(obj: Json) -> None:
        obj["data"]["cluster-id"] = "77"

    _edit(made, "c2", "/configmaps/cilium-config", renumber)
    yield made.step("mesh_verify", mesh=mesh(1, 2, 3))
    yield made.step("mesh_connect", mesh=mesh(1, 2, 3))
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), identity_policy="assign")

    def unset(obj: Json) -> None:
        obj["data"].pop("cluster-id")
        obj["data"]["cluster-name"] = "default"

    _edit(made, "c2", "/configmaps/cilium-config", unset)
    yield made.step("mesh_identity", mesh=mesh(1, 2, 3), identity_policy="assign")


def _old(made: Lab) -> Iterable[Json]:
    _connected(made, 1, 2, 3, certificate_days=40)
    for days in (5, 20, 30):
        made.clock.now = made.clock.start
        made.clock.sleep(days * 86400)
        yield made.step("mesh_verify", mesh=mesh(1, 2, 3))
        yield made.step("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)


_TROUBLES: Final[Mapping[str, Callable[[Lab], Iterable[Json]]]] = {
    "a member is silent from the start": _silent_first,
    "a member dies and comes back": _silent_later,
    "a member is known to be away": _unavailable,
    "a limit": _limited,
    "a cluster that is no member any more": _former,
    "a cluster refuses to be written": _refused,
    "links that do not come up": _links_down,
    "readers that cannot be asked": _readers_mute,
    "packets that are lost between nodes": _packets_lost,
    "ways of trust": _trust,
    "keys that another writer changed": _repair,
    "a plan that is approved": _approved,
    "clusters that leave": _leaving,
    "names and ids": _identity,
    "a fabric": _fabric,
    "answers of API servers": _answers,
    "options that mean nothing": _options,
    "a cluster that was renumbered": _drifting,
    "certificates grow old": _old,
}
