# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The ports of a run: functions for all of its input and output. ``real_ports`` serves playbooks and the operator; tests give others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..apply.apply import ApplyResult, apply_plan
from ..apply.lease_store import ClusterCopies
from ..apply.rollout import Workload, wait_for_rollouts
from ..base.clocks import Clocks, real_clocks
from ..base.sealed import SecretStore
from ..etcd.heartbeat import ControllerProof
from ..etcd.peer_records import PeerRecords
from ..kubeconfig.access import ClusterAccess
from ..lock.lock import Lock, MeshLock
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, ProbeResult, ReaderFacts
from ..mesh.facts.sizes import SizeFacts
from ..mesh.link_decisions import Move
from ..observe import Observation, observe
from ..observe.answers import ReadAnswers, connect, read_answers
from ..observe.heartbeats import Link
from ..observe.links import controller_proofs, peer_records_of, prove_all, read_all
from ..observe.name_resolution import resolve_names
from ..observe.own_names import OwnName, read_own_names
from ..observe.sizes import read_all_sizes
from ..observe.tls_probe import probe_endpoints, unproven_moves
from ..observe.traffic import ReadTraffic, read_all_traffic
from .shown import Shown

ReadLinks = Callable[[Observation, Mesh], Mapping[str, ReaderFacts]]
ResolveNames = Callable[[Iterable[ClusterFacts]], Mapping[str, tuple[str, ...]]]
UnprovenMoves = Callable[[Mapping[str, Move], Mapping[str, ClusterFacts], SecretStore], frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Ports(Clocks):
    """The functions through which a run reaches clusters, clocks and people."""

    connect: Callable[[Observation, ClusterAccess], None]  # as observe.answers.connect; the caller closes the connections
    observe: Callable[..., Observation]  # as observe.observe; the caller closes the connections
    apply: Callable[..., ApplyResult]  # as apply.apply_plan
    lock: Callable[..., Lock]  # as lock.MeshLock
    read_links: ReadLinks  # as observe.links.read_all
    prove_links: ReadLinks  # as observe.links.prove_all
    prove_as_controller: Callable[..., Mapping[Link, ControllerProof]]  # as observe.links.controller_proofs
    peer_records: Callable[[Observation, Mesh], Mapping[str, PeerRecords]]  # as observe.links.peer_records_of
    lease_copies: Callable[..., ClusterCopies]  # as apply.lease_store.ClusterCopies
    wait_for_rollouts: Callable[..., dict[Workload, str]]  # as apply.rollout.wait_for_rollouts
    own_names: Callable[[Observation, str], tuple[OwnName, ...]]  # as observe.own_names.read_own_names
    read: ReadAnswers  # as observe.answers.read_answers
    read_sizes: Callable[..., dict[str, SizeFacts]]  # as observe.sizes.read_all_sizes
    read_traffic: ReadTraffic  # as observe.traffic.read_all_traffic
    resolve_names: ResolveNames  # as observe.name_resolution.resolve_names
    probe_endpoints: Callable[..., tuple[ProbeResult, ...]]  # as observe.tls_probe.probe_endpoints
    unproven_moves: UnprovenMoves  # as observe.tls_probe.unproven_moves
    show: Callable[[Shown], None]


def real_ports(show: Callable[[Shown], None] = lambda shown: None) -> Ports:
    """Return ports to real clusters and clocks. By default nothing is shown."""
    return Ports(
        connect=connect,
        observe=observe,
        apply=apply_plan,
        lock=MeshLock,
        read_links=read_all,
        prove_links=prove_all,
        prove_as_controller=controller_proofs,
        peer_records=peer_records_of,
        lease_copies=ClusterCopies,
        wait_for_rollouts=wait_for_rollouts,
        own_names=read_own_names,
        read=read_answers,
        read_sizes=read_all_sizes,
        read_traffic=read_all_traffic,
        resolve_names=resolve_names,
        probe_endpoints=probe_endpoints,
        unproven_moves=unproven_moves,
        **vars(real_clocks()),
        show=show,
    )
