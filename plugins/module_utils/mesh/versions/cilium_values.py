# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every key of ConfigMap cilium-config that is read here, as data: the minors that read it, and the values that they accept.

Read from pkg/option/config.go (validateConfigMap: agents and operator do not start with a value that is not of the type of its flag),
daemon/cmd/daemon_main.go, pkg/kpr, pkg/datapath/tunnel, pkg/ipam and Documentation/cmdref of 1.16.19, 1.17.16, 1.18.11, 1.19.5 and 1.20.0.
What follows from each value is a row of tests/unit/checks/cilium_values.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from .minors import SUPPORTED, Minor, holds

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_NUMBER: Final = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]*|0[bB][01]+|[1-9][0-9]*)(?:\.0*)?")  # Go's cast.ToIntE


def parse_bool(text: str) -> bool | None:
    """Return a boolean as Go's strconv.ParseBool reads it; None for any other text."""
    return True if text in _TRUE else False if text in _FALSE else None


class ValueType(Enum):
    """Type of a key's value."""

    FLAG = "boolean"
    WORD = "one word of a list"
    WORDS = "words of a list, separated by spaces"
    NUMBER = "number"
    TEXT = "text that Cilium does not validate, or that a check of its own validates"


@dataclass(frozen=True, kw_only=True)
class Key:
    """Key as some minors read it: those for which ``rule`` of the version matrix holds, or all. ``words``: word -> such a rule, or ""."""

    kind: ValueType
    rule: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    any_case: bool = False  # Cilium puts the word into lower case first

    def is_read(self, minor: Minor | None) -> bool:
        """Return whether a minor reads the key so."""
        return not self.rule or holds(self.rule, minor)

    def accepts(self, text: str, minor: Minor) -> bool:
        """Return whether Cilium of this minor starts with the value."""
        if self.kind is ValueType.FLAG:
            return parse_bool(text) is not None
        if self.kind is ValueType.NUMBER:
            return _NUMBER.fullmatch(text) is not None
        words = text.split() if self.kind is ValueType.WORDS else [text.lower() if self.any_case else text]
        return self.kind is ValueType.TEXT or all(word in self._accepted(minor) for word in words)

    def shown(self, minor: Minor) -> str:
        """Return what the minor accepts, as text for people."""
        if self.kind is ValueType.FLAG:
            return "true or false"
        return (
            f"{'any' if self.kind is ValueType.WORDS else 'one'} of {', '.join(self._accepted(minor))}"
            if self.words
            else f"a {self.kind.value}"
        )

    def _accepted(self, minor: Minor) -> tuple[str, ...]:
        return tuple(word for word, rule in self.words.items() if not rule or holds(rule, minor))


_FLAG: Final = Key(kind=ValueType.FLAG)
_TEXT: Final = Key(kind=ValueType.TEXT)
_NUM: Final = Key(kind=ValueType.NUMBER)


def _flag_if(rule: str) -> Key:
    return Key(kind=ValueType.FLAG, rule=rule)


def _words(*words: str, any_case: bool = False) -> Key:
    return Key(kind=ValueType.WORD, words=dict.fromkeys(words, ""), any_case=any_case)


