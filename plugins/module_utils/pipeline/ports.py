# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The ports of a run: functions for all of its input and output. ``real_ports`` serves playbooks and the operator; tests give others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ..apply.apply import ApplyResult, apply_plan
from ..etcd.heartbeat import ControllerProof
from ..lock.lock import Lock, MeshLock
from ..mesh.facts import ReaderFacts
from ..mesh.model import Mesh
from ..observe import Observation, observe
from ..observe.heartbeats import Link
from .links import controller_proofs, prove_all, read_all
from .shown import Shown

ReadLinks = Callable[[Observation, Mesh], Mapping[str, ReaderFacts]]


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The functions through which a run reaches clusters, clocks and people."""

    observe: Callable[..., Observation]  # as observe.observe; the caller closes the connections
    apply: Callable[..., ApplyResult]  # as apply.apply_plan
    lock: Callable[..., Lock]  # as lock.MeshLock
    read_links: ReadLinks  # as links.read_all
    prove_links: ReadLinks  # as links.prove_all
    prove_as_controller: Callable[..., Mapping[Link, ControllerProof]]  # as links.controller_proofs
    now: Callable[[], datetime]  # aware, UTC
    clock: Callable[[], float]  # seconds, monotonic
    sleep: Callable[[float], None]
    show: Callable[[Shown], None]


def real_ports(show: Callable[[Shown], None] = lambda shown: None) -> Ports:
    """Return ports to real clusters and clocks. By default nothing is shown."""
    return Ports(
        observe=observe,
        apply=apply_plan,
        lock=MeshLock,
        read_links=read_all,
        prove_links=prove_all,
        prove_as_controller=controller_proofs,
        now=lambda: datetime.now(UTC),
        clock=time.monotonic,
        sleep=time.sleep,
        show=show,
    )
