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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Final

from ...base.redact import one_line
from ..binding.link_policy import LinkPolicy
from ..facts.cluster import CertificateFacts, ClusterFacts, ServiceFacts
from .address_moves import Held
from .addresses import MOST_ADDRESSES, canonical_ip, dialable, first_addresses, is_ip, refusal_of_address, sorted_ips
from .names import MESH_DOMAIN, MemberNames, canonical_name, is_dns_name, is_permitted_domain, refusal_of_name
from .node_addresses import addresses_of_node, choose_node_ips

DEFAULT_PORT = 2379
SHOWN = 5  # refused names and addresses that a text quotes
_POLICY: Final = LinkPolicy()
_NO_NAMES: Final = MemberNames()


@dataclass(frozen=True, kw_only=True)
class MeshEndpoint:
    """Endpoint to dial: ``hostname`` goes into the URL; ``ips`` are its aliases, empty if the name is left to DNS."""

    hostname: str
    port: int
    ips: tuple[str, ...] = ()
    kept: str = ""  # why the endpoint in use is kept instead of the one found now; "" otherwise
    held: Held | None = None  # the addresses in use are kept in one reader, because new ones would restart its pods

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


NOT_IN_USE: Final = InUse()


@dataclass(frozen=True, kw_only=True)
class RefusedValue:
    """Name or address that a cluster reports for its endpoint, and that no other cluster dials."""

    value: str
    why: str  # as the end of a sentence about the value


