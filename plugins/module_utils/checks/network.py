# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of pod and node addresses, routing, tunnels and datapath settings across clusters.

Requirements: Cilium documentation, "Setting up Cluster Mesh", prerequisites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from ..base.networks import Network, NetworkSet
from ..findings.wording import config_evidence, helm, lines, listed, restart
from ..mesh.cidrs import (
    BY_CILIUM,
    BY_CLOUD,
    PAIRS_KEPT,
    POOLED,
    AddressRange,
    Overlap,
    allocated_ranges,
    describe,
    ipam_mode,
    overlaps,
    parse_networks,
    pool_ranges,
)
from ..mesh.endpoints.addresses import canonical_ip, is_ip
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import enabled, ip_versions, routing_mode, setting, tunnel, underlay
from .context import CheckContext, members
from .flaw import Flaw, differing
from .registry import check

_DEFAULT_POOLS: Final = ("10.0.0.0/8", "fd00::/104")  # the chart's cluster-pool-ipv4-cidr and cluster-pool-ipv6-cidr
_SERVICE: Final = "Service clustermesh-apiserver"
_SEPARATE: Final = (
    "Give pods, nodes and Services of all members ranges that no other has; none can be changed under running pods. The Service range is "
    "--service-cluster-ip-range of kube-apiserver (k3s: --service-cidr)."
)


@check("CM-CIDR-01")
def allocated_pod_ranges_are_disjoint(context: CheckContext) -> Iterator[Flaw]:
    """Report clusters with a common peer whose allocated pod ranges overlap.

    Open-source Cilium has no workaround: a pod address must mean one pod (cilium PR 22687 is groundwork only).
    """
    for overlap in overlaps(claim for facts in members(context) for claim in allocated_ranges(facts)):
        yield Flaw(
            hosts=overlap.hosts,
            summary=f"Clusters {listed(overlap.hosts)} give out the same pod addresses",
            evidence=describe(overlap.pairs),
            fix=lines(
                "Give all but one of them another range. It cannot be changed under running pods: recreate the nodes of that "
                "cluster afterwards.",
                _new_range(context.facts[overlap.hosts[-1]], _family_of(overlap, overlap.hosts[-1])),
            ),
        )


def _new_range(facts: ClusterFacts, version: int) -> str:
    """Return how to give the cluster another pod range of the IP version."""
    mode = ipam_mode(facts)
    if mode in POOLED:
        return helm(facts, f"ipam.operator.clusterPoolIPv{version}PodCIDRList={{A_RANGE_OF_ITS_OWN}}")
    if mode == "kubernetes":
        return f"Cluster {facts.host} takes its ranges from Kubernetes: set --cluster-cidr of its kube-controller-manager."
    if mode == "multi-pool":
        return (
            f"Cluster {facts.host} takes its ranges from CiliumPodIPPools: make pools with other ranges, and let its namespaces use them."
        )
    if mode in BY_CLOUD:
        return f"Cluster {facts.host} gives pods addresses of the cloud's network (ipam {mode}): move its nodes to another network."
    return f"Cluster {facts.host} gets the addresses of pods from what runs beside Cilium (ipam {mode}): set another range there."


def _family_of(overlap: Overlap, host: str) -> int:
    """Return the IP version of a range of the cluster that overlaps."""
    return next(claim.network.version for pair in overlap.pairs for claim in pair if claim.host == host)


@check("CM-CIDR-02")
def pod_pools_are_disjoint(context: CheckContext) -> Iterator[Flaw]:
    """Report clusters with a common peer whose pools of pod addresses overlap.

    A pool is the range that a cluster may allocate from. It is compared with the pools of the others and with what they have allocated.
    """
    claims: list[AddressRange] = []
    for facts in members(context):
        claims += pool_ranges(facts) or allocated_ranges(facts)
    for overlap in overlaps(claims, only_pools=True):
        default = any(str(claim.network) in _DEFAULT_POOLS for pair in overlap.pairs for claim in pair)
        yield Flaw(
            hosts=overlap.hosts,
            summary=f"The pod address pools of clusters {listed(overlap.hosts)} overlap: two nodes may be given the same range at any time",
            evidence=describe(overlap.pairs) + (". 10.0.0.0/8 and fd00::/104 are the chart's defaults" if default else ""),
            fix=lines(
                "Before nodes are added, give each cluster a pool of its own (existing nodes keep what they have):",
                _pool_fix(context, overlap),
                "Accept CM-CIDR-02 only when the ranges of all nodes, also future ones, are known to differ.",
            ),
        )


