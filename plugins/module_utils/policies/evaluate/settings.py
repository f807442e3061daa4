# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Settings of policy enforcement, from cilium-config and the version of Cilium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...mesh.versions.cilium_config import flag_of, value_of
from ...mesh.versions.cilium_values import parse_bool
from ...mesh.versions.minors import SUPPORTED, CiliumVersion, Minor, holds
from .endpoints import EndpointKind
from .label_filters import LabelFilters, label_filters
from .ternary import Ternary

KINDS: Final[Mapping[str, str]] = {
    "NetworkPolicy": "enable-k8s-networkpolicy",
    "CiliumNetworkPolicy": "enable-cilium-network-policy",
    "CiliumClusterwideNetworkPolicy": "enable-cilium-clusterwide-network-policy",
}
"""Kind of policy -> the key that turns it off (pkg/option/config.go). Agents that do not know the key (row ``policy_kind_switches``) go on
reading the kind."""

FLAGS: Final = (
    *KINDS.values(),
    *("policy-audit-mode", "enable-non-default-deny-policies", "policy-default-local-cluster", "enable-icmp-rules", "enable-l7-proxy"),
    *("enable-node-selector-labels", "enable-host-firewall", "enable-k8s-cluster-network-policy"),
)
"""Boolean keys that decide about policies."""
_CIDR_KINDS: Final = {
    "nodes": (EndpointKind.HOST, EndpointKind.REMOTE_NODE),
    "pods": (EndpointKind.POD,),
}  # pkg/policy/types/selector.go of 1.20
_MODES: Final = ("", "default", "always", "never")


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """Policy settings of the agents of one cluster."""

    version: Minor | None  # None: unknown
    mode: str = "default"  # enable-policy: default, always, never
    audit: bool = False  # policy-audit-mode: denied traffic is logged and let through
    non_default_deny: bool = True  # False: enableDefaultDeny of a policy is not heeded
    local_by_default: Ternary = False  # a selector that names no cluster means the own one
    own_node_allowed: bool = True  # allow-localhost: the node of a pod always reaches it
    ignored: frozenset[str] = frozenset()  # kinds of policies that are not carried out
    icmp_rules: bool = True
    l7_proxy: bool = True  # enable-l7-proxy: without it a rule of layer 7 is refused
    node_labels: bool = False  # enable-node-selector-labels: without it a rule about labels of nodes is refused
    host_firewall: bool = False
    cidr_kinds: frozenset[EndpointKind] = frozenset()  # policy-cidr-match-mode: what a CIDR may mean besides addresses outside
    filters: LabelFilters
    doubts: tuple[str, ...] = ()  # why no decision of this cluster is certain

    @property
    def enforced(self) -> bool:
        """Whether any policy stops traffic in the cluster."""
        return self.mode != "never" and not self.audit


def settings_of(version: CiliumVersion | None, config: Mapping[str, str]) -> PolicySettings:
    """Return the settings for the agents' version and the data of ConfigMap cilium-config."""
    minor = version.release if version else None
    flag, text = partial(flag_of, config, minor), partial(value_of, config, minor)
    return PolicySettings(
        version=minor,
        mode=text("enable-policy", "default").lower(),
        audit=flag("policy-audit-mode"),
        non_default_deny=flag("enable-non-default-deny-policies", True),
        local_by_default=_local_by_default(version, config),
        own_node_allowed=text("allow-localhost", "auto").lower() != "policy",
        ignored=frozenset(kind for kind, key in KINDS.items() if not flag(key, True)),
        icmp_rules=flag("enable-icmp-rules", True),
        l7_proxy=flag("enable-l7-proxy", True),
        node_labels=flag("enable-node-selector-labels"),
        host_firewall=flag("enable-host-firewall"),
        cidr_kinds=frozenset(kind for word in text("policy-cidr-match-mode").split() for kind in _CIDR_KINDS.get(word, ())),
        filters=label_filters(minor, config),
        doubts=tuple(_doubts(minor, config)),
    )


def _local_by_default(version: CiliumVersion | None, config: Mapping[str, str]) -> Ternary:
    """Return whether a selector that names no cluster means the own one.

    It is False before the key exists; then the value of the key, else the default of the version (pkg/clustermesh/types/option.go).
    """
    if version is None:
        return parse_bool(value_of(config, None, "policy-default-local-cluster"))
    return flag_of(config, version.release, "policy-default-local-cluster", holds("policy_local_by_default", version))


def _doubts(minor: Minor | None, config: Mapping[str, str]) -> list[str]:
    found = []
    if minor is None:
        found.append("the version of Cilium is not known")
    elif minor not in SUPPORTED:
        found.append(f"Cilium {minor} is none of the versions {SUPPORTED}")
    if value_of(config, minor, "static-cnp-path"):
        found.append("agents read policies from a directory (static-cnp-path)")
    if flag_of(config, minor, "enable-k8s-cluster-network-policy"):
        found.append("ClusterNetworkPolicy is on (enable-k8s-cluster-network-policy), and its policies are not read")
    found += [f"{key} is neither true nor false" for key in unreadable_flags(minor, config)]
    if value_of(config, minor, "enable-policy").lower() not in _MODES:
        found.append("enable-policy is none of default, always and never")
    return found


def unreadable_flags(minor: Minor | None, config: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of ``FLAGS`` whose value is no boolean, so that agents keep an earlier one that is not known."""
    return tuple(key for key in FLAGS if (text := value_of(config, minor, key)) and parse_bool(text) is None)
