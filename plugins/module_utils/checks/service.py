# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that connections to the Service clustermesh-apiserver arrive at a pod, also through a reserved load balancer."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.wording import helm, kubectl, lines, listed, show, where
from ..links.load_balancer import ELB_AUTOCREATE, ELB_ID, bound_elsewhere
from ..mesh.endpoints.addresses import canonical_ip, is_ip
from ..mesh.endpoints.endpoint import EndpointProblem, MeshEndpoint
from ..mesh.facts.cluster import ClusterFacts, NodeFacts
from .context import CheckContext
from .flaw import Flaw
from .registry import check

_SERVICE = "clustermesh-apiserver"
_HELM_VALUE = r"clustermesh.apiserver.service.annotations.kubernetes\.io/elb\.id"

SERVICE = "clustermesh-apiserver"


def _is_local(facts: ClusterFacts) -> bool:
    """Return whether the Service is reached over nodes and has externalTrafficPolicy Local."""
    service = facts.service
    return service is not None and service.type in ("NodePort", "LoadBalancer") and service.external_traffic_policy == "Local"


def _pod_nodes(facts: ClusterFacts) -> set[str]:
    """Return the names of nodes with a ready pod of clustermesh-apiserver."""
    return {pod.node for pod in facts.apiserver_pods if pod.ready and pod.node}


def _addresses(node: NodeFacts) -> set[str]:
    """Return the addresses of the node in canonical form."""
    return {canonical_ip(ip) for ip in (*node.internal_ips, *node.external_ips) if is_ip(ip)}


