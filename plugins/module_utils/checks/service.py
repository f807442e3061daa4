# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Does what dials the Service of clustermesh-apiserver arrive at a pod?"""

from __future__ import annotations

from collections.abc import Iterator

from ..endpoints import Endpoint, canonical_ip, is_ip
from ..facts import ClusterFacts, NodeFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from .wording import finding, helm, kubectl, lines, listed, show, where

SERVICE = "clustermesh-apiserver"


def _is_local(facts: ClusterFacts) -> bool:
    service = facts.service
    return service is not None and service.type in ("NodePort", "LoadBalancer") and service.external_traffic_policy == "Local"


def _with_pod(facts: ClusterFacts) -> set[str]:
    return {pod.node for pod in facts.apiserver_pods if pod.ready and pod.node}


def _addresses(node: NodeFacts) -> set[str]:
    return {canonical_ip(ip) for ip in (*node.internal_ips, *node.external_ips) if is_ip(ip)}


@check("CM-SVC-01", "No node that is dialled runs clustermesh-apiserver", severity=Severity.BLOCKING, scope=Scope.CLUSTER, acceptable=True)
def dialled_nodes_answer(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """With externalTrafficPolicy Local only nodes with a ready pod answer (Kubernetes, "Traffic policies")."""
    endpoint = context.choices.endpoint(facts)
    if not _is_local(facts) or not isinstance(endpoint, Endpoint) or not _with_pod(facts):
        return
    dialled = [node.name for node in facts.nodes if not _addresses(node).isdisjoint(endpoint.ips)]
    if not dialled or not _with_pod(facts).isdisjoint(dialled):
        return
    yield finding(
        "CM-SVC-01",
        cluster=facts.host,
        summary=f"Peers dial {listed(dialled)} of {facts.host}, and clustermesh-apiserver runs on {listed(sorted(_with_pod(facts)))}: "
        "nobody answers",
        evidence=f"{where(facts, 'Service', SERVICE)}: externalTrafficPolicy = Local; dialled: {listed(endpoint.ips)}",
        fix=helm(facts, "clustermesh.apiserver.service.externalTrafficPolicy=Cluster"),
    )


@check("CM-SVC-02", "Only nodes with a pod of clustermesh-apiserver answer", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def traffic_policy_is_known(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if not _is_local(facts) or facts.service is None:
        return
    balancer = facts.service.type == "LoadBalancer"
    yield finding(
        "CM-SVC-02",
        cluster=facts.host,
        summary=f"Only nodes of {facts.host} that run a pod of clustermesh-apiserver answer its peers"
        + (": its load balancer has to follow the health check" if balancer else ", and the pod can move"),
        evidence=f"{where(facts, 'Service', SERVICE)}: type {facts.service.type}, externalTrafficPolicy = Local; "
        f"pods on {listed(sorted(_with_pod(facts))) or 'no node'}",
        fix=helm(facts, "clustermesh.apiserver.service.externalTrafficPolicy=Cluster"),
    )


@check("CM-SVC-03", "The Service selects no pod of clustermesh-apiserver", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def service_selects_the_pods(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """A Service without selector may have endpoints that somebody else wrote, so nothing is said of it."""
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


@check("CM-SVC-04", "Several replicas without session affinity", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def replicas_have_affinity(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Every replica has an etcd of its own; a client that comes to another one reads everything anew (values.yaml, since 1.16)."""
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
