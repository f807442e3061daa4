# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of the addresses under which peers know a cluster's nodes, and of the state of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from ..base.networks import NetworkSet
from ..findings.wording import command, listed
from ..mesh.cidrs import allocated_ranges, parse_networks
from ..mesh.endpoints.addresses import canonical_ip, is_ip
from ..mesh.endpoints.endpoint import MeshEndpoint
from ..mesh.facts.cluster import ClusterFacts
from .context import CheckContext, members
from .flaw import Flaw
from .registry import check


@check("CM-NODE-02")
def router_addresses_are_unique(context: CheckContext) -> Iterator[Flaw]:
    """Report nodes of different clusters with the same CiliumInternalIP.

    CiliumInternalIP is the address that answers for a node in the mesh. Within overlapping pod ranges CM-CIDR-01 is reported instead.
    """
    owners: dict[str, dict[str, str]] = {}
    ranges = {f.host: NetworkSet(claim.network for claim in allocated_ranges(f)) for f in members(context)}
    for facts in members(context):
        for node in facts.nodes:
            for ip in node.router_ips:
                if is_ip(ip):
                    owners.setdefault(canonical_ip(ip), {}).setdefault(facts.host, node.name)
    for ip, hosts in owners.items():
        address = parse_networks([ip])[0]
        if len(hosts) < 2 or sum(ranges[host].contains(address) for host in hosts) > 1:
            continue
        yield Flaw(
            hosts=sorted(hosts),
            summary=f"Nodes of {listed(sorted(hosts))} have the same CiliumInternalIP {ip}",
            evidence="CiliumNode.spec.addresses: " + listed(f"{host} {name}" for host, name in sorted(hosts.items())),
            fix="Give all but one of the clusters another pod range, then recreate the nodes; a CiliumNode whose node is gone can be "
            "deleted.",
        )


@check("CM-NODE-03")
def node_addresses_are_routed(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report private node addresses of a cluster whose mesh endpoint is public.

    Pods reach each other over the InternalIP of nodes, whichever address of the mesh endpoint is dialled (cilium issue 38406).
    """
    endpoint = context.decisions.endpoints[facts.host]
    if facts.apiserver is None or not isinstance(endpoint, MeshEndpoint):
        return
    public = [ip for ip in endpoint.ips if ip_address(ip).is_global]
    private = [ip for node in facts.nodes for ip in node.internal_ips if is_ip(ip) and not ip_address(ip).is_global]
    if not public or not private:
        return
    yield Flaw(
        summary=f"The mesh etcd of {facts.host} is dialled over public addresses; its pods are reached over the private addresses "
        "of its nodes, which have to be routed from all peers",
        evidence=f"dialled: {listed(public, 3)}; InternalIP of nodes: {listed(private, 3)}",
        fix="Peer or tunnel the networks of the nodes (UDP 8472 for VXLAN, 6081 for Geneve, 51871 for WireGuard, ESP for IPsec, TCP "
        "4240 for health), or set --node-ip of the kubelets to addresses that peers reach. If this is in place already, nothing needs to "
        "be done.",
    )


@check("CM-NODE-04")
def nodes_are_ready(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report nodes that are not ready.

    Peers go on sending to pods of nodes that are away (cilium issue 40504).
    """
    away = [node.name for node in facts.nodes if not node.ready]
    if facts.config is None or not away:
        return
    yield Flaw(
        summary=f"{len(away)} of {len(facts.nodes)} nodes of {facts.host} are not ready; peers still send traffic to their pods",
        evidence=f"Node.status.conditions: {listed(away)}",
        fix=command("kubectl", "describe", "node", away[0]) + "\nA node that will not come back has to be deleted.",
    )


@check("CM-NODE-05")
def announced_addresses_are_current(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report CiliumNodes with other addresses than their nodes have.

    Agents publish the addresses of their start. A changed address reaches the mesh only after a restart of the agent.
    """
    wrong = []
    for node in facts.nodes:
        have, published = ({canonical_ip(ip) for ip in ips if is_ip(ip)} for ips in (node.internal_ips, node.mesh_ips))
        if have and published and have.isdisjoint(published):
            wrong.append(f"{node.name} has {listed(sorted(have))}, CiliumNode says {listed(sorted(published))}")
    if wrong:
        yield Flaw(
            summary=f"Peers of {facts.host} send traffic for its pods to addresses that its nodes do not have",
            evidence=listed(wrong),
            fix=command("kubectl", "--namespace", facts.namespace, "rollout", "restart", "daemonset/cilium"),
        )
