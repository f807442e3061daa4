# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that connections to the Service clustermesh-apiserver arrive at a pod."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, helm, kubectl, lines, listed, show, where
from ..mesh.endpoints import MeshEndpoint, canonical_ip, is_ip
from ..mesh.facts import ClusterFacts, NodeFacts
from .context import CheckContext
from .registry import check

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
def dialled_nodes_run_the_apiserver(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report dialled nodes of which none runs clustermesh-apiserver.

    With externalTrafficPolicy Local only nodes with a ready pod answer (Kubernetes, "Traffic policies").
    """
    endpoint = context.choices.endpoint(facts)
    if not _is_local(facts) or not isinstance(endpoint, MeshEndpoint) or not _pod_nodes(facts):
        return
    dialled = [node.name for node in facts.nodes if not _addresses(node).isdisjoint(endpoint.ips)]
    if not dialled or not _pod_nodes(facts).isdisjoint(dialled):
        return
    yield finding(
        "CM-SVC-01",
        cluster=facts.host,
        summary=f"Peers dial {listed(dialled)} of {facts.host}, and clustermesh-apiserver runs on {listed(sorted(_pod_nodes(facts)))}: "
        "none of these nodes answers",
        evidence=f"{where(facts, 'Service', SERVICE)}: externalTrafficPolicy = Local; dialled: {listed(endpoint.ips)}",
        fix=helm(facts, "clustermesh.apiserver.service.externalTrafficPolicy=Cluster"),
    )


@check("CM-SVC-02")
def all_nodes_answer(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a Service with externalTrafficPolicy Local, which only nodes with a pod answer."""
    if not _is_local(facts) or facts.service is None:
        return
    balancer = facts.service.type == "LoadBalancer"
    yield finding(
        "CM-SVC-02",
        cluster=facts.host,
        summary=f"Only nodes of {facts.host} that run a pod of clustermesh-apiserver answer its peers"
        + (": its load balancer has to follow the health check" if balancer else ", and the pod can move"),
        evidence=f"{where(facts, 'Service', SERVICE)}: type {facts.service.type}, externalTrafficPolicy = Local; "
        f"pods on {listed(sorted(_pod_nodes(facts))) or 'no node'}",
        fix=helm(facts, "clustermesh.apiserver.service.externalTrafficPolicy=Cluster"),
    )


@check("CM-SVC-03")
def service_selects_apiserver_pods(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a Service whose selector matches no pod of clustermesh-apiserver.

    A Service without selector may have EndpointSlices of another writer, so it is not reported.
    """
    if facts.service is None or facts.apiserver is None or not facts.service.selector or not facts.apiserver.pod_labels:
        return
    wrong = {k: v for k, v in facts.service.selector.items() if facts.apiserver.pod_labels.get(k) != v}
    if not wrong:
        return
    yield finding(
        "CM-SVC-03",
        cluster=facts.host,
        summary=f"Service {SERVICE} of {facts.host} selects none of the pods of Deployment {SERVICE}",
        evidence=f"{where(facts, 'Service', SERVICE)}: the selector asks for {listed(show(f'{k}={v}') for k, v in wrong.items())}, "
        "which the pod template does not have",
        fix=lines(
            "Set the selector that the chart gives it:", kubectl(facts, "patch", "service", SERVICE, "--type=json", f"--patch={_PATCH}")
        ),
    )


_PATCH = '[{"op":"replace","path":"/spec/selector","value":{"k8s-app":"clustermesh-apiserver"}}]'


@check("CM-SVC-04")
def replicas_have_session_affinity(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report several replicas of clustermesh-apiserver without session affinity.

    Every replica has an etcd of its own; a client that reaches another replica reads everything again (values.yaml, since 1.16).
    """
    if facts.service is None or facts.apiserver is None or facts.apiserver.desired < 2 or facts.service.session_affinity == "ClientIP":
        return
    yield finding(
        "CM-SVC-04",
        cluster=facts.host,
        summary=f"clustermesh-apiserver of {facts.host} has {facts.apiserver.desired} replicas, each with an etcd of its own, and "
        "clients change between them: each time they read everything anew",
        evidence=f"{where(facts, 'Service', SERVICE)}: sessionAffinity = {show(facts.service.session_affinity)}",
        fix=lines(
            helm(facts, "clustermesh.apiserver.service.enableSessionAffinity=HAOnly"),
            "Where the load balancer has no such affinity: --set clustermesh.apiserver.replicas=1.",
        ),
    )
