# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The demo Service of the failover walk-through, and the backends of it that agents list."""

from __future__ import annotations

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.testing.waiting import equals, wait_for

NAME = "nginx-deployment"
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{NAME}"
SERVICE = f"/api/v1/namespaces/default/services/{NAME}"
LABELS = {"app": "nginx"}


def demo(lab: MeshLab) -> None:
    """The Deployment and the Service of the walk-through, two replicas in each cluster; the Service without annotations."""
    container = {"name": "nginx", "image": "nginx:1.16.1", "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
    metadata = {"name": NAME, "namespace": "default", "labels": LABELS}
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    for cluster in lab.names:
        lab.api(cluster).create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        service = {"type": "LoadBalancer", "ports": ports, "selector": LABELS}
        lab.api(cluster).create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})


def scale(lab: MeshLab, cluster: str, replicas: int) -> None:
    """Until that many endpoints are ready."""
    lab.api(cluster).patch(DEPLOYMENT, {"spec": {"replicas": replicas}})
    wait_for(lambda: ready(lab, cluster), equals(replicas), what=f"{cluster} has {replicas} ready endpoints")


def ready(lab: MeshLab, cluster: str) -> int:
    found = lab.api(cluster).list(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", label_selector=f"kubernetes.io/service-name={NAME}"
    )
    return sum(endpoint["conditions"].get("ready") is True for entry in found for endpoint in entry.get("endpoints") or [])


def agent(lab: MeshLab, cluster: str, *command: str) -> str:
    """What an agent's own CLI prints."""
    pods = lab.api(cluster).list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=cilium")
    access = ClusterAccess(host=cluster, kubeconfig=str(lab.lab.clusters[cluster].kubeconfig), context=None)
    with open_cluster(access) as client:
        answer = client.exec(pods[0]["metadata"]["name"], "cilium-agent", ["cilium", *command])
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout


def backends(lab: MeshLab, cluster: str, service: str = SERVICE, *, affinity: bool = True) -> dict[str, int]:
    """How many backends of port 80 of a Service are listed, by cluster (10.N.0.0/16) and mark: ``{"c1 preferred": 2, "c2": 2}``.

    :param service: its API path.
    :param affinity: whether they are listed with the marks.
    """
    address = (lab.api(cluster).get(service) or {})["spec"]["clusterIP"]
    found: dict[str, int] = {}
    own = False
    for line in agent(lab, cluster, "service", "list", *(["--clustermesh-affinity"] if affinity else [])).splitlines()[1:]:
        own = line.split()[1].startswith(f"{address}:80") if line[:1].isdigit() else own
        if own and " => " in line:
            words = line.partition(" => ")[2].split()
            key = f"c{words[0].split('.')[1]}" + (" preferred" if "(preferred)" in words else "")
            found[key] = found.get(key, 0) + 1
    return found


def wait_for_backends(lab: MeshLab, cluster: str, wanted: dict[str, int]) -> None:
    wait_for(lambda: backends(lab, cluster), equals(wanted), what=f"agents of {cluster} list the right backends")
