# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last proof of all links of a mesh, as the actions measure it: by those who use the links, and by the controller."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from ..module_utils.claims import PeerClaims
from ..module_utils.errors import ClusterError
from ..module_utils.etcd_read import missing_library
from ..module_utils.facts import ClusterFacts, ReaderFacts
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation
from ..module_utils.observe.claims import read_claims
from ..module_utils.observe.heartbeats import Link, read_heartbeats
from ..module_utils.observe.peers import keep_values, peer_secret_facts
from ..module_utils.observe.reads import other_reads
from ..module_utils.observe.workloads import workload_facts
from ..module_utils.ownership import remembered_peers
from ..module_utils.proof import PROOF_CHOICES, ControllerProof
from .engine import read_all
from .report import Line
from .spec import Spec

PROOF: Final[Spec] = {"proof": {"type": "str", "choices": list(PROOF_CHOICES), "default": "auto"}}
"""The option of the actions that measure links."""


def prove_all(observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
    """As ``engine.read_all``, and those that dial the peers open new connections."""
    return read_all(observation, mesh, prove=True)


def controller_proofs(observation: Observation, mesh: Mesh, mode: str, *, written: bool = False) -> dict[Link, ControllerProof]:
    """What the controller finds out, by (cluster, peer); {} unless ``mode`` is ``auto``.

    :param written: something was written since the clusters were observed, so that what the links use is read again.
    """
    if mode != "auto":
        return {}
    facts = _read_again(observation) if written else observation.facts
    return read_heartbeats(mesh.links, peer_names(mesh, facts), facts, observation.secrets)


def missing_lines(mode: str) -> list[Line]:
    """What a person has to know of a proof that cannot be had for want of a package."""
    text = missing_library() if mode == "auto" else ""
    return [Line(f"  The controller proves no link: {text}", "yellow")] if text else []


def claims_of(observation: Observation, mesh: Mesh) -> dict[str, PeerClaims]:
    """What every member tells its peers, by inventory name, read from the controller with the credentials of the links."""
    facts = observation.facts
    return read_claims(mesh.links, peer_names(mesh, facts), facts, observation.secrets)


def peer_names(mesh: Mesh, facts: dict[str, ClusterFacts]) -> dict[Link, str]:
    """(cluster, peer) -> Cilium's name of the peer: its own word, else what was written for it."""
    own = {host: cluster.name for host, cluster in facts.items() if cluster.name}
    remembered = {host: remembered_peers(mesh.binding, cluster) for host, cluster in facts.items()}
    names = {(a, b): own.get(b) or remembered[a].get(b, "") for a, b in mesh.links if a in remembered}
    return {link: name for link, name in names.items() if name}


def _read_again(observation: Observation) -> dict[str, ClusterFacts]:
    """The facts, with the Secret and the workload that the links of each cluster are made of as they are now; two requests a cluster."""
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
        return facts  # what was observed before then stands for it; a proof by it fails and is unknown
