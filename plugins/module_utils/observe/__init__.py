# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters -> facts. Reads only; what is read is listed in ``reads``.

Clusters are observed side by side, and so are the requests of one cluster. A cluster that fails is a failure among the results, not an
exception: the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ..errors import ClusterError, Forbidden, InvalidInput, MeshError
from ..facts import ClusterFacts, ObserveFailure
from ..kube import Cluster, ClusterAccess, open_cluster
from ..libraries import require
from ..secrets import SecretStore
from . import certificates, peers
from .assemble import assemble
from .reads import first_read, other_reads

__all__ = ["Observation", "observe"]

REQUESTS_AT_ONCE: Final = 4  # per cluster; each is a connection with a handshake of its own
THREADS: Final = 32  # for all requests together


@dataclass(kw_only=True)
class Observation:
    """What was seen of all clusters. Those in ``clusters`` stay open, for the steps that follow, until ``close``.

    Every inventory name is in ``facts`` or in ``failures``. ``secrets`` holds, per cluster: cilium-ca ("ca.crt", "ca.key"),
    clustermesh-apiserver-remote-cert (all keys), clustermesh-apiserver-server-cert ("ca.crt"), and every key of cilium-clustermesh and
    cilium-kvstoremesh.
    """

    facts: dict[str, ClusterFacts] = field(default_factory=dict)
    failures: dict[str, ObserveFailure] = field(default_factory=dict)
    secrets: SecretStore = field(default_factory=SecretStore)
    clusters: dict[str, Cluster] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for cluster in self.clusters.values():
            cluster.close()


def observe(accesses: Iterable[ClusterAccess], *, parallel: int = 10) -> Observation:
    """Observe every cluster, ``parallel`` of them at a time.

    :raises InvalidInput: two have the same inventory name.
    :raises MissingLibrary: a Python package is missing.
    """
    require()
    wanted = list(accesses)
    if len({a.host for a in wanted}) != len(wanted):
        raise InvalidInput("Two clusters of the inventory have the same name.", remedy="Give each host a name of its own.")
    observation = Observation()
    if not wanted:
        return observation
    at_once = max(1, min(parallel, len(wanted)))
    with ThreadPoolExecutor(min(THREADS, at_once * REQUESTS_AT_ONCE)) as requests, ThreadPoolExecutor(at_once) as pool:
        started = {a.host: pool.submit(_observe_one, a, requests) for a in wanted}
        for access in wanted:
            _collect(observation, access, started[access.host])
    return observation


@dataclass(frozen=True)
class _Seen:
    cluster: Cluster
    answers: Mapping[str, Any]


def _collect(observation: Observation, access: ClusterAccess, result: Future[_Seen]) -> None:
    try:
        seen = result.result()
    except MeshError as error:
        observation.failures[access.host] = ObserveFailure(host=access.host, code=error.code, message=error.message, remedy=error.remedy)
        return
    observation.clusters[access.host] = seen.cluster
    observation.facts[access.host] = assemble(access, seen.answers)
    certificates.keep_values(observation.secrets, access.host, seen.answers)
    for name, key in (("cilium-clustermesh", "clustermesh"), ("cilium-kvstoremesh", "kvstoremesh")):
        peers.keep_values(observation.secrets, access.host, name, seen.answers[key])


def _observe_one(access: ClusterAccess, requests: ThreadPoolExecutor) -> _Seen:
    cluster = open_cluster(access, connections=REQUESTS_AT_ONCE)
    try:
        first = first_read().run(cluster)
        pending = {name: requests.submit(read.run, cluster) for name, read in other_reads(access.namespace).items()}
        return _Seen(cluster, {"first": first, **_results(pending)})
    except BaseException:
        cluster.close()
        raise


def _results(pending: Mapping[str, Future[Any]]) -> dict[str, Any]:
    """All results, or one error: all that RBAC forbids in one message, so that the role is extended once; else the first."""
    errors: list[ClusterError] = []
    results: dict[str, Any] = {}
    for name, future in pending.items():
        try:
            results[name] = future.result()
        except ClusterError as error:
            errors.append(error)
    forbidden = [e for e in errors if isinstance(e, Forbidden)]
    if len(forbidden) > 1 and len(forbidden) == len(errors):
        remedies = " ".join(dict.fromkeys(e.remedy for e in forbidden))
        raise Forbidden(" ".join(e.message for e in forbidden), remedy=remedies, cluster=forbidden[0].cluster)
    if errors:
        raise next((e for e in errors if not isinstance(e, Forbidden)), errors[0])
    return results
