# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Answers of one open cluster to reads that a run lists: the port of runs that decide themselves what they have to know."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from ..base.errors import ClusterError, Forbidden, ServerRefused
from ..kube.client import Cluster, open_cluster
from ..kubeconfig.access import ClusterAccess
from . import Observation
from .reads import Read

Name = TypeVar("Name")


class ReadAnswers(Protocol):
    """The port itself; ``read_answers`` says what it does."""

    def __call__(self, opened: Observation, host: str, reads: Mapping[Name, Read], *, parallel: int = 1) -> dict[Name, Any]:
        """Return the answers by the names of the reads."""


def read_answers(opened: Observation, host: str, reads: Mapping[Name, Read], *, parallel: int = 1) -> dict[Name, Any]:
    """Return the answers by the names of the reads: objects (None: absent) and lists.

    The answer to an optional read that the API server refuses is the error.

    :param host: inventory name of a cluster that ``opened`` has.
    :param parallel: requests at a time.
    :raises ClusterError: the first other error, in the order of the reads.
    """
    cluster = opened.clusters[host]
    if parallel == 1:
        return {name: _answer(cluster, read) for name, read in reads.items()}
    with ThreadPoolExecutor(parallel) as pool:
        return dict(zip(reads, pool.map(lambda read: _answer(cluster, read), reads.values()), strict=True))


def connect(opened: Observation, access: ClusterAccess) -> None:
    """Open a cluster, which is then one of ``opened``. It is not contacted yet.

    :raises ClusterError: when its kubeconfig cannot be used.
    """
    opened.clusters[access.host] = open_cluster(access)


def _answer(cluster: Cluster, read: Read) -> Any:
    try:
        return read.run(cluster)
    except (Forbidden, ServerRefused) as error:
        if not read.optional:
            raise
        return error


def refused(answer: Any) -> bool:
    """Return whether an answer is the error of an optional read."""
    return isinstance(answer, ClusterError)
