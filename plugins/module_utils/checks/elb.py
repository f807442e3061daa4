# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that the mesh endpoint uses the load balancer that is reserved for it (host variable ``cilium_mesh_elb_id``)."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..findings.wording import finding, helm, kubectl, lines, listed, show, where
from ..links.load_balancer import ELB_AUTOCREATE, ELB_ID, bound_elsewhere
from ..mesh.endpoints import EndpointProblem
from ..mesh.facts import ClusterFacts
from .context import CheckContext
from .registry import check

_SERVICE = "clustermesh-apiserver"
_HELM_VALUE = r"clustermesh.apiserver.service.annotations.kubernetes\.io/elb\.id"


@check("CM-ELB-01")
def service_uses_reserved_load_balancer(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a Service that is bound to another load balancer than the reserved one."""
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


@check("CM-ELB-02")
def service_type_is_load_balancer(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a reserved load balancer that the Service cannot use because of its type."""
    if facts.service is None or not facts.elb_id or facts.service.type == "LoadBalancer":
        return
    yield finding(
        "CM-ELB-02",
        cluster=facts.host,
        summary=f"A load balancer is reserved for {facts.host}, but its Service {_SERVICE} is of type {show(facts.service.type)}",
        evidence=f"{where(facts, 'Service', _SERVICE)}: spec.type = {show(facts.service.type)}; cilium_mesh_elb_id = {facts.elb_id}",
        fix=lines(helm(facts, "clustermesh.apiserver.service.type=LoadBalancer"), "Or take cilium_mesh_elb_id out of the inventory."),
    )


@check("CM-ELB-03")
def reserved_load_balancer_has_address(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Report a reserved load balancer without an address.

    Links keep the addresses in use while the load balancer has none. Before its first address the other clusters are linked without
    this one.
    """
    service = facts.service
    if service is None or facts.endpoint_override or not facts.elb_id or service.type != "LoadBalancer":
        return
    if service.ingress_ips or service.ingress_hostnames:
        return
    endpoint = context.choices.endpoint(facts)
    waits = isinstance(endpoint, EndpointProblem)
    consequence = "no peer can connect to it yet" if waits else "peers keep using their present address"
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
