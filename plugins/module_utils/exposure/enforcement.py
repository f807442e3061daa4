# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Enforcement of an item's source ranges in one cluster. Ranges that cannot be enforced are not written.

Facts, read in Cilium 1.16.19, 1.18.11, 1.19.5 and 1.20.2:

- ``spec.loadBalancerSourceRanges`` is for type LoadBalancer alone; on another type the API server refuses it.
- Cilium's replacement of kube-proxy checks it where a packet meets the load balancer's address, and at the node port that comes with
  it only with ``bpf-lb-source-range-all-types`` (pkg/loadbalancer/service.go, GetSourceRangesEnabled; not in 1.16). Up to 1.18 the
  check can be switched off (``enable-svc-source-range-check``). kube-proxy checks the address, never the node port
  (kubernetes/kubernetes#33586).
- An address that the cloud answers for (a host name, or ipMode Proxy) has no front end in the cluster: only the load balancer can
  check.
- Cilium's replacement does not restrict clients in the cluster by it (kubeproxy-free.rst, "LoadBalancer Source Ranges Checks"); kube-proxy
  does (kubernetes, test/e2e/network/loadbalancer.go). Clients of peers are restricted by both: no packet says that it is of the mesh
  (lb4_src_range_ok in bpf/lib/lb.h compares addresses; tests/integration/test_real_exposures.py).
- A NodePort keeps the client's address with ``externalTrafficPolicy: Local``; then a policy at the pods can tell clients apart.
- The load balancer of a Gateway takes ranges from its class (CiliumGatewayClassConfig), for all its Gateways at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..findings.wording import config_evidence, helm, lines, listed, printable, restart
from ..items.models import ExposedService
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import TrafficFacts
from ..mesh.versions.cilium_config import enabled, ip_versions, replaces_kube_proxy, setting
from ..mesh.versions.minors import cilium_version, first_minor, holds
from ..policies.evaluate.endpoints import NAMESPACE
from ..policies.evaluate.label_filters import label_filters
from ..policies.evaluate.settings import unreadable_flags
from .competing_services import CompetingService
from .issues import ExposureIssue
from .ranges import of_versions, opens_to_everyone, versions_of
from .target import ExposureTarget

ALL_TYPES_KEY: Final = "bpf-lb-source-range-all-types"
CHECK_KEY: Final = "enable-svc-source-range-check"

UNCHECKED: Final = "RangesNotChecked"
"""Reason of the remark that nothing in the cluster checks the ranges, not even at the load balancer's address."""


@dataclass(frozen=True, kw_only=True)
class Enforcement:
    """Method by which the source ranges are enforced.

    ``by_policy``: by a policy at the pods, which needs the client's address to be kept. ``remarks``: what is not covered.
    """

    versions: frozenset[int]  # IP versions (4, 6) that are exposed
    ranges: tuple[str, ...]  # those of these versions
    by_policy: bool = False
    remarks: tuple[ExposureIssue, ...] = ()

    @property
    def opens_to_everyone(self) -> bool:
        """Whether every address of the exposed IP versions is let in."""
        return opens_to_everyone(self.ranges, self.versions)


def enforcement(
    item: ExposedService, target: ExposureTarget, facts: ClusterFacts, traffic: TrafficFacts, competitors: Iterable[CompetingService]
) -> Enforcement | ExposureIssue:
    """Return how this cluster enforces ``item.source_ranges``; an issue where it cannot.

    :param competitors: other Services that publish pods of the namespace; read only where they count.
    """
    served = ip_versions(facts)
    versions = versions_of(item.source_ranges) & served
    if not versions:
        return _no_family(facts)
    found = Enforcement(versions=versions, ranges=of_versions(item.source_ranges, versions))
    if item.exposure == "Gateway":
        return found if opens_to_everyone(item.source_ranges, served) else _gateway(facts)
    if found.opens_to_everyone:
        return found
    if item.exposure == "NodePort":
        why = why_no_policy(target, facts, traffic, competitors)
        return _node_port(why) if why else Enforcement(versions=versions, ranges=found.ranges, by_policy=True)
    return Enforcement(versions=versions, ranges=found.ranges, remarks=_load_balancer(item, facts))


def _load_balancer(item: ExposedService, facts: ClusterFacts) -> tuple[ExposureIssue, ...]:
    version = cilium_version(facts)
    cilium = replaces_kube_proxy(facts)
    if cilium and not enabled(facts, CHECK_KEY, True):
        return (
            ExposureIssue(
                code="CM-EXPO-08",
                reason=UNCHECKED,
                summary="Cilium does not check source ranges in this cluster: they apply only if the load balancer itself checks them",
                evidence=config_evidence(facts, "kube-proxy-replacement", CHECK_KEY),
                fix=lines(helm(facts, "svcSourceRangeCheck=true"), restart(facts)),
            ),
        )
    can = cilium and holds("source_ranges_everywhere", version)
    if (can and enabled(facts, ALL_TYPES_KEY)) or not item.node_ports:
        return ()
    by_cilium = f"Cilium checks them there too with bpf.lbSourceRangeAllTypes=true:\n{helm(facts, 'bpf.lbSourceRangeAllTypes=true')}"
    return (
        ExposureIssue(
            code="CM-EXPO-08",
            reason="NodePortNotCovered",
            summary="The source ranges apply at the load balancer's address, and not at the node port that comes with it",
            evidence=config_evidence(facts, "kube-proxy-replacement", ALL_TYPES_KEY),
            fix="Keep others away from the nodes by a firewall. If the load balancer needs no node ports, set "
            "allocateLoadBalancerNodePorts: false." + (f" {by_cilium}\n{restart(facts)}" if can else ""),
        ),
    )


def _node_port(why: tuple[str, ...]) -> ExposureIssue:
    return ExposureIssue(
        code="CM-EXPO-04",
        reason="RangesNotEnforceable",
        summary="Nothing in this cluster can enforce these source ranges at a NodePort, so it is not opened",
        evidence="a policy at the pods would have to enforce them; " + listed(why),
        fix="Use class LoadBalancer, resolve what stands in the way of the policy, or open the NodePort to every address explicitly: "
        "sourceRanges 0.0.0.0/0 and ::/0.",
    )


def _gateway(facts: ClusterFacts) -> ExposureIssue:
    both = len(ip_versions(facts)) > 1
    return ExposureIssue(
        code="CM-EXPO-04",
        reason="RangesNotEnforceable",
        summary="A Gateway cannot enforce source ranges of its own, so it is not made",
        evidence="the ranges of its load balancer come from its class, for all Gateways of that class"
        + ("; this cluster has IPv4 and IPv6, and the ranges do not open both" if both else ""),
        fix="Use class LoadBalancer, or open the Gateway to every address explicitly: sourceRanges 0.0.0.0/0 and ::/0. Ranges for a "
        "whole class: "
        "CiliumGatewayClassConfig, spec.service.loadBalancerSourceRanges (Cilium 1.18).",
    )


def _no_family(facts: ClusterFacts) -> ExposureIssue:
    return ExposureIssue(
        code="CM-EXPO-13",
        reason="FamilyNotServed",
        summary="No source range is of an IP version that this cluster has, so nothing is exposed there",
        evidence=config_evidence(facts, "enable-ipv4", "enable-ipv6"),
        fix="Name ranges of the other IP version, or leave this cluster out of clusters.",
    )


def why_no_policy(
    target: ExposureTarget, facts: ClusterFacts, traffic: TrafficFacts, competitors: Iterable[CompetingService]
) -> tuple[str, ...]:
    """Return the reasons as clauses; () if a policy can enforce the ranges.

    ``competitors``: other Services that publish pods of the namespace (competing_services.py).
    """
    return (*_settings(facts), *_labels(target, facts), *_host_network(target, facts, traffic), *_shared_doors(target, competitors))


def _settings(facts: ClusterFacts) -> Iterable[str]:
    version = cilium_version(facts)
    if not holds("deny_without_isolation", version):
        yield f"Cilium {version or 'of unknown version'} cannot deny without isolating (that needs {first_minor('deny_without_isolation')})"
        return
    if setting(facts, "enable-policy", "default").lower() == "never":
        yield f"policies are not enforced ({config_evidence(facts, 'enable-policy')})"
    if enabled(facts, "policy-audit-mode"):
        yield f"what a policy denies is let through, and logged ({config_evidence(facts, 'policy-audit-mode')})"
    for key in ("enable-cilium-network-policy", "enable-non-default-deny-policies"):
        if not enabled(facts, key, True):
            yield config_evidence(facts, key)
    for key in unreadable_flags(version.release if version else None, facts.config or {}):
        yield f"Cilium does not read the value ({config_evidence(facts, key)})"
    meant = setting(facts, "policy-cidr-match-mode").split()
    if "nodes" in meant:
        yield f"CIDRs select nodes too, so that it would cut off their health checks ({config_evidence(facts, 'policy-cidr-match-mode')})"
    if "pods" in meant:
        yield f"CIDRs select pods too, so that it would cut off pods of the mesh ({config_evidence(facts, 'policy-cidr-match-mode')})"


def _labels(target: ExposureTarget, facts: ClusterFacts) -> Iterable[str]:
    """Yield labels of the selector that are not in identities: the policy would select no pod and keep out no client."""
    version = cilium_version(facts)
    filters = label_filters(version.release if version else None, facts.config or {})
    wanted = (*target.selector, NAMESPACE)
    lost = [key for key in wanted if filters.counts(key) is False]
    if any(filters.counts(key) is None for key in wanted):
        yield f"which labels count for policies is not known ({config_evidence(facts, *filters.unread)})"
    elif lost:
        yield f"Cilium does not take {listed(printable(key) for key in lost)} into identities, by which the Service selects its pods"


def _host_network(target: ExposureTarget, facts: ClusterFacts, traffic: TrafficFacts) -> Iterable[str]:
    """Yield pods in the network of their node, for which policies for pods do not hold."""
    nodes = {ip for node in facts.nodes for ip in (*node.internal_ips, *node.external_ips)}
    slices = traffic.slices_by_service.get(target.service.key, ())
    found = {endpoint.pod or endpoint.address for entry in slices for endpoint in entry.endpoints if endpoint.address in nodes}
    if found:
        yield f"{listed(sorted(found))} is in the network of its node, where policies for pods do not apply"


def _shared_doors(target: ExposureTarget, competitors: Iterable[CompetingService]) -> Iterable[str]:
    """Yield other Services that the policy would close: a deny holds for the pods' port, whichever Service leads to it."""
    shared = sorted({door.name for door in competitors if door.may_lead_to(target)})
    if shared:
        yield f"it would also close {listed(shared)}, which leads to the same pods and port from outside"
