# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Results of meshes of a given size, with rows as the engine makes them (services/status.py, policies/status.py, status/links.py)."""

from __future__ import annotations

from typing import Any

TIME = "2026-11-01T00:00:00Z"


def members(clusters: int) -> list[str]:
    """Return names of clusters."""
    return [f"cluster-{number:03}" for number in range(clusters)]


def condition(kind: str, message: str = "") -> dict[str, str]:
    """Return a condition that holds."""
    return {"type": kind, "status": "True", "reason": "AsAsked", "message": message, "lastTransitionTime": TIME}


def service(name: str, clusters: int) -> dict[str, Any]:
    """Return the row of a GlobalService: 23 KiB for 64 clusters."""
    hosts = members(clusters)
    count = {"endpoints": 3, "ready": True, "readyEndpoints": 3, "backend": "Annotations", "agentsReady": 10, "agentsTotal": 10}
    used = {"usable": True, "localReadyEndpoints": 3, "remoteReadyEndpoints": 3 * clusters, "stub": False, "affinity": "none"}
    return {
        "name": name,
        "phase": "Exported",
        "observedGeneration": 1,
        "lastSyncTime": TIME,
        "exportedClusters": hosts,
        "endpointSummary": [{"clusterName": host, **count, "shared": True, "affinity": "none"} for host in hosts],
        "consumers": [{"clusterName": host, **used} for host in hosts],
        "conditions": [condition("Accepted"), condition("Exported", f"exported by {', '.join(hosts)}"), condition("Ready")],
    }


def intent(name: str, clusters: int) -> dict[str, Any]:
    """Return the row of a ConnectivityIntent: 10 KiB for 64 clusters."""
    hosts = members(clusters)
    policy = {"kind": "CiliumNetworkPolicy", "namespace": "shop", "name": f"edge-{name}-abcdef"}
    return {
        "name": name,
        "phase": "Applied",
        "observedGeneration": 1,
        "lastSyncTime": TIME,
        "appliedClusters": hosts,
        "policies": [{"clusterName": host, **policy} for host in hosts],
        "conditions": [condition("Accepted"), condition("Applied", f"the policy is in force in {', '.join(hosts)}"), condition("Ready")],
    }


def workload(name: str, clusters: int) -> dict[str, Any]:
    """Return the row of a FleetWorkload (fleet/status.py): 8 KiB for 64 clusters."""
    types = ("Accepted", "Scheduled", "Applied", "Available", "Progressing", "Degraded", "ClustersFound", "Ready")
    parts = [{"name": host, "desiredReplicas": 3, "readyReplicas": 3, "phase": "Ready", "revision": 3} for host in members(clusters)]
    revisions = [{"number": number, "hash": f"{number:064}", "createdAt": TIME} for number in range(1, 6)]
    numbers = {"currentRevision": 5, "updatedRevision": 5, "revisions": revisions}
    status = {"phase": "Available", "clusters": parts, **numbers, "conditions": [condition(kind) for kind in types]}
    return {"name": name, "status": status}


def fleet(workloads: int, clusters: int) -> dict[str, Any]:
    """Return the result of a fleet with 2,000 findings about its workloads."""
    texts = {"severity": "advisory", "summary": "x" * 200, "fix": "do this\nand that", "anchor": "CM-FLT-01"}
    findings = [{"code": "CM-FLT-01", "item": f"fleetWorkloads/w{number % max(1, workloads)}", **texts} for number in range(2000)]
    rows = [workload(f"w{number}", clusters) for number in range(workloads)]
    return {"findings": findings, "workloads": rows, "leaving": [], "global_services": [], "revisions": []}


def binding(clusters: int) -> dict[str, Any]:
    """Return the status of a binding with all its links."""
    hosts = members(clusters)
    links = [{"from": a, "to": b, "ready": True, "nodes": 10, "readyNodes": 10} for a in hosts for b in hosts if a != b]
    return {"phase": "Connected", "lastSyncTime": TIME, "links": links, "conditions": [condition("Ready")]}


def result(services: int, intents: int, clusters: int) -> dict[str, Any]:
    """Return a result with 2,000 findings, most of which are about items."""
    texts = {"summary": "x" * 200, "fix": "do this\nand that", "anchor": "CM-GS-12", "cluster": "cluster-001"}
    rows = {
        "globalServices": [service(f"s{number}", clusters) for number in range(services)],
        "connectivityIntents": [intent(f"i{number}", clusters) for number in range(intents)],
    }
    names = ["", *(f"{kind}/{row['name']}" for kind, listed in rows.items() for row in listed)]
    findings = [{"code": "CM-GS-12", "severity": "advisory", "item": names[number % len(names)], **texts} for number in range(2000)]
    return {"status": {"binding": binding(clusters), **rows}, "findings": [], "advice": findings, "requeueSeconds": 300}


def asked(found: dict[str, Any]) -> dict[str, Any]:
    """Return the variable ``cilium_mesh`` that asks for the items of a result."""
    return {kind: [{"name": row["name"], "generation": 1} for row in rows] for kind, rows in found["status"].items() if kind != "binding"}
