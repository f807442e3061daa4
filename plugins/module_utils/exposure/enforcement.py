# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who enforces the source ranges of an item in one cluster, and whether anybody does. What nobody enforces is not written.

Facts, read in Cilium 1.16.19, 1.18.11, 1.19.5 and 1.20.2:

- ``spec.loadBalancerSourceRanges`` is for type LoadBalancer alone; on another type the API server refuses it.
- Cilium's replacement of kube-proxy checks it where a packet meets the load balancer's address, and at the node port that comes with it
  only with ``bpf-lb-source-range-all-types`` (pkg/loadbalancer/service.go, GetSourceRangesEnabled; not in 1.16). Up to 1.18 the check can
  be switched off (``enable-svc-source-range-check``). kube-proxy checks the address, never the node port (kubernetes/kubernetes#33586).
- An address that the cloud answers for (a host name, or ipMode Proxy) has no front end in the cluster: only the load balancer can check.
- Clients in the cluster are never held back by it (kubeproxy-free.rst, "LoadBalancer Source Ranges Checks").
- A NodePort keeps the client's address with ``externalTrafficPolicy: Local``; then a policy at the pods can tell who asks.
- The load balancer of a Gateway takes ranges from its class (CiliumGatewayClassConfig), for all its Gateways at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..checks.wording import config_evidence, enabled, helm, lines, listed, replaces_kube_proxy, restart
from ..facts import ClusterFacts
from ..items.facts import TrafficFacts
from ..items.models import ExposedService
from ..versions import Minor, Rule, cilium_version
from .codes import FAMILY_NOT_SERVED, RANGES_NOT_ENFORCEABLE, RANGES_PARTLY_ENFORCED
from .doors import Door
from .policy_fitness import why_no_policy
from .ranges import of_versions, opens_to_everyone, versions_of
from .remarks import Remark
from .target import Target

ALL_TYPES_KEY: Final = "bpf-lb-source-range-all-types"
CHECK_KEY: Final = "enable-svc-source-range-check"

UNCHECKED: Final = "RangesNotChecked"
"""Reason of the remark that nothing in the cluster checks the ranges, not even at the load balancer's address."""

_ALL_TYPES: Final = Rule(
    since=Minor(1, 17), unknown=False, source="not in 1.16; 1.18's changelog ports it to the new control plane, PR 39533"
)
_CHECK_CAN_BE_OFF: Final = Rule(before=Minor(1, 19), unknown=True, source="pkg/kpr/kpr.go of 1.18: removed in 1.19")


@dataclass(frozen=True, kw_only=True)
class Enforcement:
    """How the ranges come into force.

    ``by_policy``: through a policy at the pods, which needs the client's address to be kept. ``remarks``: what is not covered.
    """

    versions: frozenset[int]  # IP versions (4, 6) that are exposed
    ranges: tuple[str, ...]  # those of these versions
    by_policy: bool = False
    remarks: tuple[Remark, ...] = ()

    @property
    def opens_to_everyone(self) -> bool:
        return opens_to_everyone(self.ranges, self.versions)


def enforcement(
    item: ExposedService, target: Target, facts: ClusterFacts, traffic: TrafficFacts, doors: Iterable[Door]
) -> Enforcement | Remark:
    """How this cluster keeps others than ``item.source_ranges`` out; a remark where it cannot.

    :param doors: other ways into the namespace from outside; looked at only where they count.
    """
    served = _served_versions(facts)
    versions = versions_of(item.source_ranges) & served
    if not versions:
        return _no_family(facts)
    found = Enforcement(versions=versions, ranges=of_versions(item.source_ranges, versions))
    if item.exposure == "Gateway":
        return found if opens_to_everyone(item.source_ranges, served) else _gateway(facts)
    if found.opens_to_everyone:
        return found
    if item.exposure == "NodePort":
        why = why_no_policy(target, facts, traffic, doors)
        return _node_port(why) if why else Enforcement(versions=versions, ranges=found.ranges, by_policy=True)
    return Enforcement(versions=versions, ranges=found.ranges, remarks=_load_balancer(item, facts))


def _served_versions(facts: ClusterFacts) -> frozenset[int]:
    found = {4} if enabled(facts, "enable-ipv4", True) else set()
    return frozenset(found | ({6} if enabled(facts, "enable-ipv6", False) else set()))


def _load_balancer(item: ExposedService, facts: ClusterFacts) -> tuple[Remark, ...]:
    version = cilium_version(facts)
    cilium = replaces_kube_proxy(facts)
    if cilium and _CHECK_CAN_BE_OFF.holds(version) and not enabled(facts, CHECK_KEY, True):
        return (
            Remark(
                code=RANGES_PARTLY_ENFORCED,
                reason=UNCHECKED,
                summary="Cilium does not check source ranges in this cluster: they hold only if the load balancer itself checks them",
                evidence=config_evidence(facts, "kube-proxy-replacement", CHECK_KEY),
                fix=lines(helm(facts, "svcSourceRangeCheck=true"), restart(facts)),
            ),
        )
    everywhere = cilium and _ALL_TYPES.holds(version) and enabled(facts, ALL_TYPES_KEY, False)
    if everywhere or not item.node_ports:
        return ()
    by_cilium = f"Cilium checks them there too with bpf.lbSourceRangeAllTypes=true:\n{helm(facts, 'bpf.lbSourceRangeAllTypes=true')}"
    can = cilium and _ALL_TYPES.holds(version)
    return (
        Remark(
            code=RANGES_PARTLY_ENFORCED,
            reason="NodePortNotCovered",
            summary="The source ranges hold at the load balancer's address, and not at the node port that comes with it",
            evidence=config_evidence(facts, "kube-proxy-replacement", ALL_TYPES_KEY),
            fix="Keep others away from the nodes by a firewall. If the load balancer needs no node ports, set "
            "allocateLoadBalancerNodePorts: false." + (f" {by_cilium}\n{restart(facts)}" if can else ""),
        ),
    )


def _node_port(why: tuple[str, ...]) -> Remark:
    return Remark(
        code=RANGES_NOT_ENFORCEABLE,
        reason="RangesNotEnforceable",
        summary="Nothing in this cluster can hold a NodePort to these source ranges, so it is not opened",
        evidence="a policy at the pods would have to; " + listed(why),
        fix="Use class LoadBalancer, resolve what stands in the way of the policy, or open the NodePort to everybody in words: "
        "sourceRanges 0.0.0.0/0 and ::/0.",
    )


def _gateway(facts: ClusterFacts) -> Remark:
    both = enabled(facts, "enable-ipv4", True) and enabled(facts, "enable-ipv6", False)
    return Remark(
        code=RANGES_NOT_ENFORCEABLE,
        reason="RangesNotEnforceable",
        summary="One Gateway cannot be held to source ranges of its own, so it is not made",
        evidence="the ranges of its load balancer come from its class, for all Gateways of that class"
        + ("; this cluster has IPv4 and IPv6, and the ranges do not open both" if both else ""),
        fix="Use class LoadBalancer, or open the Gateway to everybody in words: sourceRanges 0.0.0.0/0 and ::/0. Ranges for a whole class: "
        "CiliumGatewayClassConfig, spec.service.loadBalancerSourceRanges (Cilium 1.18).",
    )


def _no_family(facts: ClusterFacts) -> Remark:
    return Remark(
        code=FAMILY_NOT_SERVED,
        reason="FamilyNotServed",
        summary="No source range is of an IP version that this cluster has",
        evidence=config_evidence(facts, "enable-ipv4", "enable-ipv6"),
        fix="Name ranges of the other IP version, or leave this cluster out of clusters.",
    )
