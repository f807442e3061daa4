# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Settings of policy enforcement, from cilium-config and the version of Cilium."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...mesh.versions import SUPPORTED, CiliumVersion, Minor, holds
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
_MODES: Final = ("", "default", "always", "never")
_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})


@dataclass(frozen=True, kw_only=True)
class Settings:
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
    cidr_means_nodes: bool = False  # policy-cidr-match-mode
    filters: LabelFilters
    doubts: tuple[str, ...] = ()  # why no decision of this cluster is certain

    @property
    def enforced(self) -> bool:
        """Whether any policy stops traffic in the cluster."""
        return self.mode != "never" and not self.audit


def settings_of(version: CiliumVersion | None, config: Mapping[str, str]) -> Settings:
    """Return the settings for the agents' version and the data of ConfigMap cilium-config."""
    minor = version.release if version else None
    reads_flag = holds("non_default_deny", version)
    return Settings(
        version=minor,
        mode=config.get("enable-policy", "default").lower() or "default",
        audit=_flag(config, "policy-audit-mode", False),
        non_default_deny=_flag(config, "enable-non-default-deny-policies", True) if reads_flag else True,
        local_by_default=_local_by_default(version, config),
        own_node_allowed=config.get("allow-localhost", "auto").lower() != "policy",
        ignored=frozenset(kind for kind in KINDS if _is_ignored(kind, version, config)),
        icmp_rules=_flag(config, "enable-icmp-rules", True),
        l7_proxy=_flag(config, "enable-l7-proxy", True),
        node_labels=_flag(config, "enable-node-selector-labels", False),
        host_firewall=_flag(config, "enable-host-firewall", False),
        cidr_means_nodes="nodes" in config.get("policy-cidr-match-mode", ""),
        filters=label_filters(minor, config),
        doubts=tuple(_doubts(minor, config)),
    )


def _is_ignored(kind: str, version: CiliumVersion | None, config: Mapping[str, str]) -> bool:
    known = kind == "NetworkPolicy" or holds("policy_kind_switches", version)
    return known and not _flag(config, KINDS[kind], True)


def _local_by_default(version: CiliumVersion | None, config: Mapping[str, str]) -> Ternary:
    """Return whether a selector that names no cluster means the own one.

    It is False before the key exists; then the value of the key, else the default of the version (pkg/clustermesh/types/option.go).
    """
    given = config.get("policy-default-local-cluster", "").lower()
    if version is None:
        return given in _TRUE if given in _TRUE | _FALSE else None
    default = holds("policy_local_by_default", version)
    return _flag(config, "policy-default-local-cluster", default) if holds("policy_local_key", version) else False


def _doubts(minor: Minor | None, config: Mapping[str, str]) -> list[str]:
    found = []
    if minor is None:
        found.append("the version of Cilium is not known")
    elif minor not in SUPPORTED:
        found.append(f"Cilium {minor} is none of the versions {SUPPORTED}")
    if config.get("static-cnp-path"):
        found.append("agents read policies from a directory (static-cnp-path)")
    if _flag(config, "enable-k8s-cluster-network-policy", False):
        found.append("ClusterNetworkPolicy is on (enable-k8s-cluster-network-policy), and its policies are not read")
    found += [f"{key} is neither true nor false" for key in FLAGS if config.get(key, "") and config[key].lower() not in _TRUE | _FALSE]
    if config.get("enable-policy", "").lower() not in _MODES:
        found.append("enable-policy is none of default, always and never")
    return found


def _flag(config: Mapping[str, str], key: str, default: bool) -> bool:
    """Return a boolean as strconv.ParseBool reads it; the default for another value, which ``_doubts`` reports."""
    text = config.get(key, "").lower()
    return True if text in _TRUE else False if text in _FALSE else default
