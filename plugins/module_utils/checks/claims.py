# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Does a cluster tell its peers more than its record allows? Only where the caller read the claims (option ``claims``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network

from ..claims import ADDRESSES, CONFIG, IDENTITIES, NODES, RESERVED, Network, PeerClaims, identity_range
from ..facts import ClusterFacts
from ..findings import CheckContext, Finding, Scope, Severity, check
from .cidrs import allocated, holds_all, networks, pools
from .wording import finding, listed, setting, show

_FIX = (
    "Look into that cluster's mesh etcd and its CiliumNodes, CiliumEndpoints and CiliumIdentities: who wrote this? Until that is known, "
    "take it out: disconnect with mesh_connect_clusters naming it."
)


def _claims(context: CheckContext, facts: ClusterFacts) -> PeerClaims | None:
    """None where nothing was read, or nothing can be compared."""
    claims = context.claims.get(facts.host)
    return claims if claims is not None and claims.counts and facts.name and facts.id else None


def _evidence(claims: PeerClaims, prefix: str, texts: Iterable[str]) -> str:
    return f"etcd of {claims.host}, read as {claims.reader}, below {prefix}: {listed(texts)}"


@check("CM-CLAIM-01", "A cluster calls itself something else than its record", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def is_what_it_says(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims = _claims(context, facts)
    if claims is None:
        return
    if claims.config is None:
        text = "there is no cluster-config of that name, so that its peers wait for one"
    elif claims.config.get("id") != facts.id:
        text = f"its id there is {show(str(claims.config.get('id')))}, and {facts.id} in cilium-config"
    else:
        return
    yield finding(
        "CM-CLAIM-01",
        cluster=facts.host,
        summary=f"{facts.host} does not tell its peers the name and id that it has on record",
        evidence=_evidence(claims, CONFIG + facts.name, [text]),
        fix=f"If name or id were changed and clustermesh-apiserver was not restarted, restart it. {_FIX}",
    )


@check("CM-CLAIM-02", "A cluster shows nodes that are not its own", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def shows_its_own_nodes(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims = _claims(context, facts)
    if claims is None:
        return
    theirs = {ip: peer.host for peer in _others(context, facts) for node in peer.nodes for ip in (*node.internal_ips, *node.external_ips)}
    found = []
    for node in claims.nodes:
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
        yield finding(
            "CM-CLAIM-02",
            cluster=facts.host,
            summary=f"{facts.host} shows its peers {len(found)} of {len(claims.nodes)} nodes that are not its own",
            evidence=_evidence(claims, NODES, found),
            fix=_FIX,
        )


@check("CM-CLAIM-03", "A cluster claims addresses of another member", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def claims_nobody_elses_addresses(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims = _claims(context, facts)
    if claims is None:
        return
    own = _networks(facts)
    theirs = [(peer.host, _networks(peer, taken=True)) for peer in _others(context, facts)]
    found = []
    for text, network, host_ip in _said(claims):
        if network is not None and not holds_all(own, network):
            victims = [host for host, ranges in theirs if _overlaps(ranges, network)]
            found += [f"{text} belongs to {listed(victims)}"] if victims else []
        nodes = [peer.host for peer in _others(context, facts) if host_ip and any(host_ip in node.internal_ips for node in peer.nodes)]
        found += [f"{text} is said to be on node {host_ip} of {listed(nodes)}"] if nodes else []
    if found:
        yield finding(
            "CM-CLAIM-03",
            cluster=facts.host,
            summary=f"{facts.host} tells its peers that {len(found)} addresses are its own which are another member's",
            evidence=_evidence(claims, ADDRESSES, found),
            fix=_FIX,
        )


@check("CM-CLAIM-04", "A cluster claims addresses outside its record", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def claims_its_own_addresses(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims, own = _claims(context, facts), _networks(facts)
    if claims is None or not own:  # in ENI mode and the like no ranges are on record
        return
    theirs = [network for peer in _others(context, facts) for network in _networks(peer, taken=True)]
    said = ((text, network) for text, network, _other in _said(claims))
    found = [text for text, network in said if network is None or not (holds_all(own, network) or _overlaps(theirs, network))]
    if found:
        yield finding(
            "CM-CLAIM-04",
            cluster=facts.host,
            summary=f"{facts.host} tells its peers of {len(found)} addresses that are in none of its pod networks",
            evidence=_evidence(claims, ADDRESSES, found) + f"; on record: {listed(str(network) for network in own)}",
            fix="If the cluster got further pod networks, cilium-config and its CiliumNodes must show them. " + _FIX,
        )


@check("CM-CLAIM-05", "A cluster claims identities of another", severity=Severity.BLOCKING, scope=Scope.CLUSTER)
def claims_its_own_identities(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims = _claims(context, facts)
    if claims is None or not facts.id:
        return
    allowed = identity_range(facts.id, _max_connected(facts))
    found = [f"identity {show(x.key)} is outside its range" for x in claims.identities if x.number is None or x.number not in allowed]
    for item in claims.identities:
        strange = [show(name) for name in item.clusters if name != facts.name]
        found += [f"identity {show(item.key)} has the label of cluster {listed(strange)}"] if strange else []
    for address in claims.addresses:
        number = address.identity
        if number is not None and number >= RESERVED and number not in allowed:
            found.append(f"{show(address.key)} has identity {number}")
    if found:
        yield finding(
            "CM-CLAIM-05",
            cluster=facts.host,
            summary=f"{facts.host} gives its peers {len(found)} identities that it has no right to: policies of others would let them in",
            evidence=_evidence(claims, IDENTITIES, found) + f"; its range is {allowed.start} to {allowed.stop - 1}",
            fix="Identities of an earlier id or name stay behind when these are changed (cilium/cilium#36338): delete these. " + _FIX,
        )


@check("CM-CLAIM-06", "A cluster tells its peers another number of clusters", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def says_how_many_it_connects(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims = _claims(context, facts)
    capabilities = (claims.config or {}).get("capabilities") if claims is not None else None
    if claims is None or not isinstance(capabilities, dict):
        return
    told = capabilities.get("maxConnectedClusters") or 255  # an older release does not say, and means 255
    if told != _max_connected(facts):
        yield finding(
            "CM-CLAIM-06",
            cluster=facts.host,
            summary=f"{facts.host} tells its peers another max-connected-clusters than its cilium-config holds",
            evidence=_evidence(claims, CONFIG + facts.name, [f"{show(str(told))}, and {_max_connected(facts)} in cilium-config"]),
            fix="Restart clustermesh-apiserver if the value was changed; it must be equal in all clusters and may not change in a mesh.",
        )


@check("CM-CLAIM-07", "What a cluster tells its peers could not be read", severity=Severity.ADVISORY, scope=Scope.CLUSTER)
def could_be_read(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    claims = context.claims.get(facts.host)
    if claims is None or not (claims.problem or claims.cut):
        return
    more = [f"{claims.counts[prefix]} keys below {prefix}" for prefix in claims.cut]
    yield finding(
        "CM-CLAIM-07",
        cluster=facts.host,
        summary=f"What {facts.host} tells its peers was " + ("not read, or not to the end" if claims.problem else "looked at in part"),
        evidence=claims.problem or f"there are {listed(more)}; the first 5000 of each are compared",
        fix="Connect first: it is read with the credentials of the links. The controller must reach the mesh endpoint, and needs "
        "the Python packages grpcio and protobuf."
        if claims.problem
        else f"Look at the rest by hand, with etcdctl in a pod of clustermesh-apiserver of {facts.host}.",
    )


def _others(context: CheckContext, facts: ClusterFacts) -> list[ClusterFacts]:
    return [context.facts[host] for host in context.mesh.clusters if host in context.facts and host != facts.host]


def _networks(facts: ClusterFacts, *, taken: bool = False) -> list[Network]:
    """Its pod networks; with ``taken`` those that nodes hold, as pools of members may overlap (CM-CIDR-02 says so)."""
    claims = allocated(facts) if taken else (*pools(facts), *allocated(facts))
    nodes = networks(ip for node in facts.nodes for ip in node.internal_ips) if taken else []
    return [*(claim.network for claim in claims), *nodes]


def _overlaps(ranges: Sequence[Network], network: Network) -> bool:
    return any(other.version == network.version and other.overlaps(network) for other in ranges)


def _said(claims: PeerClaims) -> Iterator[tuple[str, Network | None, str]]:
    """(how it is named, network, address of the node that it is said to be on) of every address that the cluster calls its own."""
    yield from ((show(item.key), item.network, item.host_ip) for item in claims.addresses)
    for node in claims.nodes:
        yield from ((f"{ip_network(network)} of node {show(node.key)}", network, "") for network in node.pod_networks)


def _max_connected(facts: ClusterFacts) -> int:
    text = setting(facts, "max-connected-clusters", "255")
    return int(text) if text.isascii() and text.isdecimal() else 255
