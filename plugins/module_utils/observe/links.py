# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading of the links of a mesh: the status that their readers report, and proofs by new connections of readers and controller."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..base.errors import ClusterError
from ..etcd.heartbeat import ControllerProof
from ..etcd.peer_records import PeerRecords
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, ReaderFacts
from ..mesh.ownership.objects import remembered_peers
from . import Observation
from .health import read_links
from .heartbeats import Link, read_heartbeats
from .peer_records import read_peer_records
from .peers import keep_values, peer_secret_facts
from .reads import other_reads
from .workloads import workload_facts


def read_all(observation: Observation, mesh: Mesh, *, prove: bool = False, nodes: bool = False) -> dict[str, ReaderFacts]:
    """Read the status of the peers from the readers of every cluster that answers; by inventory name.

    A peer that the controller does not reach may be reached by other members: its cluster name is then the one that was written for it, or
    its inventory name where the links are another tool's and the Secret has a key of that name.

    :param prove: see ``observe.health.read_links``.
    :param nodes: read node health too, in the same requests. A wait for links is without it: agents probe new nodes later.
    """
    facts = observation.facts

    def read(host: str) -> ReaderFacts:
        names = _known_names(mesh, facts[host]) | {peer: cluster.name for peer, cluster in facts.items()}
        peers = {peer: names[peer] for peer in mesh.peers(host) if names.get(peer)}
        try:
            reported = sum(len(facts[one].nodes) for one in (host, *peers) if one in facts) if nodes else None
            return read_links(observation.clusters[host], facts[host], peers, prove=prove, nodes=reported)
        except ClusterError as error:
            return ReaderFacts(cluster=host, problems=(error.clause,))

    hosts = [host for host in mesh.clusters if host in facts]
    with ThreadPoolExecutor(max_workers=observation.parallel) as pool:
        return dict(zip(hosts, pool.map(read, hosts), strict=True))


def prove_all(observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
    """Read the status of the peers as ``read_all`` with node health, and let the readers that connect to peers open new connections."""
    return read_all(observation, mesh, prove=True, nodes=True)


def controller_proofs(observation: Observation, mesh: Mesh, mode: str, *, written: bool = False) -> dict[Link, ControllerProof]:
    """Prove every link by a connection from the controller; by (cluster, peer), {} unless ``mode`` is ``auto``.

    :param written: something was written since the observation, so the Secrets and workloads of the links are read again.
    """
    if mode != "auto":
        return {}
    facts = _read_again(observation) if written else observation.facts
    found = read_heartbeats(mesh.links, peer_names(mesh, facts), facts, observation.secrets)
    observation.unread_links = {link: proof.detail for link, proof in found.items() if proof.detail}
    return found


def peer_records_of(observation: Observation, mesh: Mesh) -> dict[str, PeerRecords]:
    """Read the peer records of every member, by inventory name; the controller connects with the credentials of the links."""
    facts = observation.facts
    return read_peer_records(mesh.links, peer_names(mesh, facts), facts, observation.secrets)


def peer_names(mesh: Mesh, facts: dict[str, ClusterFacts]) -> dict[Link, str]:
    """Return the cluster name of the peer by (cluster, peer): as the peer has it, else as it was written for the peer."""
    own = {host: cluster.name for host, cluster in facts.items() if cluster.name}
    remembered = {host: _known_names(mesh, cluster) for host, cluster in facts.items()}
    names = {(a, b): own.get(b) or remembered[a].get(b, "") for a, b in mesh.links if a in remembered}
    return {link: name for link, name in names.items() if name}


def _known_names(mesh: Mesh, cluster: ClusterFacts) -> dict[str, str]:
    """Return inventory name -> cluster name of peers as ``cluster`` has them: as they were written for it, else by keys of that name."""
    keys = {*cluster.clustermesh.keys, *cluster.kvstoremesh.keys}
    return {host: host for host in mesh.clusters if host in keys} | remembered_peers(mesh.binding, cluster)


def _read_again(observation: Observation) -> dict[str, ClusterFacts]:
    """Return the facts with the current Secret and workload of the links of each cluster; two requests a cluster."""
    with ThreadPoolExecutor(observation.parallel) as pool:
        hosts: Iterable[str] = list(observation.clusters)
        return dict(zip(hosts, pool.map(lambda host: _current(observation, host), hosts), strict=True))


def _current(observation: Observation, host: str) -> ClusterFacts:
    facts, cluster = observation.facts[host], observation.clusters[host]
    reads = other_reads(facts.namespace)
    try:
        if facts.runs_kvstoremesh:
            value, workload = reads["kvstoremesh"].run(cluster), reads["apiserver"].run(cluster)
            keep_values(observation.secrets, host, facts.kvstoremesh.name, value)
            secret = peer_secret_facts(value, facts.kvstoremesh.name)
            return replace(facts, kvstoremesh=secret, apiserver=workload_facts(workload, "Deployment"))
        value, workload = reads["clustermesh"].run(cluster), reads["agent"].run(cluster)
        keep_values(observation.secrets, host, facts.clustermesh.name, value)
        return replace(facts, clustermesh=peer_secret_facts(value, facts.clustermesh.name), agent=workload_facts(workload, "DaemonSet"))
    except ClusterError:
        return facts  # the earlier facts stay; a proof with outdated ones fails and counts as unknown
