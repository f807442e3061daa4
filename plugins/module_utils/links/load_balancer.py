# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Load balancer that the platform reserved for a cluster's mesh endpoint: one annotation on Service clustermesh-apiserver. Pure.

On Open Telekom Cloud the cloud provider of Cloud Container Engine binds a Service of type LoadBalancer to the Elastic Load Balancer whose
id stands in ``kubernetes.io/elb.id``. It reads the id when it binds the Service; a bound Service stays with its load balancer
until it is created anew. With ``kubernetes.io/elb.autocreate`` beside it the load balancer counts as made for the Service, and is deleted
with it: the two are never put together here (CCE user guide, "Configuring LoadBalancer Services Using Annotations").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from ..mesh.endpoints.endpoint import EndpointProblem
from ..mesh.facts.cluster import ClusterFacts, ServiceFacts
from ..plan.steps import ApiWrite, Step

ELB_ID: Final = "kubernetes.io/elb.id"
ELB_AUTOCREATE: Final = "kubernetes.io/elb.autocreate"
CONNECT_WAVE: Final = 0  # early: the load balancer takes its time, and nothing else waits for it
DISCONNECT_WAVE: Final = 4  # last: no peer dials the address any more

_SERVICE: Final = "clustermesh-apiserver"


def elb_steps(binding: Binding, clusters: Iterable[ClusterFacts]) -> list[Step]:
    """Return the steps that set the annotation in every cluster that has a load balancer id and whose Service lacks it."""
    found = []
    for cluster in clusters:
        service = cluster.service
        if service is None or not cluster.elb_id or service.type != "LoadBalancer" or bound_elsewhere(cluster, binding.manager):
            continue
        owners = service.annotation_managers.get(ELB_ID, ())
        # Each of several bindings owns the annotation too, so that the one that withdraws first does not remove it for the rest.
        if service.annotations.get(ELB_ID) == cluster.elb_id and (binding.manager in owners or not _bindings_only(owners)):
            continue
        found.append(_step(cluster, service, {ELB_ID: cluster.elb_id}, CONNECT_WAVE))
    return found


def elb_withdrawal(binding: Binding, cluster: ClusterFacts) -> list[Step]:
    """Return the step that removes the annotation where this binding set it."""
    service = cluster.service
    if service is None or binding.manager not in service.annotation_managers.get(ELB_ID, ()):
        return []
    return [_step(cluster, service, {}, DISCONNECT_WAVE)]


def bound_elsewhere(cluster: ClusterFacts, manager: str) -> str:
    """Return the annotation that binds the Service elsewhere, if it is not ``elb_id`` and not this binding's to change; "" otherwise."""
    service = cluster.service
    if service is None or not cluster.elb_id:
        return ""
    if ELB_AUTOCREATE in service.annotations:
        return ELB_AUTOCREATE
    foreign = service.annotation_managers.get(ELB_ID, ()) != (manager,)
    return ELB_ID if ELB_ID in service.annotations and service.annotations[ELB_ID] != cluster.elb_id and foreign else ""


def endpoint_finding(host: str, problem: EndpointProblem) -> Finding:
    """Return the finding that a cluster cannot be dialled.

    One that waits for its own load balancer does not keep the others from being linked.
    """
    code = "CM-ELB-03" if problem.pending else "CM-EP-02"
    return finding(code, cluster=host, summary=f"{host}: {problem.summary}", evidence=problem.evidence, fix=problem.fix)


def awaiting_address(findings: Iterable[Finding], dialled: Iterable[str]) -> frozenset[str]:
    """Return clusters whose load balancer has no address and that no peer dials yet: no link with them becomes ready in this run.

    :param dialled: inventory names of the peers of all links that were planned.
    """
    return frozenset(finding.cluster for finding in findings if finding.code == "CM-ELB-03") - set(dialled)


def _bindings_only(managers: Iterable[str]) -> bool:
    every = tuple(managers)
    return bool(every) and all(manager.startswith(f"{MANAGER_DOMAIN}/") for manager in every)


def _step(cluster: ClusterFacts, service: ServiceFacts, annotations: dict[str, str], wave: int) -> Step:
    """Return the server-side apply of the one field, or of none, which removes it.

    The uid keeps the apply from creating a Service that is gone.
    """
    metadata: dict[str, Any] = {"name": _SERVICE, "namespace": cluster.namespace}
    if service.uid:
        metadata["uid"] = service.uid
    if annotations:
        metadata["annotations"] = annotations
    before = service.annotations.get(ELB_ID, "")
    moved = (
        "a Service that is bound to a load balancer stays with it until the Service is made anew" if before or service.ingress_ips else ""
    )
    return Step(
        wave=wave,
        cluster=cluster.host,
        verb="apply",
        object=f"Service {cluster.namespace}/{_SERVICE}",
        why=f"use the load balancer {cluster.elb_id} that is reserved for this cluster (cilium_mesh_elb_id)"
        if annotations
        else f"remove the annotation {ELB_ID}",
        disruption=moved if annotations else "the cloud provider may end the load balancer's listener for this Service",
        undo="playbook edge_portal.cilium_mesh.disconnect removes the annotation"
        if annotations
        else "playbook edge_portal.cilium_mesh.connect writes the annotation again",
        action=ApiWrite(
            method="apply",
            path=f"/api/v1/namespaces/{cluster.namespace}/services/{_SERVICE}",
            body={"apiVersion": "v1", "kind": "Service", "metadata": metadata},
        ),
    )
