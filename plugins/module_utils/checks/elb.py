# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Does the mesh endpoint use the load balancer that the platform reserved for it (host variable ``cilium_mesh_elb_id``)?"""

from __future__ import annotations

from collections.abc import Iterator

from ..endpoints import EndpointProblem
from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..plan_elb import ELB_AUTOCREATE, ELB_ID, bound_elsewhere
from .wording import finding, helm, kubectl, lines, listed, show, where

_SERVICE = "clustermesh-apiserver"
_HELM_VALUE = r"clustermesh.apiserver.service.annotations.kubernetes\.io/elb\.id"


@check("CM-ELB-01", "The Service is bound to another load balancer", severity=Severity.BLOCKING, scope=Scope.CLUSTER, acceptable=True)
def reserved_load_balancer_is_used(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    held = bound_elsewhere(facts, context.mesh.binding.manager)
    if not held or facts.service is None:
        return
    value = facts.service.annotations.get(held, "")
    managers = facts.service.annotation_managers.get(held, ())
    what = f"asks for a load balancer of its own ({held})" if held == ELB_AUTOCREATE else f"names the load balancer {show(value)}"
    yield finding(
        "CM-ELB-01",
        cluster=facts.host,
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


@check("CM-ELB-02", "A load balancer is reserved that the Service does not use", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def service_can_have_a_load_balancer(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.service is None or not facts.elb_id or facts.service.type == "LoadBalancer":
        return
    yield finding(
        "CM-ELB-02",
        cluster=facts.host,
        summary=f"A load balancer is reserved for {facts.host}, but its Service {_SERVICE} is of type {show(facts.service.type)}",
        evidence=f"{where(facts, 'Service', _SERVICE)}: spec.type = {show(facts.service.type)}; cilium_mesh_elb_id = {facts.elb_id}",
        fix=lines(helm(facts, "clustermesh.apiserver.service.type=LoadBalancer"), "Or take cilium_mesh_elb_id out of the inventory."),
    )


@check("CM-ELB-03", "The reserved load balancer has no address yet", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def load_balancer_has_an_address(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """What is in use stays while the address is away; before the first address the other clusters are linked without this one."""
    service = facts.service
    if service is None or facts.endpoint_override or not facts.elb_id or service.type != "LoadBalancer":
        return
    if service.ingress_ips or service.ingress_hostnames:
        return
    endpoint = context.choices.endpoint(facts)
    waits = isinstance(endpoint, EndpointProblem)
    consequence = "no peer can dial it yet" if waits else "peers go on with the address that they have"
    noted = f"annotation {ELB_ID} = {show(service.annotations[ELB_ID])}" if ELB_ID in service.annotations else f"no annotation {ELB_ID}"
    yield finding(
        "CM-ELB-03",
        cluster=facts.host,
        summary=f"The load balancer {facts.elb_id} of {facts.host} has no address: {consequence}",
        evidence=f"{where(facts, 'Service', _SERVICE)}: status.loadBalancer.ingress is empty; {noted}",
        fix=lines(
            "connect writes the annotation where it is missing; run it again when the Service has its address. Why it has none:",
            kubectl(facts, "describe", "service", _SERVICE),
        ),
    )
