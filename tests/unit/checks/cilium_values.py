# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every key of cilium-config that is read, every value that Cilium 1.16 to 1.20 documents for it, and what the engine makes of it.

Values are those of Documentation/cmdref and of the code that validates them (pkg/option, pkg/kpr, pkg/ipam/option, pkg/datapath/tunnel,
pkg/clustermesh/types) in 1.16.19, 1.17.16, 1.18.11, 1.19.5 and 1.20.0. A verdict lists what changes in a healthy mesh (cilium_verdicts.py).
Where it is empty, the value changes nothing by itself; other rows of the key show it beside the settings that it works with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PATCHES: Final = {"1.16": 19, "1.17": 17, "1.18": 11, "1.19": 5, "1.20": 0}
"""Minor -> a patch release of it."""
MINORS: Final = tuple(PATCHES)
REFUSED: Final = "CM-CFG-04"
NATIVE: Final = "ports routes to the pod networks, and all ports of pods (routing-mode native)"
NO_POOL: Final = "pools 0"
HUGE: Final = "9" * 5000


@dataclass(frozen=True, kw_only=True)
class Row:
    """Values of a key that have one verdict, from the minor ``since`` to ``last``; None: the key is unset."""

    values: tuple[str | None, ...]
    verdict: frozenset[str]
    since: str = MINORS[0]
    last: str = MINORS[-1]
    both: Mapping[str, str] = field(default_factory=dict)  # settings of both members beside it
    everywhere: bool = False  # set in both members

    @property
    def minors(self) -> tuple[str, ...]:
        """The minors of the row."""
        return MINORS[MINORS.index(self.since) : MINORS.index(self.last) + 1]


def row(
    *values: str | None,
    to: tuple[str, ...] = (),
    since: str = MINORS[0],
    last: str = MINORS[-1],
    both: Mapping[str, str] | None = None,
    everywhere: bool = False,
) -> Row:
    return Row(values=values, verdict=frozenset(to), since=since, last=last, both=both or {}, everywhere=everywhere)


def flag(
    *to: str, off: tuple[str, ...] = (), doubt: tuple[str, ...] = (), since: str = MINORS[0], last: str = MINORS[-1]
) -> tuple[Row, ...]:
    """Return the rows of a boolean key: what "true" and "false" lead to, and a value that Cilium refuses, with ``doubt`` beside it."""
    return (
        row("true", to=to, since=since, last=last),
        row("false", to=off, since=since, last=last),
        row("yes", to=(REFUSED, *doubt), since=last, last=last),
    )


UNSURE: Final = ("CM-INT-32", "CM-EXPO-04", "unsure True")
"""The evaluator is not certain of anything in the cluster, so intents are not either, and no range of a NodePort is enforced."""
NO_EFFECT: Final = ("CM-INT-04", "CM-EXPO-04", "-CM-INT-30", "-CM-INT-31")
WITHOUT_IPV4: Final = ("CM-EP-06", "CM-EXPO-13", "CM-NET-03", NO_POOL)
IPV6: Final = {"enable-ipv6": "true"}
V6_NATIVE: Final = {"routing-mode": "native", "enable-ipv6": "true", "ipv4-native-routing-cidr": "10.0.0.0/8"}
WIREGUARD: Final = {"enable-wireguard": "true"}
LOST_NAME: Final = ("CM-INT-03", "-CM-INT-13", "-CM-INT-30", "-CM-INT-31")

