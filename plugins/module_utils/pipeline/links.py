# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an observation says of members and links without another request, and which proof of links a missing package prevents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from ..etcd.client import missing_library
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ObserveFailure
from ..observe import Observation
from .shown import Sentence


def unobserved_members(observation: Observation, mesh: Mesh) -> dict[str, ObserveFailure]:
    """Return the reason for every member that was not observed: its failure, or that a limit leaves it out."""
    failed = {host: failure for host, failure in observation.failures.items() if host in mesh.clusters}
    why = "not contacted: --limit, or the hosts pattern of the play, leaves it out"
    not_asked = (host for host in mesh.clusters if host not in observation.facts and host not in failed)
    return {**failed, **{host: ObserveFailure(host=host, code="CM-TOPO-02", message=why) for host in not_asked}}


class Contacts(TypedDict):
    """Fields of an ``Outcome`` about the clusters that a run contacted."""

    requests: Mapping[str, int]
    withheld: tuple[Mapping[str, str], ...]


def contacts(observation: Observation) -> Contacts:
    """Return what an outcome says of contacting the clusters so far: their requests, and what messages withhold."""
    return Contacts(requests=requests(observation), withheld=tuple(observation.withheld))


def requests(observation: Observation) -> dict[str, int]:
    """Return how many API requests were made so far, by inventory name."""
    return {host: sum(cluster.requests.values()) for host, cluster in observation.whole.clusters.items()}


def missing_package(mode: str) -> list[Sentence]:
    """Return a sentence that the controller proves no link because a Python package is missing; [] when none is."""
    text = missing_library() if mode == "auto" else ""
    return [Sentence(f"  The controller proves no link: {text}", "attention")] if text else []
