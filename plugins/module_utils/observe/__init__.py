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
from ..facts import ClusterFacts, ObserveFailure, Unread
from ..kube import Cluster, ClusterAccess, open_cluster
from ..libraries import require
from ..secrets import SecretStore
from . import certificates, peers
from .assemble import assemble
from .bundle import bundle_of, put_in_place
from .reads import Read, first_read, further_reads, other_reads

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
    parallel: int = 10  # clusters spoken to at a time, here and in the steps that follow
    former: Observation | None = None  # clusters that are no members any more, observed to be rid of what was written in them

    @property
    def whole(self) -> Observation:
        """Together with ``former``: for whoever writes, and for whoever counts requests."""
        if self.former is None:
            return self
        more = self.former
        return Observation(
            facts={**self.facts, **more.facts},
            failures={**self.failures, **more.failures},
            secrets=self.secrets,
            clusters={**self.clusters, **more.clusters},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for cluster in self.whole.clusters.values():
            cluster.close()


def observe(accesses: Iterable[ClusterAccess], *, parallel: int = 10, registry: str = "") -> Observation:
    """Observe every cluster, ``parallel`` of them at a time.

    :param registry: name of the ConfigMap with the leases of the mesh; "" reads none.
    :raises InvalidInput: two have the same inventory name.
    :raises MissingLibrary: a Python package is missing.
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
        started = {a.host: pool.submit(_observe_one, a, requests, registry) for a in wanted}
        for access in wanted:
            _collect(observation, access, started[access.host])
    return observation


@dataclass(frozen=True)
class _Seen:
    cluster: Cluster
    answers: Mapping[str, Any]
    unread: tuple[Unread, ...]


def _collect(observation: Observation, access: ClusterAccess, result: Future[_Seen]) -> None:
    try:
        seen = result.result()
    except MeshError as error:
        observation.failures[access.host] = ObserveFailure(host=access.host, code=error.code, message=error.message, remedy=error.remedy)
        return
    observation.clusters[access.host] = seen.cluster
    observation.facts[access.host] = assemble(access, seen.answers, seen.unread)
    certificates.keep_values(observation.secrets, access.host, seen.answers)
    for name, key in (("cilium-clustermesh", "clustermesh"), ("cilium-kvstoremesh", "kvstoremesh")):
        peers.keep_values(observation.secrets, access.host, name, seen.answers[key])


def _observe_one(access: ClusterAccess, requests: ThreadPoolExecutor, registry: str) -> _Seen:
    cluster = open_cluster(access, connections=REQUESTS_AT_ONCE)
    try:
        first = first_read(access.namespace).run(cluster)
        answers, unread = _ask(cluster, other_reads(access.namespace, registry), requests)
        further, also_unread = _ask(cluster, further_reads(access.namespace, answers), requests)
        return _Seen(cluster, _as_pods_see_it({"first": first, **answers, **further}), (*unread, *also_unread))
    except BaseException:
        cluster.close()
        raise


def _as_pods_see_it(answers: Mapping[str, Any]) -> dict[str, Any]:
    """With the CA bundle as ca.crt of the Secrets for which it stands in, so that trust is judged by what the processes use."""
    ref = bundle_of(answers)
    return put_in_place(answers, ref, answers.get("ca_bundle")) if ref is not None else dict(answers)


def _ask(cluster: Cluster, reads: Mapping[str, Read], requests: ThreadPoolExecutor) -> tuple[dict[str, Any], tuple[Unread, ...]]:
    """All answers, and those that RBAC forbids among what is optional; the answer of such a one is None.

    Else one error: all that RBAC forbids in one message, so that the role is extended once, or the first of another kind.
    """
    pending = {name: requests.submit(read.run, cluster) for name, read in reads.items()}
    errors: dict[str, ClusterError] = {}
    results: dict[str, Any] = dict.fromkeys(reads)
    for name, future in pending.items():
        try:
            results[name] = future.result()
        except ClusterError as error:
            errors[name] = error
    forbidden = {name: e for name, e in errors.items() if isinstance(e, Forbidden)}
    if all(name in forbidden and reads[name].optional for name in errors):
        return results, tuple(Unread(what=name, message=e.message, remedy=e.remedy) for name, e in forbidden.items())
    if len(forbidden) > 1 and len(forbidden) == len(errors):
        remedies = " ".join(dict.fromkeys(e.remedy for e in forbidden.values()))
        raise Forbidden(" ".join(e.message for e in forbidden.values()), remedy=remedies, cluster=cluster.host)
    raise next((e for name, e in errors.items() if name not in forbidden), next(iter(errors.values())))