TABLE: Final[Mapping[str, tuple[Row, ...]]] = {
    # Cluster and identities
    "cluster-name": (
        row("c1", "eu-1", "a" * 32),
        row("default", to=("CM-ID-01",)),
        row("EU", "-c1", "a" * 33, to=("CM-ID-02", *LOST_NAME)),
        row("", None, to=("CM-ID-01", "CM-CERT-05", *LOST_NAME)),
        row("eu-1", to=("CM-ID-04",), everywhere=True),
    ),
    "cluster-id": (
        row("1"),
        row("3", to=("id 3",)),
        row("255", to=("id 255",)),
        row("2", to=("CM-ID-05", "id 2")),
        row("0", "", None, to=("CM-ID-03", "id 0")),
        row("256", to=("CM-ID-03", "id 256")),
        row("010", "0x1", "1.0", "x", "-1", " 1", HUGE, to=("CM-ID-03", "id None")),  # Cilium reads 010 as 8, and 0x1 as 1
        row("256", to=("id 256",), both={"max-connected-clusters": "511"}),
        row("511", to=("id 511",), both={"max-connected-clusters": "511"}),
        row("512", to=("CM-ID-03", "id 512"), both={"max-connected-clusters": "511"}),
    ),
    "max-connected-clusters": (
        row("255", "", None),
        row("511", to=("CM-ID-07", "max clusters 511")),
        row("511", to=("max clusters 511",), everywhere=True),
        row("256", to=("CM-ID-07", "CM-ID-08", "max clusters 256")),
        row("many", to=("CM-ID-07", "CM-ID-08", "max clusters many")),
    ),
    "identity-allocation-mode": (
        row("crd", "kvstore", "", None),  # without a kvstore agents use CRDs
        row("doublewrite-readcrd", "doublewrite-readkvstore", to=("CM-ID-06",), last="1.16"),  # agents of 1.16 do not start
        row("doublewrite-readcrd", "doublewrite-readkvstore", since="1.17"),
        row("CRD", "etcd", to=("CM-ID-06",)),
        row("crd", both={"kvstore": "etcd"}),
        row("kvstore", None, "CRD", "doublewrite-readkvstore", to=("CM-ID-06",), both={"kvstore": "etcd"}),
        row("doublewrite-readcrd", to=("CM-ID-06",), both={"kvstore": "etcd"}, last="1.16"),
        row("doublewrite-readcrd", both={"kvstore": "etcd"}, since="1.17"),
    ),
    "kvstore": (row("", "etcd"), row("etcd", to=("CM-ID-06",), both={"identity-allocation-mode": "kvstore"})),
    "disable-endpoint-crd": flag("CM-INST-10"),  # without a kvstore agents go on, and the operator deletes the objects (endpointgc)
    # Addresses
    "ipam": (
        row("cluster-pool", None, "Cluster-Pool"),
        row("", to=(REFUSED,)),
        *(
            row(mode, to=(f"ipam {mode}", NO_POOL))
            for mode in ("kubernetes", "multi-pool", "crd", "eni", "azure", "alibabacloud", "delegated-plugin")
        ),
        row("ENI", to=("ipam eni", NO_POOL)),
        row("host-local", to=(REFUSED, "ipam host-local", NO_POOL)),
        row("eni", "ENI", to=("CM-ID-09", "ipam eni", NO_POOL), both={"cluster-id": "200"}),
        row("alibabacloud", to=("CM-ID-09", "ipam alibabacloud", NO_POOL), both={"cluster-id": "200"}),
        row("azure", to=("ipam azure", NO_POOL), both={"cluster-id": "200"}),
    ),
    "cluster-pool-ipv4-cidr": (
        row("10.1.0.0/16"),
        row("10.1.0.0/16 10.3.0.0/16", "10.1.0.0/16,10.3.0.0/16", to=("pools 2",)),
        row("10.0.0.0/8", to=("CM-CIDR-02",)),
        row("", "nothing", to=(NO_POOL,)),
    ),
    "cluster-pool-ipv6-cidr": (
        row("fd00:1::/104"),
        row("fd00:1::/104", to=("pools 2",), both=IPV6),
        row("fd00::/104", to=("pools 2", "CM-CIDR-02"), both=IPV6, everywhere=True),
    ),
    "ipv4-native-routing-cidr": (
        row("10.0.0.0/8", "10.1.0.0/16"),
        row("10.0.0.0/8", to=("-CM-NET-05",), both={"routing-mode": "native"}, everywhere=True),
        row("10.1.0.0/16", to=("-CM-NET-05", "CM-NET-04"), both={"routing-mode": "native"}, everywhere=True),
    ),
    "ipv6-native-routing-cidr": (row("fd00::/8"), row("fd00::/8", to=("-CM-NET-05",), both=V6_NATIVE, everywhere=True)),
    "enable-ipv4": (
        *flag(off=(*WITHOUT_IPV4, "families ")),  # none is left, which agents refuse
        row(None),
        row("false", to=(*WITHOUT_IPV4, "families 6"), both=IPV6, last="1.19"),
        row("false", to=(*WITHOUT_IPV4, "families 6", "CM-NET-07", "underlay ipv6"), both=IPV6, since="1.20"),
    ),
    "enable-ipv6": (  # the agents' default is on, the chart's is off
        *flag("CM-NET-03", "families 4 6", doubt=("CM-NET-03", "families 4 6")),
        row(None, to=("CM-NET-03", "families 4 6")),
    ),
    "enable-ipv4-masquerade": (
        *flag(),
        row("false", to=("-CM-NET-05",), both={"routing-mode": "native"}, everywhere=True),
    ),
    "enable-ipv6-masquerade": (*flag(), row("false", to=("-CM-NET-05",), both=V6_NATIVE, everywhere=True)),
    "enable-ip-masq-agent": (
        *flag(),
        row("true", to=("CM-NET-05",), both={"routing-mode": "native", "ipv4-native-routing-cidr": "10.0.0.0/8"}),
    ),
    "cni-chaining-mode": (
        row("none", "aws-cni", "flannel", "generic-veth", "portmap"),
        row("aws-cni", to=("CM-ID-09",), both={"cluster-id": "200"}),
        row("generic-veth", both={"cluster-id": "200"}),
    ),
    # Datapath
    "routing-mode": (
        row("tunnel", None),
        row("", to=(REFUSED,)),
        row("native", to=("CM-NET-01", "CM-NET-05", "routing native", NATIVE)),
        row("native", to=("CM-NET-05", "routing native", NATIVE), everywhere=True),
        row("Native", to=(REFUSED, "CM-NET-01", "routing Native", NATIVE)),
    ),
    "tunnel": (row("vxlan", "geneve", "disabled"),),  # none of these minors reads it
    "tunnel-protocol": (
        row("vxlan", None),
        row("", to=(REFUSED,)),
        row("geneve", to=("CM-NET-02", "tunnel geneve on UDP 6081", "ports UDP 6081 (geneve)")),
        row("geneve", to=("tunnel geneve on UDP 6081", "ports UDP 6081 (geneve)"), everywhere=True),
        row("geneve", to=("tunnel geneve on UDP 6081",), both={"routing-mode": "native"}),
        row("ipip", to=(REFUSED, "CM-NET-02", "tunnel ipip on UDP 8472", "ports the tunnel ipip")),
    ),
    "underlay-protocol": (
        row("ipv4", "ipv6", "auto", last="1.17"),
        row("ipv4", None, since="1.18"),
        row("ipv6", to=("CM-NET-07", "underlay ipv6"), since="1.18"),
        row("ipv6", to=("underlay ipv6",), since="1.18", everywhere=True),
        row("auto", to=(REFUSED,), since="1.18", last="1.19"),
        row("auto", since="1.20"),  # IPv4 where it is on, else IPv6
        row("auto", None, both={"enable-ipv4": "false", "enable-ipv6": "true"}, since="1.20"),
        row("IPv6", to=(REFUSED, "CM-NET-07", "underlay IPv6"), since="1.18"),
    ),
    "tunnel-port": (
        row("0", "8472"),
        row("6081", to=("CM-NET-02", "tunnel vxlan on UDP 6081", "ports UDP 6081 (vxlan)")),
        row("6081", to=("tunnel vxlan on UDP 6081", "ports UDP 6081 (vxlan)"), everywhere=True),
        row("many", to=(REFUSED, "CM-NET-02", "tunnel vxlan on UDP many", "ports UDP many (vxlan)")),
    ),
    "mtu": (row("0"), row("1400", to=("CM-NET-06",)), row("1400", everywhere=True), row("large", to=(REFUSED, "CM-NET-06"))),
    "cluster-health-port": (
        row("4240"),
        row("4241", to=("health port TCP 4241 (cilium-health)",)),
        row("many", to=(REFUSED, "health port TCP many (cilium-health)")),
    ),
    "auto-direct-node-routes": (
        *flag(),
        row("true", "1", "T", to=("CM-NET-06",), both={"routing-mode": "native"}),
        row("true", both={"routing-mode": "native"}, everywhere=True),
    ),
    "kube-proxy-replacement": (
        row("true"),
        row("false", None, to=("kube-proxy replaced False", "node ports False")),
        row("strict", "probe", to=(REFUSED,)),  # up to 1.15
        row("partial", "disabled", "", to=(REFUSED, "kube-proxy replaced False", "node ports False")),
        row("1", "True", to=(REFUSED,), last="1.18"),
        row("1", "True", since="1.19"),
    ),
    "enable-node-port": (
        *flag(last="1.18"),
        row("true", to=("node ports True",), both={"kube-proxy-replacement": "false"}, last="1.18"),
        row("true", both={"kube-proxy-replacement": "false"}, since="1.19"),
    ),
    "enable-svc-source-range-check": flag(off=("CM-EXPO-08",), last="1.18"),
    "bpf-lb-source-range-all-types": (
        *flag(since="1.17"),
        row("true", to=("-CM-EXPO-08",), since="1.17", everywhere=True),
    ),
    "bpf-lb-map-max": (
        row("65536"),
        row("131072", to=("load balancer entries 131072",)),
        row("many", HUGE + "x", to=(REFUSED,)),
    ),
    "enable-sctp": flag("-CM-INT-13"),
    "enable-gateway-api": (*flag(), row("true", to=("-CM-EXPO-05",), everywhere=True)),
    "enable-health-checking": flag(off=("health off True",)),
    # Encryption
    "enable-ipsec": (
        *flag("CM-ENC-01", "ipsec True", "ports IP protocol 50 (ESP of IPsec) and UDP 8472 (vxlan)"),
        row("true", to=("ipsec True", "ports IP protocol 50 (ESP of IPsec) and UDP 8472 (vxlan)"), everywhere=True),
    ),
    "enable-wireguard": (
        *flag("CM-ENC-01", "ports UDP 51871 (WireGuard) and UDP 8472 (vxlan)"),
        row("true", to=("ports UDP 51871 (WireGuard) and UDP 8472 (vxlan)",), everywhere=True),
    ),
    "encrypt-node": (*flag(), row("true", to=("CM-ENC-06",), both=WIREGUARD), row("true", both=WIREGUARD, everywhere=True)),
    "enable-host-firewall": flag("host_firewall True", doubt=UNSURE),
    "ipsec-key-file": (row("/etc/ipsec/keys"), row("/etc/ipsec/other", to=("ipsec key other",))),
    "enable-ztunnel": flag("CM-ENC-05", since="1.19"),
    "enable-encryption-strict-mode": (
        *flag(last="1.19"),
        row("true", to=("CM-ENC-06",), both=WIREGUARD, last="1.19"),
        row("true", both=WIREGUARD, since="1.20"),
    ),
    "encryption-strict-mode-cidr": (
        row("10.0.0.0/8", "10.1.0.0/16"),
        row("10.1.0.0/16", to=("CM-ENC-07",), both={"enable-encryption-strict-mode": "true"}, last="1.19"),
        row("10.0.0.0/8", both={"enable-encryption-strict-mode": "true"}),
    ),
    "enable-encryption-strict-mode-egress": (*flag(since="1.19"), row("true", to=("CM-ENC-06",), both=WIREGUARD, since="1.19")),
    "encryption-strict-egress-cidr": (
        row("10.0.0.0/8", "10.1.0.0/16"),
        row("10.1.0.0/16", to=("CM-ENC-07",), both={"enable-encryption-strict-mode-egress": "true"}, since="1.19"),
        row("10.0.0.0/8", both={"enable-encryption-strict-mode-egress": "true"}),
    ),
    "enable-encryption-strict-mode-ingress": (*flag(since="1.19"), row("true", to=("CM-ENC-06",), both=WIREGUARD, since="1.19")),
    # Cluster Mesh
    "clustermesh-config": (row("/var/lib/cilium/clustermesh/"),),  # the charts give it to the agents as environment
    "clustermesh-enable-endpoint-sync": (
        *flag("CM-CFG-01", "CM-INST-08", "endpoint sync True"),
        row("true", to=("CM-INST-08", "endpoint sync True"), everywhere=True),
    ),
    "clustermesh-enable-mcs-api": (
        *flag("CM-CFG-01", "mcs True", last="1.16"),
        *flag("CM-CFG-01", "CM-INST-08", "mcs True", since="1.17"),
    ),
    "clustermesh-mcs-api-install-crds": flag(since="1.19"),  # an upgrade to 1.19 says what it does
    "clustermesh-cache-ttl": (
        row("0s", "15m", last="1.18"),
        row("0s", "0", since="1.19"),
        row("15m", to=("cache ttl 900.0",), since="1.19"),
        row("soon", to=("cache ttl None",), since="1.19"),
    ),
    "clustermesh-default-global-namespace": (
        *flag(off=("CM-CFG-01", "global by default False"), since="1.20"),
        row("false", to=("CM-INT-14", "global by default False"), since="1.20", everywhere=True),
    ),
    # Policies
    "enable-policy": (
        row("default", "Default", "", None),
        row("always", "ALWAYS", to=("CM-INT-05", "-CM-INT-30", "-CM-INT-31", "mode always")),
        row("never", "Never", to=(*NO_EFFECT, "mode never")),
        row("sometimes", to=("CM-INT-32", "unsure True", "mode sometimes")),  # agents take it for default
    ),
    "policy-audit-mode": flag(*NO_EFFECT, "audit True", doubt=UNSURE),
    "policy-default-local-cluster": (
        *flag("CM-CFG-01", "local_by_default True", since="1.18", last="1.18", doubt=UNSURE),
        *flag(off=("CM-CFG-01", "local_by_default False"), since="1.19", doubt=UNSURE),
        row(None, since="1.18"),
    ),
    "policy-cidr-match-mode": (
        row("", None),
        row("nodes", to=("CM-EXPO-04", "cidr_kinds host remote-node")),
        row("pods", to=(REFUSED, "CM-EXPO-04", "cidr_kinds pod"), last="1.19"),
        row("pods", to=("CM-EXPO-04", "cidr_kinds pod"), since="1.20"),
        row("nodes pods", to=("CM-EXPO-04", "cidr_kinds host pod remote-node"), since="1.20"),
        row("nodes,pods", "Nodes", to=(REFUSED,)),
    ),
    "allow-localhost": (
        row("auto", "always", "Always", None),
        row("policy", to=("own_node_allowed False",)),
        row("sometimes", "", to=(REFUSED,)),
    ),
    "enable-non-default-deny-policies": flag(
        off=("CM-CFG-01", "CM-INT-02", "CM-INT-30", "CM-EXPO-04", "non_default_deny False"), since="1.17", doubt=UNSURE
    ),
    "enable-k8s-networkpolicy": flag(off=("ignored NetworkPolicy",), doubt=UNSURE),
    "enable-cilium-network-policy": flag(
        off=("CM-INT-04", "CM-EXPO-04", "-CM-INT-31", "ignored CiliumNetworkPolicy"), since="1.17", doubt=UNSURE
    ),
    "enable-cilium-clusterwide-network-policy": flag(
        off=("CM-INT-04", "-CM-INT-30", "-CM-INT-31", "ignored CiliumClusterwideNetworkPolicy"), since="1.17", doubt=UNSURE
    ),
    "enable-k8s-cluster-network-policy": flag("CM-INT-32", "unsure True", since="1.20", doubt=UNSURE),
    "enable-icmp-rules": flag(off=("CM-INT-12", "-CM-INT-31", "icmp_rules False"), doubt=UNSURE),
    "enable-l7-proxy": flag(off=("l7_proxy False",), doubt=UNSURE),
    "enable-node-selector-labels": flag("node_labels True", doubt=UNSURE),
    "labels": (
        row("", "k8s:app k8s:io.*"),
        row("k8s:!app", to=("CM-INT-11", "CM-EXPO-04", "-CM-INT-30", "-CM-INT-31", "label filters (False, ())")),
        row("(a|b)+", to=("CM-INT-32", "CM-EXPO-04", "-CM-INT-30", "-CM-INT-31", "label filters (None, ('labels',))")),
    ),
    "label-prefix-file": (
        row(""),
        row("/etc/cilium/x", to=("CM-INT-32", "CM-EXPO-04", "-CM-INT-30", "-CM-INT-31", "label filters (None, ('label-prefix-file',))")),
    ),
    "static-cnp-path": (row(""), row("/policies", to=("CM-INT-32", "unsure True"))),
    "mesh-auth-enabled": flag("authentication True"),
    # Hubble
    "enable-hubble": flag("hubble True"),
    "hubble-socket-path": (row("/var/run/cilium/hubble.sock", ""), row("/run/x.sock", to=("socket unix:///run/x.sock",))),
}
"""Key -> its rows. A minor that does not read a key is in no row of it, unless the row says so: there no value changes anything."""
