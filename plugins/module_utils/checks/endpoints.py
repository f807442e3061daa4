# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Can the peers dial this cluster's mesh etcd?"""

from __future__ import annotations

from collections.abc import Iterator

from ..endpoints import Endpoint, EndpointProblem, split_host_port, version_of
from ..facts import ClusterFacts
from ..families import addresses_of, possible_families
from ..findings import CheckContext, Finding, Scope, Severity, check
from ..versions import cilium_version, holds
from .wording import config_evidence, enabled, finding, helm, kubectl, lines, listed, replaces_kube_proxy, where


@check("CM-EP-01", "Service clustermesh-apiserver is missing", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def service_exists(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.apiserver is None or facts.service is not None:
        return
    yield finding(
        "CM-EP-01",
        cluster=facts.host,
        summary=f"Cluster {facts.host} has no Service clustermesh-apiserver: neither its agents nor its peers can reach its mesh etcd",
        evidence=f"{where(facts, 'Service', 'clustermesh-apiserver')} not found",
        fix=helm(facts, "clustermesh.useAPIServer=true", "clustermesh.apiserver.service.type=LoadBalancer"),
    )


@check("CM-EP-02", "clustermesh-apiserver has no address to dial", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def service_has_an_address(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.apiserver is None or facts.service is None or _bad_override(facts):
        return
    endpoint = context.choices.endpoint(facts)
    if not isinstance(endpoint, EndpointProblem) or endpoint.pending:
        return
    place = where(facts, "Service", "clustermesh-apiserver")
    yield finding(
        "CM-EP-02",
        cluster=facts.host,
        summary=f"The peers of {facts.host} have no address to dial: {endpoint.summary}",
        evidence=endpoint.evidence if facts.endpoint_override else f"{place}: {endpoint.evidence}",
        fix=lines(endpoint.fix[:1].upper() + endpoint.fix[1:] + ".", kubectl(facts, "describe", "service", "clustermesh-apiserver")),
    )


@check("CM-EP-03", "clustermesh-apiserver is exposed by its ClusterIP only", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def service_is_exposed(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.service is None or facts.service.type != "ClusterIP" or facts.endpoint_override:
        return
    yield finding(
        "CM-EP-03",
        cluster=facts.host,
        summary=f"The peers of {facts.host} will dial the ClusterIP {facts.service.cluster_ip}, which answers only where "
        "Service addresses are routed",
        evidence=f"{where(facts, 'Service', 'clustermesh-apiserver')}: spec.type = ClusterIP",
        fix=lines(
            helm(facts, "clustermesh.apiserver.service.type=LoadBalancer"),
            "Or set cilium_mesh_endpoint_override of this host to the HOST:PORT that peers reach.",
        ),
    )


def _bad_override(facts: ClusterFacts) -> bool:
    return bool(facts.endpoint_override) and split_host_port(facts.endpoint_override) is None


@check("CM-EP-04", "cilium_mesh_endpoint_override is not HOST:PORT", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def override_is_an_address(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if not _bad_override(facts):
        return
    yield finding(
        "CM-EP-04",
        cluster=facts.host,
        summary=f"The host variable cilium_mesh_endpoint_override of {facts.host} is not HOST:PORT",
        evidence="cilium_mesh_endpoint_override in the inventory",
        fix="Write it as 192.0.2.1:2379, [2001:db8::1]:2379 or mesh.example.com:2379.",
    )


def _node_port_dialled(peer: ClusterFacts) -> int | None:
    """The port, when what is dialled is a port on nodes of ``peer``."""
    if peer.endpoint_override:
        host, port = split_host_port(peer.endpoint_override) or ("", 0)
        addresses = {ip for node in peer.nodes for ip in (*node.internal_ips, *node.external_ips)}
        return port if host in addresses else None
    return peer.service.node_port if peer.service is not None and peer.service.type == "NodePort" else None


@check("CM-EP-05", "A NodePort answers in the wrong cluster", severity=Severity.BLOCKING, scope=Scope.PAIR)
def node_ports_do_not_clash(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    """Kube-proxy replacement takes the nodes of peers for its own once it knows them (cilium issues 24692, 30297; PR 41337)."""
    if local.service is None or local.service.node_port is None or _node_port_dialled(peer) != local.service.node_port:
        return
    replaces = replaces_kube_proxy(local) or enabled(local, "enable-node-port")
    if not replaces or not holds("node_port_clash", cilium_version(local)):
        return
    port = local.service.node_port
    yield finding(
        "CM-EP-05",
        cluster=local.host,
        peer=peer.host,
        summary=f"{local.host} will answer itself when it dials NodePort {port} of {peer.host}: the same number is a NodePort of its own",
        evidence=f"{where(local, 'Service', 'clustermesh-apiserver')} of both clusters: nodePort {port}; {local.host} runs Cilium "
        f"{cilium_version(local) or 'of unknown version'} (fixed in 1.19); {config_evidence(local, 'kube-proxy-replacement')}",
        fix=lines(f"Give {peer.host} another number:", helm(peer, f"clustermesh.apiserver.service.nodePort={_other_port(port)}")),
    )


def _other_port(port: int) -> int:
    """A neighbour within Kubernetes' default range 30000-32767."""
    return port + 1 if port < 32767 else port - 1


@check("CM-EP-06", "A cluster cannot dial any address of a peer", severity=Severity.BLOCKING, scope=Scope.PAIR, acceptable=True)
def families_meet(context: CheckContext, local: ClusterFacts, peer: ClusterFacts) -> Iterator[Finding]:
    endpoint = context.choices.endpoint(peer)
    addresses = addresses_of(endpoint) if isinstance(endpoint, Endpoint) else ()
    families = possible_families(local)
    if not addresses or any(version_of(ip) in families for ip in addresses):
        return
    has, needs = (" and ".join(f"IPv{version}" for version in sorted(found)) for found in (families, {version_of(ip) for ip in addresses}))
    reader = "kvstoremesh" if local.runs_kvstoremesh else "The agents"
    yield finding(
        "CM-EP-06",
        cluster=local.host,
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


@check("CM-EP-07", "The address of a cluster is not known at the moment", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def endpoint_is_known(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Links keep the addresses that they have: taking them away would end the links for what may be a resolver that is out for a moment."""
    endpoint = context.choices.endpoint(facts)
    service = facts.service
    waits = facts.elb_id and service is not None and not service.ingress_hostnames and not facts.endpoint_override  # CM-ELB-03 says it
    if not isinstance(endpoint, Endpoint) or not endpoint.kept or waits:
        return
    yield finding(
        "CM-EP-07",
        cluster=facts.host,
        summary=f"The peers of {facts.host} keep the addresses that they have: {endpoint.kept}",
        evidence=f"{'cilium_mesh_endpoint_override' if facts.endpoint_override else 'status.loadBalancer.ingress'}; in use: "
        f"{listed(addresses_of(endpoint)) or endpoint.url}",
        fix=lines(
            "Make the name resolve where this runs and run again, or set cilium_mesh_endpoint_override of this host to IP:PORT.",
            "A name that the server certificate covers is dialled as it is, and looked up by the clusters themselves "
            "(Helm value clustermesh.apiserver.tls.server.extraDnsNames).",
        ),
    )
