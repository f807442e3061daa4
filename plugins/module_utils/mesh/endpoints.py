# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Endpoint at which peers reach the mesh etcd of a cluster.

Agents and kvstoremesh verify the server certificate against the name they dial, and etcd's client configuration has no override
for that name. The chart's certificate covers ``*.mesh.cilium.io`` and no addresses, so an address is dialled as
``<cluster>.mesh.cilium.io`` with an alias; a DNS name is dialled as it is, and only when the certificate covers it. An address stands in
the URL itself only where the certificate names the address and no mesh name.

Sources: Cilium chart, templates/clustermesh-config/_helpers.tpl and templates/clustermesh-apiserver/tls-helm/server-secret.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import ip_address

from .facts import CertificateFacts, ClusterFacts, NodeFacts, ServiceFacts

MESH_DOMAIN = "mesh.cilium.io"  # default of the chart's clustermesh.config.domain
NODES_PER_ENDPOINT = 3  # two nodes may fail without cutting the link, and the list of aliases stays short
ENOUGH_NODES = 2  # one node may fail without cutting the link: a third one is not worth the restart that a new address costs before 1.20
DEFAULT_PORT = 2379

_DNS_NAME = re.compile(r"(?=.{1,253}$)[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*\.?")


@dataclass(frozen=True, kw_only=True)
class MeshEndpoint:
    """Endpoint to dial: ``hostname`` goes into the URL; ``ips`` are its aliases, empty if the name is left to DNS."""

    hostname: str
    port: int
    ips: tuple[str, ...] = ()
    kept: str = ""  # why the endpoint in use is kept instead of the one found now; "" otherwise

    @cached_property
    def url(self) -> str:
        """URL for the etcd client configuration."""
        return f"https://{_bracketed(self.hostname)}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class EndpointProblem:
    """Reason why a cluster has no usable endpoint, and the fix.

    ``pending``: it will get one by itself, and other clusters need not wait for it.
    """

    summary: str
    evidence: str = ""
    fix: str = ""
    pending: bool = False


@dataclass(frozen=True, kw_only=True)
class InUse:
    """Endpoint of one peer in the entries of this binding in the members: name and port of the URL, and addresses of its aliases."""

    hostname: str = ""
    port: int = 0
    ips: tuple[str, ...] = ()


def endpoint_of(
    peer: ClusterFacts,
    *,
    node_addresses: str = "InternalIP",
    resolved: Mapping[str, Sequence[str]] | None = None,
    in_use: Callable[[], InUse] = InUse,
) -> MeshEndpoint | EndpointProblem:
    """Return the endpoint of ``peer`` with all its addresses; ``ip_families`` says which of them a cluster can dial.

    :param node_addresses: ``InternalIP`` or ``ExternalIP``, for Services of type NodePort.
    :param resolved: addresses of DNS names that the server certificate does not cover, resolved by the caller.
    :param in_use: returns the endpoint configured for this peer now. Nodes that still serve are kept, because before Cilium 1.20 every
        change of an address restarts a workload. If no other endpoint is known, the one in use stays, because withdrawing it would end the
        link.
    """
    if peer.endpoint_override:
        return _override(peer, resolved or {}, in_use)
    service = peer.service
    if service is None:
        return EndpointProblem(
            summary="Service clustermesh-apiserver does not exist",
            evidence=f"Service {peer.namespace}/clustermesh-apiserver not found",
            fix="set the Helm value clustermesh.useAPIServer=true",
        )
    if service.type == "LoadBalancer":
        return _load_balancer(peer, service, resolved or {}, in_use)
    if service.type == "NodePort":
        return _node_port(peer, service, node_addresses, in_use)
    if service.type == "ClusterIP" and is_ip(service.cluster_ip):
        return _address_endpoint(peer, service.port, sorted_ips((service.cluster_ip, *service.cluster_ips)))
    return EndpointProblem(
        summary=f"Service clustermesh-apiserver of type {service.type} has no address that another cluster could dial",
        evidence=f"spec.type={service.type} spec.clusterIP={service.cluster_ip or '(none)'}",
        fix="set the Helm value clustermesh.apiserver.service.type=LoadBalancer or NodePort",
    )


def mesh_hostname(peer: ClusterFacts) -> str:
    """Return ``<cluster>.mesh.cilium.io``, or the same below another wildcard if only that one is in the server certificate."""
    name = f"{peer.name}.{MESH_DOMAIN}"
    certificate = peer.server_cert.certificate
    if certificate is None or covers(certificate.dns_names, name):
        return name
    wildcards = sorted(n[2:] for n in certificate.dns_names if n.startswith("*.") and _DNS_NAME.fullmatch(n[2:]))
    return f"{peer.name}.{wildcards[0]}" if wildcards else name


