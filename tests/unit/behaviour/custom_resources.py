# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the operator: from custom resources to what a play is given, and from results to the statuses of custom resources."""

from __future__ import annotations

from typing import Any

from mesh_operator.meshes.records import Record
from tests.testing.crd_statuses import statuses
from tests.unit.operator.test_request import KEY, recorded, usable, waiting

from .adapter import Json, as_run_result, fabric_status, held_status, next_write, operator_request, plain, status, still
from .traffic import EXPOSURES, INTENTS, NGINX, SERVICES

LISTED = {"GlobalService": "globalServices", "ConnectivityIntent": "connectivityIntents", "ExposedService": "exposedServices"}
KINDS = ("ClusterMeshBinding", *LISTED)
FINDINGS: dict[str, list[Json]] = {
    "nothing": [],
    "blocked": [{"code": "CM-CIDR-01", "severity": "blocking", "cluster": "c1", "summary": "pod networks overlap", "accepted": False}],
    "accepted": [{"code": "CM-CIDR-01", "severity": "blocking", "cluster": "c1", "summary": "pod networks overlap", "accepted": True}],
    "broke off": [{"code": "CM-ERR-00", "severity": "blocking", "cluster": "", "summary": "The run ended"}],
    "of an item": [{"code": "CM-ITEM-01", "severity": "blocking", "cluster": "", "summary": "wrong", "item": "globalServices/x"}],
    "advice": [{"code": "CM-CFG-01", "severity": "advisory", "cluster": "c1", "summary": "differs"}],
}


def written() -> dict[str, Any]:
    """Return every status of the engine, and what the operator makes of it."""
    with still() as clock:
        found: dict[str, Any] = {f"{made.kind}: {made.about}": made.status for made in statuses()}
        before = next(made.status for made in statuses() if made.about == "operator, run: connected")
        for kind in KINDS:
            for name, findings in FINDINGS.items():
                for word, earlier in (("", None), (", after Connected", before)):
                    result = {"status": {}, "findings": findings}
                    found[f"{kind}, {name}{word}"] = status(kind, "x", result, clock.now, earlier)
            for reason, phase in (("MeshNotFound", "Error"), ("ClusterNotReady", "Pending"), ("CiliumNotReady", "Error")):
                for standing in (True, False):
                    for word, earlier in (("", None), (", after Connected", before)):
                        name = f"{kind}, held by {reason}, {'standing' if standing else 'new'}{word}"
                        found[name] = held_status(kind, reason, "c1 is not ready", phase=phase, standing=standing, before=earlier)
        found["mesh_result of nothing"] = as_run_result({}, {})
        run = {"changed": True, "findings": FINDINGS["blocked"], "plan": {"hash": "a" * 64, "steps": [{"wave": 1}]}, "requeue_seconds": 15}
        for name, options in (("both", {}), ("whole", {"whole": True})):
            found[f"mesh_result, {name}"] = as_run_result(run, {**run, "findings": FINDINGS["of an item"]}, **options)
            found[f"mesh_result of links, {name}"] = as_run_result(run, {}, **options)
        found["Fabric of nothing"] = fabric_status({})
        found["Fabric of one, and of one that is gone"] = fabric_status({"one": before, "gone": None})
        after = {**before, "phase": "Degraded", "lastSyncTime": "2026-09-01T12:30:00Z"}
        for seconds in (1, 1000):
            found[f"a write after {seconds} s, equal"] = next_write(before, before, seconds)
            found[f"a write after {seconds} s"] = next_write(before, after, seconds)
            found[f"the way back after {seconds} s"] = next_write(
                after, {key: value for key, value in before.items() if key != "links"}, seconds
            )
    return plain(found)  # type: ignore[no-any-return]  # it comes from JSON


def requests() -> dict[str, Any]:
    """Return what the operator gives its play."""
    binding = {"clusterRefs": [{"name": "ffm"}, {"name": "ber"}], "meshConfig": {"serviceType": "NodePort"}}
    both = usable("ffm", "ber")
    cases: dict[str, tuple[Json | None, Any, Record | None]] = {
        "all usable": (binding, both, None),
        "one waits": (binding, {**usable("ffm"), **waiting("ber")}, None),
        "one is beyond help": (binding, {**usable("ffm"), **waiting("ber", fatal=True)}, None),
        "one waits, carried out before": (binding, {**usable("ffm"), **waiting("ber")}, recorded()),
        "one is unknown": (binding, usable("ffm"), None),
        "one left": (binding, usable("ffm", "ber", "muc"), recorded("ffm", "ber", "muc")),
        "taken away before": (binding, both, recorded(tombstone=True)),
        "no binding": (None, both, None),
        "topology": ({**binding, "topology": {"mode": "HubAndSpoke", "hubs": ["ffm"]}}, both, None),
    }
    found: dict[str, Any] = {"owner": KEY.name}
    with still():
        for name, (spec, clusters, record) in cases.items():
            for word, items in (("", False), (" and items", True)):
                services = {f"s{n}": {"selector": NGINX, **entry} for n, entry in enumerate(SERVICES.values())} if items else {}
                intents = {f"i{n}": dict(entry) for n, entry in enumerate(INTENTS.values())} if items else {}
                exposures = {f"e{n}": dict(entry) for n, entry in enumerate(EXPOSURES.values())} if items else {}
                found[f"{name}{word}"] = operator_request(spec, services, intents, exposures, clusters, record)
    return plain(found)  # type: ignore[no-any-return]  # it comes from JSON
