# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Decisions about the links of one mesh: the endpoint of each cluster and the trust of each ordered pair, each decided once.

Checks and planner need the same decisions, in a mesh of 255 clusters for 65,000 pairs, and have to come to the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from .address_moves import Held, held_until
from .dialled_endpoints import URL, DialledEndpoints, own_urls
from .endpoint_addresses import dialable, ip_version, is_ip
from .endpoint_names import MESH_DOMAIN, canonical_name
from .endpoints import EndpointProblem, InUse, MeshEndpoint, RefusedValue, endpoint_of, refused_values, split_host_port
from .facts import ClusterFacts
from .ip_families import dialable_families, limit_to_families
from .model import Mesh
from .ownership import recorded_moves
from .trust import Trust, TrustProblem, TrustSide, trust_between
from .trust_mode import AUTO


class Choices:
    """Endpoints and trust of the links of one mesh; a pure function of its arguments with a cache. Not for several threads at once.

    :param facts: by inventory name; clusters outside the mesh are ignored.
    :param now: aware, UTC.
    :param trust: as in ``trust_between``, ``forced``.
    :param node_addresses: as in ``endpoint_of``.
    :param resolved: as in ``endpoint_of``.
    :param unproven: inventory names of clusters whose new addresses showed another server, or none while the ones in use are proven.
    :param follow: write new addresses without a hold-down (mesh/address_moves.py).
    """

    def __init__(
        self,
        mesh: Mesh,
        facts: Mapping[str, ClusterFacts],
        *,
        now: datetime,
        trust: str = AUTO,
        node_addresses: str = "InternalIP",
        resolved: Mapping[str, tuple[str, ...]] | None = None,
        unproven: frozenset[str] = frozenset(),
        follow: bool = False,
    ) -> None:
        self._mesh = mesh
        self._facts = facts
        self._now = now
        self._forced = trust
        self._node_addresses = node_addresses
        self._resolved = resolved or {}
        self._unproven, self._follow = unproven, follow
        self._dialled_by: dict[str, DialledEndpoints] = {}
        self._endpoints: dict[str, MeshEndpoint | EndpointProblem] = {}
        self._families: dict[str, frozenset[int]] = {}
        self._dialled: dict[tuple[str, frozenset[int]], MeshEndpoint] = {}
        self._sides: dict[str, TrustSide] = {}
        self._trust: dict[str, dict[str, Trust | TrustProblem]] = {}  # local -> peer

    def endpoint(self, peer: ClusterFacts) -> MeshEndpoint | EndpointProblem:
        """Return the endpoint of ``peer`` with all its addresses, or the reason why there is none."""
        found = self._endpoints.get(peer.host)
        if found is None:
            found = self._endpoints[peer.host] = endpoint_of(
                peer,
                node_addresses=self._node_addresses,
                resolved=self._resolved,
                in_use=lambda: self._in_use.get(peer.name, InUse()),
                taken=lambda name: bool(self._names_in_use.get(name, frozenset()) - {peer.host}),
                aliased=lambda name: self._aliased(name, peer),
            )
        return found

    def refused(self, peer: ClusterFacts) -> tuple[RefusedValue, ...]:
        """Return the names and addresses that ``peer`` reports for its endpoint and that no other cluster dials."""
        return refused_values(
            peer, node_addresses=self._node_addresses, resolved=self._resolved, aliased=lambda name: self._aliased(name, peer)
        )

    def families(self, local: ClusterFacts) -> frozenset[int]:
        """Return the IP versions that the readers of ``local`` can dial."""
        found = self._families.get(local.host)
        if found is None:
            found = self._families[local.host] = dialable_families(local)
        return found

    def endpoint_for(self, local: ClusterFacts, peer: ClusterFacts) -> MeshEndpoint | EndpointProblem:
        """Return the endpoint at which ``local`` dials ``peer``: with the addresses of the families that the readers of ``local`` have."""
        endpoint = self.endpoint(peer)
        return self.dialled(local, peer, endpoint) if isinstance(endpoint, MeshEndpoint) else endpoint

    def dialled(self, local: ClusterFacts, peer: ClusterFacts, endpoint: MeshEndpoint) -> MeshEndpoint:
        """Reduce an endpoint that ``endpoint`` returned for ``peer`` to the addresses that ``local`` can dial.

        Addresses that would restart the pods of ``local`` may be held back, so that those in use stay.
        """
        key = (peer.host, self.families(local))
        found = self._dialled.get(key)
        if found is None:
            found = self._dialled[key] = limit_to_families(endpoint, key[1])
        used = self._dialled_now(local).changed_by(peer.name, found)
        # An override is the user's own word.
        held = self._held(local, peer, found, used) if used and not self._follow and not peer.endpoint_override else None
        return replace(found, hostname=used.hostname, port=used.port, ips=used.ips, held=held) if used and held else found

    def moved(self) -> dict[str, tuple[MeshEndpoint, MeshEndpoint]]:
        """Return by inventory name the peers that new endpoints would restart pods of a reader for: the new one, and the one in use."""
        found: dict[str, tuple[MeshEndpoint, MeshEndpoint]] = {}
        for local in (self._facts[host] for host in self._mesh.clusters if host in self._facts):
            dialled = self._dialled_now(local)
            for host in self._mesh.peers(local.host) if dialled else ():
                endpoint = self.endpoint(self._facts[host]) if host in self._facts else None
                if isinstance(endpoint, MeshEndpoint):
                    new = limit_to_families(endpoint, self.families(local))
                    if used := dialled.changed_by(self._facts[host].name, new):
                        found[host] = (new, replace(new, hostname=used.hostname, port=used.port, ips=used.ips))
        return found

    def _held(self, local: ClusterFacts, peer: ClusterFacts, found: MeshEndpoint, used: InUse) -> Held | None:
        if dialable(used.ips, peer.endpoint_networks) != used.ips:
            return None  # nothing may be dialled there
        addresses = found.ips or (found.hostname,)
        if peer.host in self._unproven:
            return Held(addresses=addresses)
        workload = local.apiserver if local.runs_kvstoremesh else local.agent
        moves = recorded_moves(self._mesh.binding, workload) if workload else {}
        until = held_until(moves.get(peer.name, ()), self._now)
        return Held(addresses=addresses, until=until) if until else None

    def _dialled_now(self, local: ClusterFacts) -> DialledEndpoints:
        if local.host not in self._dialled_by:
            self._dialled_by[local.host] = DialledEndpoints(local, self._mesh.binding.manager)
        return self._dialled_by[local.host]

    def trust(self, local: ClusterFacts, peer: ClusterFacts) -> Trust | TrustProblem:
        """Return how ``local`` and ``peer`` trust each other when ``local`` dials, or the reason why they cannot.

        :raises InvalidInput: when there is no such trust mode.
        """
        known = self._trust.setdefault(local.host, {})
        found = known.get(peer.host)
        if found is None:
            found = known[peer.host] = trust_between(self._side(local), self._side(peer), self._forced)
        return found

    def _side(self, cluster: ClusterFacts) -> TrustSide:
        if cluster.host not in self._sides:
            self._sides[cluster.host] = TrustSide(cluster, self._now, self._mesh.binding.manager)
        return self._sides[cluster.host]

    @cached_property
    def _in_use(self) -> Mapping[str, InUse]:
        """Endpoint of each peer by cluster name, as this binding's entries have it now in at least half of the members that have one.

        One member whose owner edits its entries must not decide where the others dial.
        """
        ips: dict[str, list[frozenset[str]]] = {}
        urls: dict[str, Counter[tuple[str, int]]] = {}
        for host in self._mesh.clusters:
            if host in self._facts:
                own: dict[str, set[str]] = {}
                for name, ip in _own_entries(self._facts[host], self._mesh.binding.manager):
                    own.setdefault(name, set()).add(ip)
                for name, addresses in own.items():
                    ips.setdefault(name, []).append(frozenset(addresses))
                for name, url in own_urls(self._facts[host], self._mesh.binding.manager):
                    urls.setdefault(name, Counter())[url] += 1
        return {name: _in_use_by_most(ips.get(name, []), urls.get(name, Counter())) for name in {**ips, **urls}}

    def _aliased(self, name: str, peer: ClusterFacts) -> bool:
        """Return whether another member than ``peer`` has a name, given canonical, as its host aliases."""
        return bool(self._mesh_names.get(name, frozenset()) - {peer.host})

    @cached_property
    def _mesh_names(self) -> Mapping[str, frozenset[str]]:
        """Inventory names of the members that may have a DNS name as their host aliases."""
        found: dict[str, set[str]] = {}
        for host in self._mesh.clusters:
            if host in self._facts:
                for domain in (MESH_DOMAIN, *self._facts[host].endpoint_domains):
                    found.setdefault(f"{self._facts[host].name}.{domain}", set()).add(host)
        return {name: frozenset(hosts) for name, hosts in found.items()}

    @cached_property
    def _names_in_use(self) -> Mapping[str, frozenset[str]]:
        """Inventory names of the members to which a DNS name belongs, for the names of their endpoints and those that they dial.

        A name that a member dials for a peer belongs to the peer.
        """
        members = self._mesh.members_in(self._facts)
        by_name: dict[str, list[str]] = {}
        for host, cluster in members.items():
            by_name.setdefault(cluster.name, []).append(host)
        found: dict[str, set[str]] = {}
        for host, cluster in members.items():
            for name in _names_of(cluster):
                found.setdefault(canonical_name(name), set()).add(host)
            for secret in (cluster.kvstoremesh, cluster.clustermesh):
                for key, entry in secret.keys.items():
                    for url in URL.finditer(entry.config or ""):
                        found.setdefault(canonical_name(url[2] or url[1]), set()).update(by_name.get(key, (host,)))
        return {name: frozenset(hosts) for name, hosts in found.items()}