def covers(dns_names: Iterable[str], hostname: str) -> bool:
    """Return whether a certificate with these DNS names verifies for ``hostname``.

    A wildcard stands for exactly one label (RFC 6125, as Go's crypto/x509 reads it).
    """
    wanted = hostname.lower().rstrip(".")
    label, dot, rest = wanted.partition(".")
    patterns = {wanted, f"*.{rest}"} if label and dot else {wanted}
    return bool(label) and any(name.lower().rstrip(".") in patterns for name in dns_names)


def certifies(certificate: CertificateFacts, host: str) -> bool:
    """Return whether the certificate verifies for a name or an address. An address has to be among its IP addresses (RFC 6125, 1.7.2)."""
    if is_ip(host):
        return canonical_ip(host) in {canonical_ip(ip) for ip in certificate.ip_addresses if is_ip(ip)}
    return covers(certificate.dns_names, host)


@lru_cache(maxsize=4096)  # in a mesh of 255 clusters it is called 200,000 times with some 1,000 addresses
def is_ip(text: str) -> bool:
    """Return whether ``text`` is an IP address that another cluster can use, so without a zone."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone means nothing in another cluster


@lru_cache(maxsize=4096)
def ip_version(text: str) -> int:
    """Return the IP version of an address literal, 4 or 6.

    :raises ValueError: when ``text`` is no address.
    """
    return ip_address(text).version


@lru_cache(maxsize=4096)
def canonical_ip(text: str) -> str:
    """Return the canonical spelling of an address, so that comparing text compares addresses.

    :raises ValueError: when ``text`` is no address.
    """
    return str(ip_address(text))


def split_host_port(text: str) -> tuple[str, int] | None:
    """Parse ``HOST``, ``HOST:PORT``, ``[IPv6]`` or ``[IPv6]:PORT``; None if it is none of these. Without a port it is 2379."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,5}))?", text)
    plain = re.fullmatch(r"([^:\[\]]+)(?::([0-9]{1,5}))?", text)
    match = bracketed or plain
    if match is None:
        return (canonical_ip(text), DEFAULT_PORT) if is_ip(text) else None
    host, port = match.group(1), int(match.group(2) or DEFAULT_PORT)
    if not 0 < port < 65536:
        return None
    if is_ip(host):
        return canonical_ip(host), port
    return (host, port) if plain and is_dns_name(host) else None


def is_dns_name(text: str) -> bool:
    """Return whether ``text`` is a host name by RFC 1123; a name whose last label is a number would be read as an IPv4 address."""
    return _DNS_NAME.fullmatch(text) is not None and not text.rstrip(".").rpartition(".")[2].isdecimal()


def _override(peer: ClusterFacts, resolved: Mapping[str, Sequence[str]], in_use: Callable[[], InUse]) -> MeshEndpoint | EndpointProblem:
    parts = split_host_port(peer.endpoint_override)
    if parts is None:
        return EndpointProblem(
            summary="the endpoint override is not HOST:PORT",
            evidence="cilium_mesh_endpoint_override of this host",
            fix="write cilium_mesh_endpoint_override as 192.0.2.1:2379, [2001:db8::1]:2379 or mesh.example.com:2379",
        )
    host, port = parts
    if is_ip(host):
        return _address_endpoint(peer, port, (host,))
    return _dns_endpoint(peer, (host,), port, resolved, in_use, "cilium_mesh_endpoint_override")


def _address_endpoint(peer: ClusterFacts, port: int, ips: tuple[str, ...], *, kept: str = "") -> MeshEndpoint:
    """Return an endpoint with addresses under the mesh name, or with one literal address if the certificate covers only that."""
    hostname = mesh_hostname(peer)
    certificate = peer.server_cert.certificate
    if certificate is not None and not covers(certificate.dns_names, hostname):
        literal = next((ip for ip in ips if certifies(certificate, ip)), "")
        if literal:
            return MeshEndpoint(hostname=literal, port=port, kept=kept)
    return MeshEndpoint(hostname=hostname, port=port, ips=ips, kept=kept)


def _load_balancer(
    peer: ClusterFacts, service: ServiceFacts, resolved: Mapping[str, Sequence[str]], in_use: Callable[[], InUse]
) -> MeshEndpoint | EndpointProblem:
    ips = sorted_ips(service.ingress_ips)
    if ips:
        return _address_endpoint(peer, service.port, ips)
    if service.ingress_hostnames:
        return _dns_endpoint(peer, service.ingress_hostnames, service.port, resolved, in_use, "status.loadBalancer.ingress")
    if peer.elb_id:
        used = in_use()
        if used.port and (used.ips or used.hostname != mesh_hostname(peer)):
            why = f"load balancer {peer.elb_id} has no address at the moment"
            return MeshEndpoint(hostname=used.hostname, port=used.port, ips=sorted_ips(used.ips), kept=why)
    return EndpointProblem(
        summary="Service clustermesh-apiserver of type LoadBalancer has no address yet",
        evidence="status.loadBalancer.ingress is empty",
        fix="wait for the load balancer, look at the Service's events, or set cilium_mesh_endpoint_override",
        pending=bool(peer.elb_id),
    )