def _pool_fix(context: CheckContext, overlap: Overlap) -> str:
    """Return what to do in the cluster whose pool is the wider one of two that overlap."""
    pool = next(claim for pair in overlap.pairs for claim in pair if not claim.allocated)
    return _new_range(context.facts[pool.host], pool.network.version)


@check("CM-CIDR-03")
def nodes_are_outside_pod_ranges(context: CheckContext) -> Iterator[Flaw]:
    """Report nodes whose InternalIP lies in a pod range of another cluster."""
    claims = [claim for facts in members(context) for claim in allocated_ranges(facts)]
    claims += [claim for facts in members(context) for claim in _node_addresses(facts)]
    for overlap in overlaps(claims, only_pools=True):
        mixed = [pair for pair in overlap.pairs if pair[0].allocated]  # equal node addresses are reported by CM-NODE-01
        if not mixed:
            continue
        hosts = sorted({claim.host for pair in mixed for claim in pair})
        yield Flaw(
            hosts=hosts,
            summary=f"Clusters {listed(hosts)}: nodes of one have addresses that another gives to its pods",
            evidence=describe(mixed),
            fix=lines(
                "Give the pods another range, then recreate the nodes of that cluster:",
                _new_range(context.facts[mixed[0][0].host], mixed[0][0].network.version),
            ),
        )


@check("CM-CIDR-04")
def services_and_own_nodes_are_outside_pod_ranges(context: CheckContext) -> Iterator[Flaw]:
    """Report addresses of Services that are in a pod range, or of a node, of any member; and nodes in pod ranges of their own cluster.

    Service ranges are in no object that is read, so a Service stands for its range. The chart's default pools are left out: they hold every
    usual Service range, and are given out from their other end.
    """
    services: dict[Network, list[str]] = {}
    claims: list[AddressRange] = []
    for facts in members(context):
        texts = (facts.service.cluster_ip, *facts.service.cluster_ips) if facts.service else ()
        for network in dict.fromkeys(parse_networks(text for text in texts if is_ip(text))):
            services.setdefault(network, []).append(facts.host)
        ranges = (*pool_ranges(facts), *allocated_ranges(facts))
        claims += [replace(claim, allocated=True) for claim in ranges if str(claim.network) not in _DEFAULT_POOLS]
        claims += [replace(claim, allocated=True) for claim in _node_addresses(facts)]
    claims += [AddressRange(host="", network=network, source=_SERVICE, allocated=False) for network in services]
    for overlap in overlaps(claims, only_pools=True):
        pairs = [(one, other) if one.host else (other, one) for one, other in overlap.pairs]
        hosts = sorted({host for taken, service in pairs for host in (taken.host, *services[service.network])})
        shown = (
            f"{service.network.network_address} is {_SERVICE} of {listed(services[service.network])}, and in {taken.network} of "
            f"{taken.host} ({taken.source})"
            for taken, service in pairs
        )
        yield Flaw(
            hosts=hosts,
            summary=f"{listed(hosts)}: an address of a Service is also one of pods or nodes, which its cluster may not reach",
            evidence="; ".join(shown),
            fix=_SEPARATE,
        )
    for facts in members(context):
        own = list(allocated_ranges(facts)) if ipam_mode(facts) in (*BY_CILIUM, "kubernetes") else []
        taken = NetworkSet(claim.network for claim in own)
        inside = [claim for claim in _node_addresses(facts) if taken.contains(claim.network)]
        if inside:
            yield Flaw(
                hosts=(facts.host,),
                summary=f"Cluster {facts.host} gives addresses of its own nodes to pods",
                evidence="; ".join(f"{claim.source} is {claim.network.network_address}" for claim in inside[:PAIRS_KEPT])
                + f", and pods have {listed(str(claim.network) for claim in own)}",
                fix=_SEPARATE,
            )


