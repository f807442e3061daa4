# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reasons why a CiliumNetworkPolicy at the pods cannot hold a NodePort to its source ranges.

A policy without effect would let every address in.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..findings.wording import config_evidence, listed, printable
from ..mesh.cilium_config import enabled, setting
from ..mesh.facts import ClusterFacts
from ..mesh.traffic_facts import TrafficFacts
from ..mesh.versions import cilium_version, first_minor, holds
from ..policies.evaluate.label_filters import label_filters
from .competing_services import CompetingService
from .target import ExposureTarget


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
    for key, rule in (("enable-cilium-network-policy", "policy_kind_switches"), ("enable-non-default-deny-policies", "non_default_deny")):
        if holds(rule, version) and not enabled(facts, key, True):
            yield config_evidence(facts, key)
    if "nodes" in setting(facts, "policy-cidr-match-mode").split():
        yield f"CIDRs select nodes too, so that it would cut off their health checks ({config_evidence(facts, 'policy-cidr-match-mode')})"


def _labels(target: ExposureTarget, facts: ClusterFacts) -> Iterable[str]:
    """Yield labels of the selector that are not in identities: the policy would select no pod and keep out no client."""
    version = cilium_version(facts)
    filters = label_filters(version.release if version else None, facts.config or {})
    lost = [key for key in target.selector if not filters.counts(key)]
    if not filters.understood:
        yield f"which labels count for policies is not known ({config_evidence(facts, 'labels')})"
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
