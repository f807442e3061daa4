# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that peers can dial the mesh endpoint of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..findings.wording import config_evidence, helm, kubectl, lines, listed, show, where
from ..mesh.endpoints.address_moves import Held
from ..mesh.endpoints.addresses import ip_version
from ..mesh.endpoints.endpoint import SHOWN, EndpointProblem, MeshEndpoint, split_host_port
from ..mesh.endpoints.ip_families import addresses_of, possible_families
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import serves_node_ports
from ..mesh.versions.minors import cilium_version, holds
from .context import HELD, CheckContext
from .flaw import Flaw
from .registry import check


@check("CM-EP-01")
def apiserver_service_exists(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a missing Service clustermesh-apiserver."""
    if facts.apiserver is None or facts.service is not None:
        return
    yield Flaw(
        summary=f"Cluster {facts.host} has no Service clustermesh-apiserver: neither its agents nor its peers can reach its mesh etcd",
        evidence=f"{where(facts, 'Service', 'clustermesh-apiserver')} not found",
        fix=helm(facts, "clustermesh.useAPIServer=true", "clustermesh.apiserver.service.type=LoadBalancer"),
    )


@check("CM-EP-02")
def mesh_endpoint_has_address(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a mesh endpoint without an address that peers can dial."""
    if facts.apiserver is None or facts.service is None or _bad_override(facts):
        return
    endpoint = context.decisions.endpoints[facts.host]
    if not isinstance(endpoint, EndpointProblem) or endpoint.pending:
        return
    place = where(facts, "Service", "clustermesh-apiserver")
    yield Flaw(
        summary=f"The peers of {facts.host} have no address to dial: {endpoint.summary}",
        evidence=endpoint.evidence if facts.endpoint_override else f"{place}: {endpoint.evidence}",
        fix=lines(endpoint.fix[:1].upper() + endpoint.fix[1:] + ".", kubectl(facts, "describe", "service", "clustermesh-apiserver")),
    )


@check("CM-EP-03")
def mesh_endpoint_is_exposed(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a mesh endpoint that only its ClusterIP exposes."""
    if facts.service is None or facts.service.type != "ClusterIP" or facts.endpoint_override:
        return
    yield Flaw(
        summary=f"The peers of {facts.host} will dial the ClusterIP {facts.service.cluster_ip}, which answers only where "
        "Service addresses are routed",
        evidence=f"{where(facts, 'Service', 'clustermesh-apiserver')}: spec.type = ClusterIP",
        fix=lines(
            helm(facts, "clustermesh.apiserver.service.type=LoadBalancer"),
            "Or set cilium_mesh_endpoint_override of this host to the HOST:PORT that peers reach.",
        ),
    )


def _bad_override(facts: ClusterFacts) -> bool:
    """Return whether ``cilium_mesh_endpoint_override`` is set and is not HOST:PORT."""
    return bool(facts.endpoint_override) and split_host_port(facts.endpoint_override) is None


@check("CM-EP-04")
def endpoint_override_is_host_and_port(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a ``cilium_mesh_endpoint_override`` that is not HOST:PORT."""
    if not _bad_override(facts):
        return
    yield Flaw(
        summary=f"The host variable cilium_mesh_endpoint_override of {facts.host} is not HOST:PORT",
        evidence="cilium_mesh_endpoint_override in the inventory",
        fix="Write it as 192.0.2.1:2379, [2001:db8::1]:2379 or mesh.example.com:2379.",
    )


def _node_port_dialled(peer: ClusterFacts) -> int | None:
    """Return the port that peers dial, if they dial a port on nodes of ``peer``; else None."""
    if peer.endpoint_override:
        host, port = split_host_port(peer.endpoint_override) or ("", 0)
        addresses = {ip for node in peer.nodes for ip in (*node.internal_ips, *node.external_ips)}
        return port if host in addresses else None
    return peer.service.node_port if peer.service is not None and peer.service.type == "NodePort" else None


@check("CM-EP-05")
def node_ports_do_not_clash(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report a NodePort of a peer that is also a NodePort of this cluster.

    Kube-proxy replacement treats the nodes of peers as its own once it knows them (cilium issues 24692, 30297; PR 41337).
    """
    port = local.service.node_port if local.service else None
    if port is None or not serves_node_ports(local) or not holds("node_port_clash", cilium_version(local)):
        return
    for peer in peers:
        if _node_port_dialled(peer) != port:
            continue
        yield Flaw(
            peer=peer.host,
            summary=f"{local.host} will connect to itself when it dials NodePort {port} of {peer.host}: "
            "it has a NodePort of the same number",
            evidence=f"{where(local, 'Service', 'clustermesh-apiserver')} of both clusters: nodePort {port}; {local.host} runs Cilium "
            f"{cilium_version(local) or 'of unknown version'} (fixed in 1.19); {config_evidence(local, 'kube-proxy-replacement')}",
            fix=lines(f"Give {peer.host} another number:", helm(peer, f"clustermesh.apiserver.service.nodePort={_other_port(port)}")),
        )


def _other_port(port: int) -> int:
    """Return a neighbour of the port within Kubernetes' default range 30000-32767."""
    return port + 1 if port < 32767 else port - 1


@check("CM-EP-06")
def peer_address_family_is_reachable(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report a peer of whose addresses none has an IP family of this cluster."""
    families = possible_families(local)
    reader = "kvstoremesh" if local.runs_kvstoremesh else "The agents"
    for peer in peers:
        endpoint = context.decisions.endpoints[peer.host]
        addresses = addresses_of(endpoint) if isinstance(endpoint, MeshEndpoint) else ()
        if not addresses or any(ip_version(ip) in families for ip in addresses):
            continue
        has, needs = (" and ".join(f"IPv{v}" for v in sorted(found)) for found in (families, {ip_version(ip) for ip in addresses}))
        yield Flaw(
            peer=peer.host,
            summary=f"{local.host} has {has or 'no IP family'} only, and {peer.host} is reached by {needs} only",
            evidence=f"{reader} of {local.host}: {config_evidence(local, 'enable-ipv4', 'enable-ipv6')}, InternalIPs of its nodes "
            f"{listed(ip for node in local.nodes for ip in node.internal_ips) or 'none'}; addresses of {peer.host}: {listed(addresses)}",
            fix=lines(
                f"Give the Service of {peer.host} an address of the other family (spec.ipFamilyPolicy=PreferDualStack), or set "
                f"cilium_mesh_endpoint_override of {peer.host} to an address that {local.host} can dial.",
                "Accept the finding where a translator (NAT64) stands between the two.",
            ),
        )


@check("CM-EP-07")
def mesh_endpoint_address_is_known(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a mesh endpoint whose address is unknown at the moment.

    Links keep the addresses that they have. Removing them would end the links for what may be a short outage of a resolver.
    """
    endpoint = context.decisions.endpoints[facts.host]
    service = facts.service
    waits = facts.elb_id and service is not None and not service.ingress_hostnames and not facts.endpoint_override  # CM-ELB-03 reports it
    if not isinstance(endpoint, MeshEndpoint) or not endpoint.kept or waits:
        return
    yield Flaw(
        summary=f"The peers of {facts.host} keep the addresses that they have: {endpoint.kept}",
        evidence=f"{'cilium_mesh_endpoint_override' if facts.endpoint_override else 'status.loadBalancer.ingress'}; in use: "
        f"{listed(addresses_of(endpoint)) or endpoint.url}",
        fix=lines(
            "Make the name resolve where this runs and run again, or set cilium_mesh_endpoint_override of this host to IP:PORT.",
            "A name that the server certificate covers is dialled as it is, and looked up by the clusters themselves "
            "(Helm value clustermesh.apiserver.tls.server.extraDnsNames).",
        ),
    )


@check("CM-EP-08")
def reported_names_and_addresses_may_be_dialled(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report names and addresses of a mesh endpoint that are left out because they have a meaning inside the clusters that would dial them.

    Where nothing else is left, CM-EP-02 says so.
    """
    found = context.decisions.refused[facts.host]
    if not found or isinstance(context.decisions.endpoints[facts.host], EndpointProblem):
        return
    yield Flaw(
        summary=f"The peers of {facts.host} do not dial {listed(show(entry.value) for entry in found)}, which it reports as its own",
        evidence=f"{where(facts, 'Service', 'clustermesh-apiserver')}: "
        + "; ".join(f"{show(entry.value)} {entry.why}" for entry in found[:SHOWN]),
        fix=lines(
            f"Remove it where {facts.host} gets it from: its load balancer, or the addresses of its nodes.",
            "If an address is meant, list its range in cilium_mesh_endpoint_networks of this host. "
            "If a name is meant, set cilium_mesh_endpoint_override of this host to it.",
        ),
    )


@check(HELD)
def new_addresses_restart_no_pods_too_soon(context: CheckContext, local: ClusterFacts, peers: Sequence[ClusterFacts]) -> Iterator[Flaw]:
    """Report new addresses of a peer that are not written, because that would restart pods too soon, or for an unproven address."""
    for peer in peers:
        endpoint = context.decisions.dialled[local.host][peer.host]
        if isinstance(endpoint, MeshEndpoint) and endpoint.held is not None:
            yield _held_addresses(local, peer, endpoint, endpoint.held)


def _held_addresses(local: ClusterFacts, peer: ClusterFacts, endpoint: MeshEndpoint, held: Held) -> Flaw:
    used, new = listed(endpoint.ips) or endpoint.hostname, listed(held.addresses)
    until = f"until {held.until:%Y-%m-%d %H:%M} UTC, because they changed shortly before" if held.until else "until they are proven"
    proof = "a TLS handshake there did not show the certificate of the peer, or none came about while the addresses in use answer"
    return Flaw(
        peer=peer.host,
        summary=f"{local.host} keeps dialling {peer.host} at {used}, and not at {new}, {until}",
        evidence=f"{where(peer, 'Service', 'clustermesh-apiserver')} reports {new}; a change restarts the pods that "
        f"dial, as host aliases are in their template before Cilium 1.20" + ("" if held.until else f"; {proof}"),
        fix=lines(
            f"Give {peer.host} an address that stays, such as a reserved one of its load balancer, or set cilium_mesh_endpoint_override.",
            f"Accept {HELD} to write the new addresses now, with the restart that this costs.",
        ),
    )
