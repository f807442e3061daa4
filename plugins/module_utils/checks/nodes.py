# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The addresses under which peers know the nodes of a cluster, and the state of the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from ..endpoints import Endpoint, canonical_ip, is_ip
from ..facts import ClusterFacts
from ..findings import CheckContext, Cure, Finding, Scope, Severity, check
from .cidrs import allocated, holds_all, networks
from .wording import command, finding, group_finding, listed, members


@check(
    "CM-NODE-02",
    "Cilium gave nodes of different clusters the same address",
    severity=Severity.BLOCKING,
    scope=Scope.SEEN,
    cure=Cure.REINSTALL,
)
def router_addresses_are_unique(context: CheckContext) -> Iterator[Finding]:
    """CiliumInternalIP is the address that answers for a node in the mesh. Within overlapping pod ranges CM-CIDR-01 tells it."""
    owners: dict[str, dict[str, str]] = {}
    ranges = {f.host: [claim.network for claim in allocated(f)] for f in members(context)}
    for facts in members(context):
        for node in facts.nodes:
            for ip in node.router_ips:
                if is_ip(ip):
                    owners.setdefault(canonical_ip(ip), {}).setdefault(facts.host, node.name)
    for ip, hosts in owners.items():
        address = networks([ip])[0]
        if len(hosts) < 2 or sum(holds_all(ranges[host], address) for host in hosts) > 1:
            continue
        yield group_finding(
            "CM-NODE-02",
            sorted(hosts),
            summary=f"Nodes of {listed(sorted(hosts))} have the same CiliumInternalIP {ip}",
            evidence="CiliumNode.spec.addresses: " + listed(f"{host} {name}" for host, name in sorted(hosts.items())),
            fix="Give all but one of the clusters another pod range, then recreate the nodes; a CiliumNode whose node is gone can be "
            "deleted.",
        )


@check("CM-NODE-03", "Peers dial public addresses, and nodes have private ones", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def node_addresses_are_routed(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Pods reach each other over the nodes' InternalIP whatever the mesh itself is dialled by (cilium issue 38406)."""
    endpoint = context.choices.endpoint(facts)
    if facts.apiserver is None or not isinstance(endpoint, Endpoint):
        return
    public = [ip for ip in endpoint.ips if ip_address(ip).is_global]
    private = [ip for node in facts.nodes for ip in node.internal_ips if is_ip(ip) and not ip_address(ip).is_global]
    if not public or not private:
        return
    yield finding(
        "CM-NODE-03",
        cluster=facts.host,
        summary=f"The mesh etcd of {facts.host} is dialled over public addresses; its pods are reached over the private addresses "
        "of its nodes, which have to be routed from all peers",
        evidence=f"dialled: {listed(public, 3)}; InternalIP of nodes: {listed(private, 3)}",
        fix="Peer or tunnel the networks of the nodes (UDP 8472 for VXLAN, 6081 for Geneve, 51871 for WireGuard, ESP for IPsec, TCP "
        "4240 for health), or set --node-ip of the kubelets to addresses that peers reach. Where it is done, there is nothing to do.",
    )


@check("CM-NODE-04", "Nodes are not ready", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def nodes_are_ready(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Peers go on sending to pods of nodes that are away (cilium issue 40504)."""
    away = [node.name for node in facts.nodes if not node.ready]
    if facts.config is None or not away:
        return
    yield finding(
        "CM-NODE-04",
        cluster=facts.host,
        summary=f"{len(away)} of {len(facts.nodes)} nodes of {facts.host} are not ready; peers go on sending traffic to their pods",
        evidence=f"Node.status.conditions: {listed(away)}",
        fix=command("kubectl", "describe", "node", away[0]) + "\nA node that will not come back has to be deleted.",
    )


@check("CM-NODE-05", "Peers are told other addresses than the nodes have", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def announced_addresses_are_current(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Agents publish what they saw when they started; a changed address of a node reaches the mesh only with a new start."""
    wrong = []
    for node in facts.nodes:
        have, told = ({canonical_ip(ip) for ip in ips if is_ip(ip)} for ips in (node.internal_ips, node.mesh_ips))
        if have and told and have.isdisjoint(told):
            wrong.append(f"{node.name} has {listed(sorted(have))}, CiliumNode says {listed(sorted(told))}")
    if wrong:
        yield finding(
            "CM-NODE-05",
            cluster=facts.host,
            summary=f"Peers of {facts.host} send traffic for its pods to addresses that its nodes do not have",
            evidence=listed(wrong),
            fix=command("kubectl", "--namespace", facts.namespace, "rollout", "restart", "daemonset/cilium"),
        )
