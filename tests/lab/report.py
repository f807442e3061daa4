# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What `status` says: as data, and as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.cluster import LabCluster
    from tests.lab.pods import PodRunner
    from tests.lab.supervisor import Supervisor

Object = dict[str, Any]
_PLAYED = "kubelets, load balancer, datapath; the agents' answers come from real etcd connections"
_PLAYED_BESIDE_AGENTS = "kubelets, cilium-operator, load balancer of the mesh endpoint, flows and targets of probes"


def status(lab: Supervisor) -> Object:
    """The whole lab. Process ids are those that the machine uses, not the lab's own."""
    pids = machine_pids()
    return {
        "name": lab.options.name,
        "state": lab.state,
        "pid": int(os.readlink("/proc/self")),
        "network": f"127.{lab.lab}.0.0/16",
        "folder": str(lab.folder),
        "kubeconfig": str(lab.folder / "kubeconfig.yaml"),
        "kubeconfigs": str(lab.folder / "kubeconfigs"),
        "clusters": [_cluster(lab, cluster, pids) for cluster in lab.clusters.values()],
        "karmada": lab.karmada.status(pids) if lab.karmada else None,
        "faults": [
            {"source": link.source, "target": link.target, "faults": link.faults()} for link in lab.hub.links.values() if link.faults()
        ],
        "troubles": [*lab.hub.troubles, *(trouble for cluster in lab.clusters.values() for trouble in cluster_troubles(cluster))],
    }


def _cluster(lab: Supervisor, cluster: LabCluster, pids: dict[int, int]) -> Object:
    options = cluster.options
    runners = sorted(cluster.kubelet.runners.values(), key=lambda runner: str(runner.pod["metadata"]["name"])) if cluster.kubelet else []
    played = [_PLAYED_BESIDE_AGENTS if cluster.systems else _PLAYED]
    for runner in runners:
        played += [*runner.changes, *filter(None, runner.files.played.values())]
    return {
        "name": options.name,
        "ciliumName": options.cilium_name,
        "clusterId": options.cluster_id,
        "cilium": cluster.profile.version if cluster.profile else options.cilium,
        "binary": lab.binary_version,
        "agents": "real" if cluster.systems else "stand-in",
        "kvstoremesh": options.kvstoremesh,
        "authMode": cluster.profile.mode if cluster.profile else options.auth_mode,
        "service": options.service,
        "configEnabled": cluster.profile.config_enabled if cluster.profile else options.config_enabled,
        "server": cluster.addresses.api_url,
        "kubeconfig": str(cluster.files.kubeconfig),
        "nodes": {node.name: node.address for node in cluster.nodes},
        "killed": cluster.killed,
        "endpoints": sorted({f"{door.address}:{door.port}" for door in lab.hub.doors(options.name) if door.everywhere}),
        "servers": {
            process.name: pids.get(process.pid, process.pid)
            for process in (cluster.control_plane.processes if cluster.control_plane else [])
            if process.returncode is None
        },
        "pods": [_pod(runner, pids) for runner in runners],
        "played": list(dict.fromkeys(played)),
    }


def _pod(runner: PodRunner, pids: dict[int, int]) -> Object:
    metadata = runner.pod["metadata"]
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "node": runner.around.node,
        "ip": runner.around.pod_ip,
        "ready": runner.ready,
        "real": runner.real,
        "restarts": sum(state.restarts for state in runner.containers),
        "processes": {name: pids.get(process.pid, process.pid) for name, process in runner.processes.items() if process.returncode is None},
        "waitsFor": runner.waits_for,
    }


def cluster_troubles(cluster: LabCluster) -> list[str]:
    """What went wrong in the lab itself, as opposed to the faults that a test asked for."""
    found = list(cluster.troubles)
    if cluster.kubelet:
        found += cluster.kubelet.troubles
        found += [trouble for runner in cluster.kubelet.runners.values() for trouble in runner.troubles]
    return [f"{cluster.options.name}: {trouble}" for trouble in found]


def machine_pids() -> dict[int, int]:
    """Own children: id in the lab's process id namespace to id on the machine. /proc is the machine's."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            children = (task / "children").read_text(encoding="ascii").split()
        except OSError:  # the thread ended, or the kernel has no such file
            continue
        for child in children:
            try:
                lines = Path(f"/proc/{child}/status").read_text(encoding="utf-8").splitlines()
            except OSError:
                continue
            inner = next((line.split()[-1] for line in lines if line.startswith("NSpid:")), child)
            found[int(inner)] = int(child)
    return found


def text(found: Object) -> str:
    """The status for people."""
    lines = [f"lab {found['name']}: {found['state']}, {found['network']}, supervisor {found['pid']}", f"kubeconfig {found['kubeconfig']}"]
    head = ("CLUSTER", "ID", "CILIUM", "BINARY", "KVSTOREMESH", "AUTH", "SERVER", "ENDPOINTS", "MESH PODS")
    rows = [head, *(_row(cluster) for cluster in found["clusters"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if found["karmada"]:
        karmada = found["karmada"]
        states = {
            **dict.fromkeys(karmada["servers"], "runs"),
            **dict.fromkeys(karmada["frozen"], "frozen"),
            **dict.fromkeys(karmada["dead"], "dead"),
        }
        lines.append(
            f"karmada {karmada['server'].removeprefix('https://')}: {', '.join(f'{part} {state}' for part, state in states.items())}"
        )
    lines += [f"fault: {fault['source']} -> {fault['target']}: {', '.join(fault['faults'])}" for fault in found["faults"]]
    for cluster in found["clusters"]:
        lines += [f"played in {cluster['name']}: {played}" for played in cluster["played"]]
    return "\n".join(lines + [f"trouble: {trouble}" for trouble in found["troubles"]])


def _row(cluster: Object) -> tuple[str, ...]:
    mesh = [pod for pod in cluster["pods"] if pod["real"]]
    state = "killed" if cluster["killed"] else f"{sum(pod['ready'] for pod in mesh)}/{len(mesh)} ready"
    return (
        cluster["name"],
        str(cluster["clusterId"]),
        cluster["cilium"],
        cluster["binary"],
        "on" if cluster["kvstoremesh"] else "off",
        str(cluster["authMode"]),
        cluster["server"].removeprefix("https://"),
        ",".join(cluster["endpoints"]) or "-",
        state,
    )