@dataclass(frozen=True, kw_only=True)
class _Search:
    """The cluster whose endpoint is wanted, and what is known besides its facts. The fields are the arguments of ``endpoint_of``."""

    peer: ClusterFacts
    policy: LinkPolicy
    names: MemberNames
    in_use: InUse

    def usable(self, ips: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses that other clusters may dial, sorted, each once and not too many."""
        return first_addresses(dialable(sorted_ips(ips), self.peer.endpoint_networks))

    def hostname(self) -> str:
        """Return the name under which addresses of the cluster are dialled."""
        return mesh_hostname(self.peer, self.names)

    def certified(self, name: str) -> bool:
        """Return whether the server certificate covers a DNS name; False without a certificate."""
        certificate = self.peer.server_cert.certificate
        return certificate is not None and is_dns_name(name) and covers(certificate.dns_names, name)


def endpoint_of(
    peer: ClusterFacts, policy: LinkPolicy = _POLICY, names: MemberNames = _NO_NAMES, in_use: InUse = NOT_IN_USE
) -> MeshEndpoint | EndpointProblem:
    """Return the endpoint of ``peer`` with all its addresses; ``ip_families`` says which of them a cluster can dial.

    What the peer reports itself is used as far as it may be dialled (endpoint_names.py, endpoint_addresses.py); an override is the user's.

    :param names: those of the members; ``in_use`` of them may be left out unless ``needs_names_in_use``.
    :param in_use: the endpoint configured for this peer now, which may be left out unless ``may_keep_the_one_in_use``. Nodes that still
        serve are kept, because before Cilium 1.20 every change of an address restarts a workload. If no other endpoint is known, the one in
        use stays, because withdrawing it would end the link.
    """
    search = _Search(peer=peer, policy=policy, names=names, in_use=in_use)
    if peer.endpoint_override:
        return _override(search)
    service = peer.service
    if service is None:
        return EndpointProblem(
            summary="Service clustermesh-apiserver does not exist",
            evidence=f"Service {peer.namespace}/clustermesh-apiserver not found",
            fix="set the Helm value clustermesh.useAPIServer=true",
        )
    if service.type == "LoadBalancer":
        return _load_balancer(search, service)
    if service.type == "NodePort":
        return _node_port(search, service)
    if service.type == "ClusterIP" and is_ip(service.cluster_ip):
        ips = search.usable((service.cluster_ip, *service.cluster_ips))
        return _address_endpoint(search, service.port, ips) if ips else _all_refused(search)
    return EndpointProblem(
        summary=f"Service clustermesh-apiserver of type {service.type} has no address that another cluster could dial",
        evidence=f"spec.type={service.type} spec.clusterIP={service.cluster_ip or '(none)'}",
        fix="set the Helm value clustermesh.apiserver.service.type=LoadBalancer or NodePort",
    )


def may_keep_the_one_in_use(peer: ClusterFacts) -> bool:
    """Return whether the endpoint of ``peer`` may depend on the one in use: that of nodes or of a name does, and one that is pending."""
    if peer.endpoint_override:
        parts = split_host_port(peer.endpoint_override)
        return parts is not None and not is_ip(parts[0])
    service = peer.service
    return service is not None and (service.type == "NodePort" or (service.type == "LoadBalancer" and not service.ingress_ips))


def needs_names_in_use(peer: ClusterFacts) -> bool:
    """Return whether the name at which ``peer`` is dialled may depend on those that members use: its certificate lacks the mesh name."""
    certificate = peer.server_cert.certificate
    return certificate is not None and not covers(certificate.dns_names, f"{peer.name}.{MESH_DOMAIN}")


def mesh_hostname(peer: ClusterFacts, names: MemberNames = _NO_NAMES) -> str:
    """Return ``<cluster>.mesh.cilium.io``, or the same below another domain that the user lists, if only that one is in the certificate.

    The certificate is the peer's own work, and all other clusters get the name as a host alias: a wildcard below any other domain counts
    for nothing, and neither does a name that another cluster uses.
    """
    name, certificate = f"{peer.name}.{MESH_DOMAIN}", peer.server_cert.certificate
    if certificate is None or not needs_names_in_use(peer):
        return name
    domains = (domain for domain in wildcard_domains(certificate) if is_permitted_domain(domain, peer.endpoint_domains))
    others = (f"{peer.name}.{domain}" for domain in domains)
    return next((other for other in others if not names.is_used_by_another(other, peer.host)), name)


def wildcard_domains(certificate: CertificateFacts) -> tuple[str, ...]:
    """Return the domains of the wildcards in a certificate, sorted."""
    found = {canonical_name(name[2:]) for name in certificate.dns_names if name.startswith("*.") and is_dns_name(name[2:])}
    return tuple(sorted(found))


def load_balancer_names(peer: ClusterFacts, names: MemberNames = _NO_NAMES) -> tuple[str, ...]:
    """Return the DNS names of the load balancer that other clusters may dial."""
    reported = peer.service.ingress_hostnames if peer.service else ()
    return tuple(name for name in reported if not _refusal_of_name(peer, name, names))


def refused_values(peer: ClusterFacts, policy: LinkPolicy = _POLICY, names: MemberNames = _NO_NAMES) -> tuple[RefusedValue, ...]:
    """Return the names and addresses of the endpoint that the peer reports and that no other cluster dials.

    Of a node, an address is among them if it has no other one.
    """
    service = peer.service
    if service is None or peer.endpoint_override:
        return ()
    found: list[RefusedValue] = []
    if service.type == "LoadBalancer":
        reasons = ((name, _refusal_of_name(peer, name, names)) for name in service.ingress_hostnames)
        found += [RefusedValue(value=name, why=why) for name, why in reasons if why]
        dialled = () if service.ingress_ips else load_balancer_names(peer, names)
        addresses = [*service.ingress_ips, *(ip for name in dialled for ip in policy.resolved.get(name, ()))]
    elif service.type == "NodePort":
        of_nodes = [[ip for ip in addresses_of_node(node, policy.node_addresses) if is_ip(ip)] for node in peer.nodes]
        addresses = [ip for ips in of_nodes if not dialable(ips, peer.endpoint_networks) for ip in ips]
    else:
        addresses = [service.cluster_ip, *service.cluster_ips]
    kinds = ((ip, refusal_of_address(ip, peer.endpoint_networks)) for ip in sorted_ips(addresses))
    found += [RefusedValue(value=ip, why=f"is {_article(kind)} {kind} address") for ip, kind in kinds if kind]
    good = dialable(sorted_ips(addresses), peer.endpoint_networks) if service.type == "LoadBalancer" else ()
    many = sorted_ips(set(good) - set(first_addresses(good)))
    return (*found, *(RefusedValue(value=ip, why=f"is beyond the first {MOST_ADDRESSES} addresses") for ip in many))


def _refusal_of_name(peer: ClusterFacts, name: str, names: MemberNames) -> str:
    return refusal_of_name(name, of_another=names.is_alias_of_another(name, peer.host))


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


def _override(search: _Search) -> MeshEndpoint | EndpointProblem:
    peer = search.peer
    parts = split_host_port(peer.endpoint_override)
    if parts is None:
        return EndpointProblem(
            summary="the endpoint override is not HOST:PORT",
            evidence="cilium_mesh_endpoint_override of this host",
            fix="write cilium_mesh_endpoint_override as 192.0.2.1:2379, [2001:db8::1]:2379 or mesh.example.com:2379",
        )
    host, port = parts
    if is_ip(host):
        return _address_endpoint(search, port, (host,))
    return _dns_endpoint(search, (host,), port, "cilium_mesh_endpoint_override")


def _address_endpoint(search: _Search, port: int, ips: tuple[str, ...], *, kept: str = "") -> MeshEndpoint:
    """Return an endpoint with addresses under the mesh name, or with one literal address if the certificate covers only that."""
    hostname = search.hostname()
    certificate = search.peer.server_cert.certificate
    if certificate is not None and not covers(certificate.dns_names, hostname):
        literal = next((ip for ip in ips if certifies(certificate, ip)), "")
        if literal:
            return MeshEndpoint(hostname=literal, port=port, kept=kept)
    return MeshEndpoint(hostname=hostname, port=port, ips=ips, kept=kept)


def _load_balancer(search: _Search, service: ServiceFacts) -> MeshEndpoint | EndpointProblem:
    peer, ips = search.peer, search.usable(service.ingress_ips)
    if ips:
        return _address_endpoint(search, service.port, ips)
    names = load_balancer_names(peer, search.names)
    if names and not service.ingress_ips:
        return _dns_endpoint(search, names, service.port, "status.loadBalancer.ingress")
    if service.ingress_ips or service.ingress_hostnames:
        return _all_refused(search)
    if peer.elb_id:
        kept = _endpoint_in_use(search, f"load balancer {peer.elb_id} has no address at the moment")
        if kept is not None:
            return kept
    return EndpointProblem(
        summary="Service clustermesh-apiserver of type LoadBalancer has no address yet",
        evidence="status.loadBalancer.ingress is empty",
        fix="wait for the load balancer, look at the Service's events, or set cilium_mesh_endpoint_override",
        pending=bool(peer.elb_id),
    )


def _endpoint_in_use(search: _Search, why: str) -> MeshEndpoint | None:
    """Return the endpoint that members dial now; None if there is none, or none that could have worked.

    It is read from all members, of which one may have written what it likes into its own Secret.
    """
    used = search.in_use
    ips = search.usable(used.ips)
    if not used.port:
        return None
    if ips:
        return _address_endpoint(search, used.port, ips, kept=why)
    if is_ip(used.hostname):
        return _address_endpoint(search, used.port, ips, kept=why) if (ips := search.usable((used.hostname,))) else None
    if not search.certified(used.hostname) or used.hostname == search.hostname():
        return None
    if _refusal_of_name(search.peer, used.hostname, search.names):
        return None
    return MeshEndpoint(hostname=used.hostname, port=used.port, kept=why)


def _dns_endpoint(search: _Search, names: Sequence[str], port: int, source: str) -> MeshEndpoint | EndpointProblem:
    """Return the endpoint of a DNS name.

    If the certificate covers a name, it is dialled as it is. If not, only its addresses help, under the mesh name; they are resolved in
    every run. A name that is not found now leaves the endpoint in use as it is: a resolver that is away for a moment must not take a link
    down.
    """
    covered = next((name for name in names if search.certified(name)), "")
    if covered:
        return MeshEndpoint(hostname=covered, port=port)
    found = [ip for name in names for ip in search.policy.resolved.get(name, ())]
    ips = sorted_ips(found) if search.peer.endpoint_override else search.usable(found)
    if ips:
        return _address_endpoint(search, port, ips)
    if sorted_ips(found):
        return _all_refused(search)
    shown = " and ".join(repr(name) for name in names)
    used = search.usable(search.in_use.ips)
    if used:
        return _address_endpoint(search, port, used, kept=f"{shown} is not found in DNS from here")
    certificate = search.peer.server_cert.certificate
    return EndpointProblem(
        summary=f"the server certificate does not cover the name {shown}, and no address of it is known",
        evidence=f"{source}; names in the certificate: {', '.join(certificate.dns_names) if certificate else 'no certificate'}",
        fix=f"add {shown} to the Helm value clustermesh.apiserver.tls.server.extraDnsNames, "
        "or set cilium_mesh_endpoint_override to IP:PORT",
    )


def _all_refused(search: _Search) -> EndpointProblem:
    """Return the problem of a cluster that reports names or addresses of which no other cluster dials any."""
    found = refused_values(search.peer, search.policy, search.names)[:SHOWN]
    return EndpointProblem(
        summary="no other cluster may dial what it reports: " + "; ".join(f"{one_line(entry.value, 80)} {entry.why}" for entry in found),
        evidence="names and addresses that the cluster reports for its mesh endpoint",
        fix="give the Service clustermesh-apiserver an address that other clusters reach, set cilium_mesh_endpoint_override, or list the "
        "range in cilium_mesh_endpoint_networks of this host if its addresses are meant",
    )


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _node_port(search: _Search, service: ServiceFacts) -> MeshEndpoint | EndpointProblem:
    peer, node_addresses = search.peer, search.policy.node_addresses
    if service.node_port is None:
        return EndpointProblem(
            summary="Service clustermesh-apiserver of type NodePort has no node port",
            evidence="spec.ports[0].nodePort is unset",
            fix="set the Helm value clustermesh.apiserver.service.nodePort",
        )
    families = _families(service)
    ips = choose_node_ips(peer.nodes, node_addresses, search.in_use.ips, families, allowed=peer.endpoint_networks)
    if not ips:
        if refused_values(peer, search.policy, search.names):
            return _all_refused(search)
        kinds = " or ".join(f"IPv{family}" for family in families)
        return EndpointProblem(
            summary=f"no Ready node has an {node_addresses} ({kinds}), so the NodePort cannot be dialled",
            evidence=f"{len(peer.nodes)} nodes, {sum(n.ready for n in peer.nodes)} Ready; spec.ipFamilies="
            + (",".join(service.ip_families) or "(unset)"),
            fix="bring a node to Ready, choose the other kind of node address, or set cilium_mesh_endpoint_override",
        )
    return _address_endpoint(search, service.node_port, ips)


def _families(service: ServiceFacts) -> tuple[int, ...]:
    """Return the IP versions in which a node port answers: those of the Service (Kubernetes API, ServiceSpec.ipFamilies)."""
    named = tuple(version for version, name in ((4, "IPv4"), (6, "IPv6")) if name in service.ip_families)
    if named:
        return named
    return (ip_address(service.cluster_ip).version,) if is_ip(service.cluster_ip) else (4, 6)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