def _dns_endpoint(
    peer: ClusterFacts,
    names: Sequence[str],
    port: int,
    resolved: Mapping[str, Sequence[str]],
    in_use: Callable[[], InUse],
    source: str,
) -> MeshEndpoint | EndpointProblem:
    """Return the endpoint of a DNS name.

    If the certificate covers a name, it is dialled as it is. If not, only its addresses help, under the mesh name; they are resolved in
    every run. A name that is not found now leaves the endpoint in use as it is: a resolver that is away for a moment must not take a link
    down.
    """
    certificate = peer.server_cert.certificate
    if certificate is not None:
        covered = next((name for name in names if is_dns_name(name) and covers(certificate.dns_names, name)), "")
        if covered:
            return MeshEndpoint(hostname=covered, port=port)
    ips = sorted_ips(ip for name in names for ip in resolved.get(name, ()))
    if ips:
        return _address_endpoint(peer, port, ips)
    shown = " and ".join(repr(name) for name in names)
    used = sorted_ips(in_use().ips)
    if used:
        return _address_endpoint(peer, port, used, kept=f"{shown} is not found in DNS from here")
    return EndpointProblem(
        summary=f"the server certificate does not cover the name {shown}, and no address of it is known",
        evidence=f"{source}; names in the certificate: {', '.join(certificate.dns_names) if certificate else 'no certificate'}",
        fix=f"add {shown} to the Helm value clustermesh.apiserver.tls.server.extraDnsNames, "
        "or set cilium_mesh_endpoint_override to IP:PORT",
    )


def _node_port(
    peer: ClusterFacts, service: ServiceFacts, node_addresses: str, in_use: Callable[[], InUse]
) -> MeshEndpoint | EndpointProblem:
    if service.node_port is None:
        return EndpointProblem(
            summary="Service clustermesh-apiserver of type NodePort has no node port",
            evidence="spec.ports[0].nodePort is unset",
            fix="set the Helm value clustermesh.apiserver.service.nodePort",
        )
    families = _families(service)
    ips = choose_node_ips(peer.nodes, node_addresses, in_use().ips, families)
    if not ips:
        kinds = " or ".join(f"IPv{family}" for family in families)
        return EndpointProblem(
            summary=f"no Ready node has an {node_addresses} ({kinds}), so the NodePort cannot be dialled",
            evidence=f"{len(peer.nodes)} nodes, {sum(n.ready for n in peer.nodes)} Ready; spec.ipFamilies="
            + (",".join(service.ip_families) or "(unset)"),
            fix="bring a node to Ready, choose the other kind of node address, or set cilium_mesh_endpoint_override",
        )
    return _address_endpoint(peer, service.node_port, ips)


def _families(service: ServiceFacts) -> tuple[int, ...]:
    """Return the IP versions in which a node port answers: those of the Service (Kubernetes API, ServiceSpec.ipFamilies)."""
    named = tuple(version for version, name in ((4, "IPv4"), (6, "IPv6")) if name in service.ip_families)
    if named:
        return named
    return (ip_address(service.cluster_ip).version,) if is_ip(service.cluster_ip) else (4, 6)


def choose_node_ips(
    nodes: Sequence[NodeFacts], node_addresses: str, in_use: Sequence[str] = (), families: Sequence[int] = (4, 6)
) -> tuple[str, ...]:
    """Choose up to three node addresses of each family: those in use as long as they serve, else those of Ready nodes by name."""
    return sorted_ips(ip for family in families for ip in _choose_of_family(nodes, node_addresses, in_use, family))


def _choose_of_family(nodes: Sequence[NodeFacts], node_addresses: str, in_use: Sequence[str], family: int) -> tuple[str, ...]:
    """Choose the node addresses of one family.

    The addresses in use stay if every one is still a node's and a Ready one is among them: a node that is away for a moment must not
    restart the clients.
    """
    ready: list[str] = []
    known: set[str] = set()
    for node in sorted(nodes, key=lambda n: n.name):
        addresses = node.external_ips if node_addresses == "ExternalIP" else node.internal_ips
        usable = [canonical_ip(a) for a in addresses if is_ip(a) and ip_version(a) == family][:1]
        known.update(usable)
        ready.extend(a for a in usable if node.ready and a not in ready)
    current = {canonical_ip(a) for a in in_use if is_ip(a) and ip_version(a) == family}
    enough = len(current) >= min(ENOUGH_NODES, len(ready))
    if current and enough and len(current) <= NODES_PER_ENDPOINT and current <= known and not current.isdisjoint(ready):
        return sorted_ips(current)
    stable_first = sorted(ready, key=lambda a: a not in current)  # sorted is stable: by name within each half
    return tuple(stable_first[:NODES_PER_ENDPOINT])


def sorted_ips(ips: Iterable[str]) -> tuple[str, ...]:
    """Return addresses without repetition, IPv4 first: load balancers report their addresses in no particular order."""
    unique = {ip_address(ip) for ip in ips if is_ip(ip)}
    return tuple(str(ip) for ip in sorted(unique, key=lambda ip: (ip.version, int(ip))))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
