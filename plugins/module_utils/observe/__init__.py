# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Observation of clusters as facts. Reads only; ``reads`` lists all requests.

Clusters are observed side by side, and so are the requests of one cluster. A cluster that fails is a failure among the results, not an
exception: the others go on.

May import: base, etcd, kube, kubeconfig, leases, lock, mesh.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ..base.errors import ClusterError, Defect, Forbidden, InvalidInput, MeshError, Unreachable
from ..base.optional_imports import require
from ..base.sealed import SecretStore
from ..kube.client import Cluster, open_cluster
from ..kubeconfig.access import ClusterAccess
from ..lock.member import find_lock
from ..lock.state import LockState
from ..mesh.binding.model import Binding
from ..mesh.facts.cluster import ClusterFacts, ObserveFailure, Unread
from . import certificates, peers
from .assemble import assemble
from .bundle import bundle_of, with_bundle
from .reads import FOR_LINKS, Read, first_read, further_reads, other_reads

__all__ = ["Observation", "observe"]

REQUESTS_AT_ONCE: Final = 4  # per cluster; each is a connection with a handshake of its own
READS_EACH: Final = 4  # for fewer reads another connection costs more than it saves
THREADS: Final = 32  # for all requests together


@dataclass(kw_only=True)
class Observation:
    """Facts of all clusters at one moment. Clusters in ``clusters`` stay open, for the steps that follow, until ``close``.

    Every inventory name is in ``facts`` or in ``failures``. ``secrets`` holds, per cluster: cilium-ca ("ca.crt", "ca.key"),
    clustermesh-apiserver-remote-cert (all keys), clustermesh-apiserver-server-cert ("ca.crt"), and every key of cilium-clustermesh and
    cilium-kvstoremesh.
    """

    facts: dict[str, ClusterFacts] = field(default_factory=dict)
    failures: dict[str, ObserveFailure] = field(default_factory=dict)
    secrets: SecretStore = field(default_factory=SecretStore)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    locks: dict[str, LockState] = field(default_factory=dict)  # the lock of each member, read before its facts; {} if not requested
    parallel: int = 10  # clusters with requests at a time, here and in the steps that follow
    former: Observation | None = None  # former members, observed so that their links can be withdrawn
    unread_links: dict[tuple[str, str], str] = field(default_factory=dict)  # (cluster, peer) -> what the note of its proof withholds

    @property
    def withheld(self) -> list[dict[str, str]]:
        """Rows of cluster, peer ("": the API server of the cluster) and reason, for what messages withhold from owners of clusters."""
        clusters = [(failure.host, "", failure.detail) for failure in self.whole.failures.values() if failure.detail]
        links = [(*link, detail) for link, detail in self.unread_links.items()]
        return [{"cluster": cluster, "peer": peer, "reason": reason} for cluster, peer, reason in (*clusters, *links)]

    @property
    def whole(self) -> Observation:
        """Observation together with ``former``, for applying a plan and for counting requests."""
        if self.former is None:
            return self
        more = self.former
        return Observation(
            facts={**self.facts, **more.facts},
            failures={**self.failures, **more.failures},
            secrets=self.secrets,
            clusters={**self.clusters, **more.clusters},
            locks={**self.locks, **more.locks},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for cluster in self.whole.clusters.values():
            cluster.close()


def observe(
    accesses: Iterable[ClusterAccess], *, parallel: int = 10, registry: str = "", lock: Binding | None = None, links_only: bool = False
) -> Observation:
    """Observe every cluster, ``parallel`` of them at a time.

    :param registry: name of the ConfigMap with the leases of the mesh; "" reads none.
    :param links_only: read what the status of links is made of, and nothing else (``reads.FOR_LINKS``).
    :param lock: the binding whose lock is read; for runs that may write.
    :raises InvalidInput: when two have the same inventory name.
    :raises MissingLibrary: when a Python package is missing.
    """
    require()
    wanted = list(accesses)
    if len({a.host for a in wanted}) != len(wanted):
        raise InvalidInput("Two clusters of the inventory have the same name.", remedy="Give each host a name of its own.")
    observation = Observation(parallel=max(1, parallel))
    if not wanted:
        return observation
    at_once = max(1, min(parallel, len(wanted)))
    with ThreadPoolExecutor(min(THREADS, at_once * REQUESTS_AT_ONCE)) as requests, ThreadPoolExecutor(at_once) as pool:
        started = {a.host: pool.submit(_observe_one, a, requests, registry, lock, links_only) for a in wanted}
        for access in wanted:
            _collect(observation, access, started[access.host])
    return observation


@dataclass(frozen=True)
class _RawObservation:
    cluster: Cluster
    answers: Mapping[str, Any]
    unread: tuple[Unread, ...]
    lock: LockState | None


def _collect(observation: Observation, access: ClusterAccess, result: Future[_RawObservation]) -> None:
    """Put a cluster into the observation. What is wrong with it, and be it a defect that it alone meets, is its failure and no other's."""
    raw: _RawObservation | None = None
    try:
        raw = result.result()
        facts = assemble(access, raw.answers, raw.unread)
        certificates.keep_values(observation.secrets, access.host, raw.answers)
        for name, key in (("cilium-clustermesh", "clustermesh"), ("cilium-kvstoremesh", "kvstoremesh")):
            peers.keep_values(observation.secrets, access.host, name, raw.answers[key])
    except Exception as caught:  # a defect that the data of one cluster bring about must not end the run of all
        if raw is not None:
            raw.cluster.close()
        error = caught if isinstance(caught, MeshError) else Defect.of(caught)
        observation.failures[access.host] = ObserveFailure(
            host=access.host, code=error.code, message=error.message, remedy=error.remedy, detail=error.detail
        )
        return
    observation.clusters[access.host] = raw.cluster
    if raw.lock is not None:
        observation.locks[access.host] = raw.lock
    observation.facts[access.host] = facts


def _observe_one(
    access: ClusterAccess, requests: ThreadPoolExecutor, registry: str, lock: Binding | None, links_only: bool
) -> _RawObservation:
    cluster = open_cluster(access, connections=REQUESTS_AT_ONCE)
    try:
        locked = requests.submit(_lock, cluster, lock) if lock is not None else None
        first = first_read(access.namespace)
        known: dict[str, Any] = {}
        with suppress(Forbidden):  # it is sent again with all others then, so that one message names all that RBAC forbids
            known = {"first": first.run(cluster)}
        state = locked.result() if locked is not None else None  # before all other reads: what another run writes later changes the lock
        reads = other_reads(access.namespace, "" if links_only else registry)
        sent = {name: read for name, read in reads.items() if not links_only or name in FOR_LINKS}
        answers, unread = _send(cluster, sent if known else {"first": first, **sent}, requests)
        answers = {**{name: [] if read.many else None for name, read in reads.items()}, **answers}
        further, also_unread = _send(cluster, further_reads(access.namespace, answers), requests)
        return _RawObservation(cluster, _with_effective_ca({**known, **answers, **further}), (*unread, *also_unread), state)
    except BaseException:
        cluster.close()
        raise


def _lock(cluster: Cluster, binding: Binding) -> LockState:
    """Read the lock; where RBAC forbids it, it counts as absent, and only a run that has to take it is refused."""
    try:
        return find_lock(cluster, binding)
    except Forbidden:
        return LockState()


def _with_effective_ca(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers with the CA bundle as ca.crt of the Secrets that it replaces, so that trust is judged by what processes use."""
    ref = bundle_of(answers)
    return with_bundle(answers, ref, answers.get("ca_bundle")) if ref is not None else dict(answers)


def _send(cluster: Cluster, reads: Mapping[str, Read], requests: ThreadPoolExecutor) -> tuple[dict[str, Any], tuple[Unread, ...]]:
    """Return all answers, and the optional reads that RBAC forbids; the answer of such a read is None.

    :raises Forbidden: for the other reads that RBAC forbids, all in one message, so that the role is extended once.
    :raises ClusterError: the first error of another kind.
    """
    results: dict[str, Any] = dict.fromkeys(reads)
    errors: dict[str, ClusterError] = {}
    pending = deque(reads.items())

    def work() -> None:
        """Send one read after the other over one connection, until none is left or the cluster falls silent."""
        with suppress(IndexError):
            while not any(isinstance(error, Unreachable) for error in list(errors.values())):
                name, read = pending.popleft()
                try:
                    results[name] = read.run(cluster)
                except ClusterError as error:
                    errors[name] = error

    for future in [requests.submit(work) for _turn in range(min(REQUESTS_AT_ONCE, -(-len(reads) // READS_EACH)))]:
        future.result()
    errors = {name: errors[name] for name in reads if name in errors}
    forbidden = {name: e for name, e in errors.items() if isinstance(e, Forbidden)}
    if all(name in forbidden and reads[name].optional for name in errors):
        return results, tuple(Unread(what=name, message=e.message, remedy=e.remedy) for name, e in forbidden.items())
    if len(forbidden) > 1 and len(forbidden) == len(errors):
        raise Forbidden.of_several(forbidden.values(), cluster.host)
    raise next((e for name, e in errors.items() if name not in forbidden), next(iter(errors.values())))