@check("CM-SVC-01")
def dialled_nodes_run_the_apiserver(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report dialled nodes of which none runs clustermesh-apiserver.

    With externalTrafficPolicy Local only nodes with a ready pod answer (Kubernetes, "Traffic policies").
    """
    endpoint = context.decisions.endpoints[facts.host]
    if not _is_local(facts) or not isinstance(endpoint, MeshEndpoint) or not _pod_nodes(facts):
        return
    dialled = [node.name for node in facts.nodes if not _addresses(node).isdisjoint(endpoint.ips)]
    if not dialled or not _pod_nodes(facts).isdisjoint(dialled):
        return
    yield Flaw(
        summary=f"Peers dial {listed(dialled)} of {facts.host}, and clustermesh-apiserver runs on {listed(sorted(_pod_nodes(facts)))}: "
        "none of these nodes answers",
        evidence=f"{where(facts, 'Service', SERVICE)}: externalTrafficPolicy = Local; dialled: {listed(endpoint.ips)}",
        fix=helm(facts, "clustermesh.apiserver.service.externalTrafficPolicy=Cluster"),
    )


@check("CM-SVC-02")
def all_nodes_answer(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a Service with externalTrafficPolicy Local, which only nodes with a pod answer."""
    if not _is_local(facts) or facts.service is None:
        return
    balancer = facts.service.type == "LoadBalancer"
    yield Flaw(
        summary=f"Only nodes of {facts.host} that run a pod of clustermesh-apiserver answer its peers"
        + (": its load balancer has to follow the health check" if balancer else ", and the pod can move"),
        evidence=f"{where(facts, 'Service', SERVICE)}: type {facts.service.type}, externalTrafficPolicy = Local; "
        f"pods on {listed(sorted(_pod_nodes(facts))) or 'no node'}",
        fix=helm(facts, "clustermesh.apiserver.service.externalTrafficPolicy=Cluster"),
    )


@check("CM-SVC-03")
def service_selects_apiserver_pods(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a Service whose selector matches no pod of clustermesh-apiserver.

    A Service without selector may have EndpointSlices of another writer, so it is not reported.
    """
    if facts.service is None or facts.apiserver is None or not facts.service.selector or not facts.apiserver.pod_labels:
        return
    wrong = {k: v for k, v in facts.service.selector.items() if facts.apiserver.pod_labels.get(k) != v}
    if not wrong:
        return
    yield Flaw(
        summary=f"Service {SERVICE} of {facts.host} selects none of the pods of Deployment {SERVICE}",
        evidence=f"{where(facts, 'Service', SERVICE)}: the selector asks for {listed(show(f'{k}={v}') for k, v in wrong.items())}, "
        "which the pod template does not have",
        fix=lines(
            "Set the selector that the chart gives it:", kubectl(facts, "patch", "service", SERVICE, "--type=json", f"--patch={_PATCH}")
        ),
    )


_PATCH = '[{"op":"replace","path":"/spec/selector","value":{"k8s-app":"clustermesh-apiserver"}}]'


@check("CM-SVC-04")
def replicas_have_session_affinity(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report several replicas of clustermesh-apiserver without session affinity.

    Every replica has an etcd of its own; a client that reaches another replica reads everything again (values.yaml, since 1.16).
    """
    if facts.service is None or facts.apiserver is None or facts.apiserver.desired < 2 or facts.service.session_affinity == "ClientIP":
        return
    yield Flaw(
        summary=f"clustermesh-apiserver of {facts.host} has {facts.apiserver.desired} replicas, each with an etcd of its own, and "
        "clients change between them: each time they read everything anew",
        evidence=f"{where(facts, 'Service', SERVICE)}: sessionAffinity = {show(facts.service.session_affinity)}",
        fix=lines(
            helm(facts, "clustermesh.apiserver.service.enableSessionAffinity=HAOnly"),
            "Where the load balancer has no such affinity: --set clustermesh.apiserver.replicas=1.",
        ),
    )


@check("CM-ELB-01")
def service_uses_reserved_load_balancer(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a Service that is bound to another load balancer than the reserved one."""
    held = bound_elsewhere(facts, context.mesh.binding.manager)
    if not held or facts.service is None:
        return
    value = facts.service.annotations.get(held, "")
    managers = facts.service.annotation_managers.get(held, ())
    what = f"asks for a load balancer of its own ({held})" if held == ELB_AUTOCREATE else f"names the load balancer {show(value)}"
    yield Flaw(
        summary=f"Service {_SERVICE} of {facts.host} {what}, not {facts.elb_id}, which is reserved for it; it is not overwritten",
        evidence=f"{where(facts, 'Service', _SERVICE)}: annotation {held} = {show(value)}, field managers "
        f"{listed(show(m) for m in managers) or 'none recorded'}; cilium_mesh_elb_id = {facts.elb_id}",
        fix=lines(
            "Set the id where the Service is declared, and let the Service be made anew: one that is bound keeps its load balancer.",
            kubectl(facts, "delete", "service", _SERVICE),
            helm(facts, f"{_HELM_VALUE}={facts.elb_id}"),
            "Or correct cilium_mesh_elb_id of this host.",
        ),
    )


@check("CM-ELB-02")
def service_type_is_load_balancer(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a reserved load balancer that the Service cannot use because of its type."""
    if facts.service is None or not facts.elb_id or facts.service.type == "LoadBalancer":
        return
    yield Flaw(
        summary=f"A load balancer is reserved for {facts.host}, but its Service {_SERVICE} is of type {show(facts.service.type)}",
        evidence=f"{where(facts, 'Service', _SERVICE)}: spec.type = {show(facts.service.type)}; cilium_mesh_elb_id = {facts.elb_id}",
        fix=lines(helm(facts, "clustermesh.apiserver.service.type=LoadBalancer"), "Or take cilium_mesh_elb_id out of the inventory."),
    )


@check("CM-ELB-03")
def reserved_load_balancer_has_address(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a reserved load balancer without an address.

    Links keep the addresses in use while the load balancer has none. Before its first address the other clusters are linked without
    this one.
    """
    service = facts.service
    if service is None or facts.endpoint_override or not facts.elb_id or service.type != "LoadBalancer":
        return
    if service.ingress_ips or service.ingress_hostnames:
        return
    endpoint = context.decisions.endpoints[facts.host]
    waits = isinstance(endpoint, EndpointProblem)
    consequence = "no peer can connect to it yet" if waits else "peers keep using their present address"
    noted = f"annotation {ELB_ID} = {show(service.annotations[ELB_ID])}" if ELB_ID in service.annotations else f"no annotation {ELB_ID}"
    yield Flaw(
        summary=f"The load balancer {facts.elb_id} of {facts.host} has no address: {consequence}",
        evidence=f"{where(facts, 'Service', _SERVICE)}: status.loadBalancer.ingress is empty; {noted}",
        fix=lines(
            "connect writes the annotation where it is missing; run it again when the Service has its address. Why it has none:",
            kubectl(facts, "describe", "service", _SERVICE),
        ),
    )