def _in_use_by_most(entries: Sequence[frozenset[str]], urls: Counter[tuple[str, int]]) -> InUse:
    """Return what at least half of the members have, of each IP family among the members that have it. The first of equals counts."""
    hostname, port = min(urls, key=lambda url: (-urls[url], url), default=("", 0))
    found: set[str] = set()
    for version in (4, 6):
        of_family = [kept for addresses in entries if (kept := {ip for ip in addresses if is_ip(ip) and ip_version(ip) == version})]
        counts = Counter(ip for addresses in of_family for ip in addresses)
        found |= {ip for ip, number in counts.items() if 2 * number >= len(of_family)}
    return InUse(hostname=hostname, port=port, ips=tuple(sorted(found)))


def _names_of(cluster: ClusterFacts) -> Iterator[str]:
    """Yield the DNS names at which a cluster itself is reached: those of its mesh endpoint, and the one of its API server."""
    override = split_host_port(cluster.endpoint_override)
    if override is not None:
        yield override[0]
    if cluster.service is not None:
        yield from cluster.service.ingress_hostnames
    for workload in (cluster.agent, cluster.apiserver, cluster.operator):
        for environment in workload.environment.values() if workload else ():
            yield environment.get("KUBERNETES_SERVICE_HOST", "")  # Helm value k8sServiceHost


def _own_entries(local: ClusterFacts, manager: str) -> Iterator[tuple[str, str]]:
    """Yield (cluster name of a peer, address) of host aliases, and of configurations that hold aliases."""
    for workload in (local.apiserver, local.agent):
        for alias in workload.host_aliases if workload else ():
            if manager in alias.managers:
                yield from ((hostname.partition(".")[0], alias.ip) for hostname in alias.hostnames)
    for secret in (local.kvstoremesh, local.clustermesh):
        for name, key in secret.keys.items():
            if key.config and manager in key.managers:
                aliases = key.config.partition("\n  ips:\n")[2]
                yield from ((name, line.strip(' -"')) for line in aliases.splitlines() if line.startswith("    - "))
