# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Can a CiliumNetworkPolicy at the pods hold a NodePort to its source ranges? Where it does not count it lets everybody in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..checks.wording import config_evidence, enabled, listed, printable, setting
from ..facts import ClusterFacts
from ..items.facts import TrafficFacts
from ..policies.evaluate.label_filters import label_filters
from ..versions import Minor, cilium_version
from .doors import Door
from .target import Target

DENY_WITHOUT_ISOLATION: Final = Minor(1, 16)
"""enableDefaultDeny: pkg/policy/api/rule.go of 1.16, not in 1.15. Without it the pods would be cut off from everybody."""

_SWITCHES: Final = Minor(1, 17)
"""Since then these two are read (pkg/option/config.go)."""


def why_no_policy(target: Target, facts: ClusterFacts, traffic: TrafficFacts, doors: Iterable[Door]) -> tuple[str, ...]:
    """What stands in the way, as clauses; () for nothing. ``doors``: other ways into the namespace from outside (doors.py)."""
    return (*_settings(facts), *_labels(target, facts), *_host_network(target, facts, traffic), *_shared_doors(target, doors))


def _settings(facts: ClusterFacts) -> Iterable[str]:
    version = cilium_version(facts)
    if version is None or version.release < DENY_WITHOUT_ISOLATION:
        yield f"Cilium {version or 'of unknown version'} cannot deny without isolating (that needs {DENY_WITHOUT_ISOLATION})"
        return
    if setting(facts, "enable-policy", "default").lower() == "never":
        yield f"policies are not enforced ({config_evidence(facts, 'enable-policy')})"
    if version.release >= _SWITCHES:
        for key in ("enable-cilium-network-policy", "enable-non-default-deny-policies"):
            if not enabled(facts, key, True):
                yield config_evidence(facts, key)
    if "nodes" in setting(facts, "policy-cidr-match-mode").split():
        yield f"CIDRs select nodes too, so that it would cut off their health checks ({config_evidence(facts, 'policy-cidr-match-mode')})"


def _labels(target: Target, facts: ClusterFacts) -> Iterable[str]:
    """A label that is not in the identity selects nothing, and the policy would keep out nobody."""
    version = cilium_version(facts)
    filters = label_filters(version.release if version else None, facts.config or {})
    lost = [key for key in target.selector if not filters.counts(key)]
    if not filters.understood:
        yield f"which labels count for policies cannot be told ({config_evidence(facts, 'labels')})"
    elif lost:
        yield f"Cilium does not take {listed(printable(key) for key in lost)} into identities, by which the Service selects its pods"


def _host_network(target: Target, facts: ClusterFacts, traffic: TrafficFacts) -> Iterable[str]:
    """Policies for pods do not hold for those in the network of their node."""
    nodes = {ip for node in facts.nodes for ip in (*node.internal_ips, *node.external_ips)}
    slices = traffic.slices_by_service.get(target.service.key, ())
    found = {endpoint.pod or endpoint.address for entry in slices for endpoint in entry.endpoints if endpoint.address in nodes}
    if found:
        yield f"{listed(sorted(found))} is in the network of its node, where policies for pods do not hold"


def _shared_doors(target: Target, doors: Iterable[Door]) -> Iterable[str]:
    """A deny holds for the pods' port, whichever way one comes: other doors to it would close too."""
    shared = sorted({door.name for door in doors if door.may_lead_to(target)})
    if shared:
        yield f"it would also close {listed(shared)}, which leads to the same pods and port from outside"
