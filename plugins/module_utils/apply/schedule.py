# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Order of writes: which writes of a plan wait for each other, and how many run at a time in one cluster. Pure.

A lane keeps its order: it has the steps of one item in one cluster, or all steps there that are for the mesh itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ..base.sealed import Sealed
from ..plan.steps import Step

AT_ONCE: Final = 4  # writes at a time in one cluster: so many connections are kept alive (observe.REQUESTS_AT_ONCE)

Values = Mapping[str, Sealed]


class LaneKey(NamedTuple):
    """Cluster and item of a lane."""

    cluster: str  # inventory name
    item: str  # "" for the mesh itself


class WaveLane(NamedTuple):
    """Steps of one wave, in order, each with its values of Secrets."""

    key: LaneKey
    work: list[tuple[Step, Values]]


def waves_of(steps: Sequence[Step], values: Mapping[int, Values]) -> dict[int, dict[str, deque[WaveLane]]]:
    """Return wave -> inventory name -> lanes, in the order of the steps.

    :param values: secret values by the position of a step.
    """
    lanes: dict[tuple[int, LaneKey], WaveLane] = {}
    waves: dict[int, dict[str, deque[WaveLane]]] = {}
    for position, step in enumerate(steps):
        key = LaneKey(step.cluster, step.item)
        lane = lanes.get((step.wave, key))
        if lane is None:
            lane = lanes[step.wave, key] = WaveLane(key, [])
            waves.setdefault(step.wave, {}).setdefault(step.cluster, deque()).append(lane)
        lane.work.append((step, values.get(position, {})))
    return {number: waves[number] for number in sorted(waves)}


def workers_of(wave: Mapping[str, deque[WaveLane]], parallel: int) -> list[deque[WaveLane]]:
    """Return for each worker the queue of its cluster. Few clusters have several workers each, at most ``parallel`` in all."""
    share = max(1, min(AT_ONCE, parallel // max(1, len(wave))))
    return [queue for queue in wave.values() for _worker in range(min(share, len(queue)))]