def _node_addresses(facts: ClusterFacts) -> Iterator[AddressRange]:
    for node in facts.nodes:
        for network in parse_networks(ip for ip in node.internal_ips if is_ip(ip)):
            yield AddressRange(host=facts.host, network=network, source=f"InternalIP of Node {node.name}", allocated=False)


@check("CM-NODE-01")
def node_addresses_are_unique(context: CheckContext) -> Iterator[Flaw]:
    """Report nodes of different clusters with the same InternalIP."""
    owners: dict[str, dict[str, str]] = {}
    for facts in members(context):
        for node in facts.nodes:
            for ip in (*node.internal_ips, *node.mesh_ips):
                if is_ip(ip):
                    owners.setdefault(canonical_ip(ip), {}).setdefault(facts.host, node.name)
    same: dict[tuple[str, ...], list[str]] = {}
    for ip, hosts in owners.items():
        if len(hosts) > 1:
            same.setdefault(tuple(sorted(hosts)), []).append(ip)
    for group, ips in same.items():
        ips.sort(key=lambda ip: (ip_address(ip).version, int(ip_address(ip))))
        first = "; ".join(f"{ip}: {listed(f'{host} {owners[ip][host]}' for host in group)}" for ip in ips[:PAIRS_KEPT])
        yield Flaw(
            hosts=group,
            summary=f"Nodes of {listed(group)} have the same InternalIP: {listed(ips, 3)}",
            evidence=f"Node.status.addresses and CiliumNode.spec.addresses: {first}",
            fix="Nodes of all clusters must reach each other by InternalIP. Renumber the nodes of all but one cluster, "
            "or set --node-ip of their kubelets to an address that is unique in the mesh.",
        )


@check("CM-NET-01")
def routing_modes_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters with different routing modes."""
    summary = "The clusters route pod traffic in different ways"
    return differing(members(context), "routing-mode", routing_mode, summary, "Set the same Helm value routingMode in all clusters.")


@check("CM-NET-02")
def tunnels_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters with different tunnel protocols or ports."""
    return differing(
        (f for f in members(context) if routing_mode(f) == "tunnel"),
        "tunnel-protocol and tunnel-port",
        tunnel,
        "The clusters use different tunnels, so their nodes cannot read each other's packets",
        "Set the same Helm values tunnelProtocol and tunnelPort in all clusters.",
    )


def _address_families(facts: ClusterFacts) -> str:
    """Return the IP families that are on in the cluster."""
    return " and ".join(f"IPv{version}" for version in sorted(ip_versions(facts)))


@check("CM-NET-03")
def address_families_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters with different IP families."""
    return differing(
        members(context),
        "enable-ipv4 and enable-ipv6",
        _address_families,
        "The clusters do not all use the same address families",
        "Set the same Helm values ipv4.enabled and ipv6.enabled in all clusters.",
    )


@check("CM-NET-04")
def native_ranges_cover_peers(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report pods of a peer outside of the native routing range.

    Traffic to them is masqueraded, so that the peer sees node addresses and policies see ``world``.
    """
    if local.config is None or routing_mode(local) != "native":
        return
    for version, family in ((4, "ipv4"), (6, "ipv6")):
        key = f"{family}-native-routing-cidr"
        text = setting(local, key)
        if not text or not enabled(local, f"enable-{family}-masquerade", True) or enabled(local, "enable-ip-masq-agent"):
            continue  # with ip-masq-agent its own list decides as well (CM-NET-05)
        own = NetworkSet(parse_networks([text]))
        for peer in peers:
            wanted = (pool_ranges(peer) or allocated_ranges(peer)) if peer.config is not None else ()
            outside = [c for c in wanted if c.network.version == version and not own.contains(c.network)]
            if outside:
                yield Flaw(
                    peer=peer.host,
                    summary=f"{local.host} masquerades traffic to pods of {peer.host}: they are outside of its native routing range",
                    evidence=f"{config_evidence(local, key)}; {peer.host}: {listed(f'{c.network} ({c.source})' for c in outside)}",
                    fix=lines(helm(local, f"{family}NativeRoutingCIDR=A_RANGE_THAT_HOLDS_THE_PODS_OF_ALL_CLUSTERS"), restart(local)),
                )