KEYS: Final[Mapping[str, tuple[Key, ...]]] = {
    # Cluster and identities: CM-ID-01 to CM-ID-08 say what is wrong with these
    **dict.fromkeys(("cluster-name", "cluster-id", "max-connected-clusters", "identity-allocation-mode", "kvstore"), (_TEXT,)),
    "disable-endpoint-crd": (_FLAG,),
    # Addresses
    "ipam": (
        _words(*("cluster-pool", "kubernetes", "multi-pool", "crd", "eni", "azure", "alibabacloud", "delegated-plugin"), any_case=True),
    ),
    **dict.fromkeys(("cluster-pool-ipv4-cidr", "cluster-pool-ipv6-cidr", "ipv4-native-routing-cidr", "ipv6-native-routing-cidr"), (_TEXT,)),
    **dict.fromkeys(("enable-ipv4", "enable-ipv6", "enable-ipv4-masquerade", "enable-ipv6-masquerade", "enable-ip-masq-agent"), (_FLAG,)),
    "cni-chaining-mode": (_TEXT,),
    # Datapath
    "routing-mode": (_words("tunnel", "native"),),
    "tunnel": (Key(kind=ValueType.TEXT, rule="tunnel_key"),),
    "tunnel-protocol": (_words("vxlan", "geneve"),),
    "underlay-protocol": (Key(kind=ValueType.WORD, rule="underlay_key", words={"ipv4": "", "ipv6": "", "auto": "underlay_by_family"}),),
    **dict.fromkeys(("tunnel-port", "mtu", "cluster-health-port"), (_NUM,)),
    "auto-direct-node-routes": (_FLAG,),
    "kube-proxy-replacement": (
        Key(kind=ValueType.WORD, rule="kube_proxy_replacement_words", words={"true": "", "false": ""}),
        _FLAG,
    ),
    "enable-node-port": (_flag_if("node_port_key"),),
    "enable-svc-source-range-check": (_flag_if("source_range_check_optional"),),
    "bpf-lb-source-range-all-types": (_flag_if("source_ranges_everywhere"),),
    "bpf-lb-map-max": (_NUM,),
    "enable-sctp": (_FLAG,),
    "enable-gateway-api": (_FLAG,),
    "enable-health-checking": (_FLAG,),
    # Encryption
    **dict.fromkeys(("enable-ipsec", "enable-wireguard", "encrypt-node", "enable-host-firewall"), (_FLAG,)),
    "ipsec-key-file": (_TEXT,),
    "enable-ztunnel": (_flag_if("ztunnel"),),
    "enable-encryption-strict-mode": (_flag_if("strict_mode_key"),),  # 1.19 still reads it, as the key for egress
    "encryption-strict-mode-cidr": (Key(kind=ValueType.TEXT, rule="strict_mode_key"),),
    "enable-encryption-strict-mode-egress": (_flag_if("strict_egress"),),
    "encryption-strict-egress-cidr": (Key(kind=ValueType.TEXT, rule="strict_egress"),),
    "enable-encryption-strict-mode-ingress": (_flag_if("strict_egress"),),
    # Cluster Mesh
    "clustermesh-config": (_TEXT,),
    "clustermesh-enable-endpoint-sync": (_flag_if("endpoint_sync"),),
    "clustermesh-enable-mcs-api": (_flag_if("mcs_api"),),
    "clustermesh-mcs-api-install-crds": (_flag_if("mcs_crds_installed"),),
    "clustermesh-cache-ttl": (Key(kind=ValueType.TEXT, rule="cache_ttl"),),
    "clustermesh-default-global-namespace": (_flag_if("namespace_filter"),),
    # Policies
    "enable-policy": (_TEXT,),  # agents take any word, and one that they do not know for default
    "policy-audit-mode": (_FLAG,),
    "policy-default-local-cluster": (_flag_if("policy_local_key"),),
    "policy-cidr-match-mode": (Key(kind=ValueType.WORDS, words={"nodes": "", "pods": "cidr_means_pods"}),),
    "allow-localhost": (_words("auto", "always", "policy", any_case=True),),
    "enable-non-default-deny-policies": (_flag_if("non_default_deny"),),
    "enable-k8s-networkpolicy": (_FLAG,),
    "enable-cilium-network-policy": (_flag_if("policy_kind_switches"),),
    "enable-cilium-clusterwide-network-policy": (_flag_if("policy_kind_switches"),),
    "enable-k8s-cluster-network-policy": (_flag_if("cluster_network_policy"),),
    **dict.fromkeys(("enable-icmp-rules", "enable-l7-proxy", "enable-node-selector-labels"), (_FLAG,)),
    **dict.fromkeys(("labels", "label-prefix-file", "static-cnp-path"), (_TEXT,)),
    "mesh-auth-enabled": (_FLAG,),
    # Hubble
    "enable-hubble": (_FLAG,),
    "hubble-socket-path": (_TEXT,),
}
"""The keys. A read of another one fails (mesh/versions/cilium_config.py)."""


VARYING: Final = frozenset(name for name, rows in KEYS.items() if any(row.rule for row in rows))
"""Keys that not all minors read in the same way. For the others a reader need not find out the version, of which there are many."""


def key_of(name: str, minor: Minor | None) -> Key | None:
    """Return how a minor reads a key; None if it does not read it.

    :raises KeyError: when the key is none of ``KEYS``.
    """
    rows = KEYS[name]
    return next((row for row in rows if row.is_read(minor)), None) if name in VARYING else rows[0]


def refused_values(config: Mapping[str, str], minor: Minor | None) -> dict[str, str]:
    """Return the keys whose value Cilium of this minor refuses, each with what it accepts; {} for a minor that is not supported."""
    if minor is None or minor not in SUPPORTED:
        return {}
    rows = {name: row for name in KEYS if name in config and (row := key_of(name, minor))}
    return {name: row.shown(minor) for name, row in rows.items() if not row.accepts(config[name], minor)}
