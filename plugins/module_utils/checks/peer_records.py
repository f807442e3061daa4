# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of peer records: what a member publishes in its mesh etcd, compared with its configuration.

They run only where the caller read the records (option ``claims``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from ..base.networks import Network, NetworkSet
from ..base.numbers import whole_number
from ..etcd.peer_records import ADDRESSES, CONFIG, IDENTITIES, NODES, RESERVED, PeerRecords, identity_range
from ..findings.wording import listed, show
from ..mesh.cidrs import allocated_ranges, parse_networks, pool_ranges
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import setting
from .context import CheckContext
from .flaw import Flaw
from .registry import check

_FIX = (
    "Inspect that cluster's mesh etcd and its CiliumNodes, CiliumEndpoints and CiliumIdentities to find the writer. Until that is known, "
    "take it out: disconnect with mesh_connect_clusters naming it."
)


def _comparable_records(context: CheckContext, facts: ClusterFacts) -> PeerRecords | None:
    """Return the peer records of the cluster; None where they were not read or cannot be compared."""
    records = context.peer_records.get(facts.host)
    return records if records is not None and records.counts and facts.name and facts.id else None


def _evidence(records: PeerRecords, prefix: str, texts: Iterable[str]) -> str:
    """Return where the records were read, and the texts about them."""
    return f"etcd of {records.host}, read as {records.reader}, below {prefix}: {listed(texts)}"


@check("CM-CLAIM-01")
def published_name_and_id_are_configured(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster-config in etcd with another name or id than cilium-config."""
    records = _comparable_records(context, facts)
    if records is None:
        return
    if records.config is None:
        text = "there is no cluster-config of that name, so that its peers wait for one"
    elif records.config.get("id") != facts.id:
        published = records.config.get("id")
        claim = "it has no id there" if published is None else f"its id there is {show(str(published))}"
        text = f"{claim}, and {facts.id} in cilium-config"
    else:
        return
    yield Flaw(
        summary=f"{facts.host} publishes another name or id to its peers than it has on record",
        evidence=_evidence(records, CONFIG + facts.name, [text]),
        fix=f"If name or id were changed and clustermesh-apiserver was not restarted, restart it. {_FIX}",
    )


@check("CM-CLAIM-02")
def published_nodes_are_own(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report nodes in the peer records that are not nodes of the cluster."""
    records = _comparable_records(context, facts)
    if records is None:
        return
    theirs = {
        ip: peer.host for peer in _other_members(context, facts) for node in peer.nodes for ip in (*node.internal_ips, *node.external_ips)
    }
    found = []
    for node in records.nodes:
        where, _sep, name = node.key.partition("/")
        taken = [f"{ip} of {theirs[ip]}" for ip in node.addresses if ip in theirs]
        if node.problem:
            found.append(f"{show(node.key)} {node.problem}")
        elif (where, node.cluster, node.cluster_id) != (facts.name, facts.name, facts.id):
            found.append(f"{show(node.key)} is a node of cluster {show(node.cluster)} with id {node.cluster_id}")
        elif node.name != name:
            found.append(f"{show(node.key)} has the name {show(node.name)}")
        elif taken:
            found.append(f"{show(node.key)} has the address {listed(taken)}")
    if found:
        yield Flaw(
            summary=f"{facts.host} publishes to its peers {len(found)} of {len(records.nodes)} nodes that are not its own",
            evidence=_evidence(records, NODES, found),
            fix=_FIX,
        )


@check("CM-CLAIM-03")
def published_addresses_are_not_of_others(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report published pod addresses that belong to another member."""
    records = _comparable_records(context, facts)
    if records is None:
        return
    own = _networks(facts)
    theirs = [(peer.host, _networks(peer, taken=True)) for peer in _other_members(context, facts)]
    on_nodes = [(peer.host, {ip for node in peer.nodes for ip in node.internal_ips}) for peer in _other_members(context, facts)]
    found = []
    for text, network, host_ip in _published_addresses(records):
        if network is not None and not own.contains(network):
            victims = [host for host, ranges in theirs if ranges.overlaps(network)]
            found += [f"{text} belongs to {listed(victims)}"] if victims else []
        nodes = [host for host, addresses in on_nodes if host_ip and host_ip in addresses]
        found += [f"{text} is said to be on node {host_ip} of {listed(nodes)}"] if nodes else []
    if found:
        yield Flaw(
            summary=f"{facts.host} publishes {len(found)} addresses as its own that belong to another member",
            evidence=_evidence(records, ADDRESSES, found),
            fix=_FIX,
        )


@check("CM-CLAIM-04")
def published_addresses_are_in_pod_networks(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report published pod addresses that are in none of the cluster's pod networks."""
    records, own = _comparable_records(context, facts), _networks(facts)
    if records is None or not own:  # in ENI mode and similar IPAM modes no ranges are configured
        return
    theirs = [_networks(peer, taken=True) for peer in _other_members(context, facts)]
    said = ((text, network) for text, network, _other in _published_addresses(records))
    known = [own.contains, *(ranges.overlaps for ranges in theirs)]
    found = [text for text, network in said if network is None or not any(has(network) for has in known)]
    if found:
        yield Flaw(
            summary=f"{facts.host} publishes {len(found)} addresses that are in none of its pod networks",
            evidence=_evidence(records, ADDRESSES, found) + f"; on record: {listed(str(network) for network in _pod_networks(facts))}",
            fix="If the cluster got further pod networks, cilium-config and its CiliumNodes must show them. " + _FIX,
        )


@check("CM-CLAIM-05")
def published_identities_are_own(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report published security identities outside of the cluster's identity range."""
    records = _comparable_records(context, facts)
    if records is None or not facts.id:
        return
    allowed = identity_range(facts.id, _max_connected(facts))
    found = [f"identity {show(x.key)} is outside its range" for x in records.identities if x.number is None or x.number not in allowed]
    for item in records.identities:
        strange = [show(name) for name in item.clusters if name != facts.name]
        found += [f"identity {show(item.key)} has the label of cluster {listed(strange)}"] if strange else []
    for address in records.addresses:
        number = address.identity
        if number is not None and number >= RESERVED and number not in allowed:
            found.append(f"{show(address.key)} has identity {number}")
    if found:
        yield Flaw(
            summary=f"{facts.host} publishes {len(found)} identities that belong to other clusters: policies of its peers would allow them",
            evidence=_evidence(records, IDENTITIES, found) + f"; its range is {allowed.start} to {allowed.stop - 1}",
            fix="Identities of an earlier id or name stay behind when these are changed (cilium/cilium#36338): delete these. " + _FIX,
        )


@check("CM-CLAIM-06")
def published_max_clusters_is_configured(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a published max-connected-clusters that differs from cilium-config."""
    records = _comparable_records(context, facts)
    capabilities = (records.config or {}).get("capabilities") if records is not None else None
    if records is None or not isinstance(capabilities, dict):
        return
    published = capabilities.get("maxConnectedClusters") or 255  # an older release does not publish the value, and uses 255
    if published != _max_connected(facts):
        yield Flaw(
            summary=f"{facts.host} publishes another max-connected-clusters than its cilium-config holds",
            evidence=_evidence(records, CONFIG + facts.name, [f"{show(str(published))}, and {_max_connected(facts)} in cilium-config"]),
            fix="Restart clustermesh-apiserver if the value was changed; it must be equal in all clusters and may not change in a mesh.",
        )


@check("CM-CLAIM-07")
def peer_records_are_complete(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report peer records that were not read, or not completely."""
    records = context.peer_records.get(facts.host)
    if records is None or not (records.problem or records.cut):
        return
    more = [f"{records.counts[prefix]} keys below {prefix}" for prefix in records.cut]
    yield Flaw(
        summary=f"The peer records of {facts.host} were " + ("not read completely" if records.problem else "compared only in part"),
        evidence=records.problem or f"there are {listed(more)}; the first 5000 of each are compared",
        fix="Connect first: peer records are read with the credentials of the links. The controller must reach the mesh endpoint, and "
        "needs the Python packages grpcio and protobuf."
        if records.problem
        else f"Check the rest by hand, with etcdctl in a pod of clustermesh-apiserver of {facts.host}.",
    )


def _other_members(context: CheckContext, facts: ClusterFacts) -> list[ClusterFacts]:
    """Return the facts of the other members that were observed."""
    return [context.facts[host] for host in context.mesh.clusters if host in context.facts and host != facts.host]


def _networks(facts: ClusterFacts, *, taken: bool = False) -> NetworkSet:
    """Return the addresses of the pod networks of the cluster.

    With ``taken`` it returns the networks that nodes hold, and the addresses of nodes, because pools of members may overlap (CM-CIDR-02
    reports those).
    """
    if not taken:
        return NetworkSet(_pod_networks(facts))
    nodes = parse_networks(ip for node in facts.nodes for ip in node.internal_ips)
    return NetworkSet([*(range_.network for range_ in allocated_ranges(facts)), *nodes])


def _pod_networks(facts: ClusterFacts) -> list[Network]:
    return [range_.network for range_ in (*pool_ranges(facts), *allocated_ranges(facts))]


def _published_addresses(records: PeerRecords) -> Iterator[tuple[str, Network | None, str]]:
    """Yield (text, network, node address) for each address that the cluster publishes as its own."""
    yield from ((show(item.key), item.network, item.host_ip) for item in records.addresses)
    for node in records.nodes:
        yield from ((f"{ip_network(network)} of node {show(node.key)}", network, "") for network in node.pod_networks)


def _max_connected(facts: ClusterFacts) -> int:
    """Return max-connected-clusters of cilium-config; 255 where it is not a number."""
    return whole_number(setting(facts, "max-connected-clusters", "255")) or 255