_DERIVED = {"eni": "of the VPC", "alibabacloud": "of the VPC"}
"""IPAM modes in which the agent takes the range from the cloud if none is set (Cilium option.checkIPv4NativeRoutingCIDR)."""


@check("CM-NET-05")
def native_range_is_set(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report native routing without a native routing range.

    Traffic outside of the range is masqueraded; agents without a range of the cloud do not start (pkg/option).
    """
    if facts.config is None or routing_mode(facts) != "native":
        return
    given = {family: setting(facts, f"{family}-native-routing-cidr") for family in ("ipv4", "ipv6")}
    masked = [f for f in given if enabled(facts, f"enable-{f}", True) and enabled(facts, f"enable-{f}-masquerade", True)]
    by_list = enabled(facts, "enable-ip-masq-agent")
    missing = [family for family in masked if by_list or not given[family]]
    if not missing:
        return
    if by_list:
        why = "ip-masq-agent decides what is masqueraded, and its list is not checked"
    elif ipam_mode(facts) in _DERIVED:
        why = f"the range is that {_DERIVED[ipam_mode(facts)]}, so traffic to pods of peers outside of it is masqueraded"
    else:
        why = "new agent pods do not start"
    yield Flaw(
        summary=f"{facts.host} routes natively without a native routing range: {why}",
        evidence=config_evidence(facts, *(f"{family}-native-routing-cidr" for family in missing), "enable-ip-masq-agent", "ipam"),
        fix=lines(
            f"Name the pods of all clusters in nonMasqueradeCIDRs of ConfigMap {facts.namespace}/ip-masq-agent."
            if by_list
            else helm(facts, *(f"{family}NativeRoutingCIDR=A_RANGE_THAT_HOLDS_THE_PODS_OF_ALL_CLUSTERS" for family in missing)),
        ),
    )


_DATAPATH: Final[tuple[tuple[str, str, Callable[[ClusterFacts], str], str, str], ...]] = (
    # key, Helm value, what the cluster uses, where it matters, what happens
    (
        "auto-direct-node-routes",
        "autoDirectNodeRoutes",
        lambda facts: str(enabled(facts, "auto-direct-node-routes")).lower(),
        "native",
        "only some of the nodes have routes to the pods of the other clusters",
    ),
    ("mtu", "MTU", lambda facts: setting(facts, "mtu", "0"), "", "large packets from clusters with the larger value are lost on the way"),
)


@check("CM-NET-06")
def datapath_settings_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters that differ in a datapath setting of ``_DATAPATH``."""
    for key, value, used, mode, meaning in _DATAPATH:
        clusters = [f for f in members(context) if mode in ("", routing_mode(f))]
        fix = f"Set the same Helm value {value} in all clusters, or make sure that the network between them compensates for it."
        yield from differing(clusters, key, used, f"The clusters differ in {key}: {meaning}", fix)


@check("CM-NET-07")
def underlays_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters whose tunnels run over different IP families."""
    return differing(
        (f for f in members(context) if routing_mode(f) == "tunnel"),
        "underlay-protocol",
        underlay,
        "Some clusters tunnel between IPv4 and others between IPv6 addresses of nodes, so their nodes do not reach each other",
        "Set the same Helm value underlayProtocol in all clusters.",
        note=" (defaults by version where unset)",
    )
