# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Limits of the cost of probing: a probe must not become a load on the clusters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one run. Times are in seconds."""

    intents: int = 20  # in one run; those with the oldest results come first
    total: float = 180.0  # all intents together
    per_intent: float = 60.0
    settle: float = 5.0  # from the last change of a policy until agents enforce it; earlier flows tell nothing
    window: float = 300.0  # how old a flow may be
    agents: int = 6  # queried for flows, per cluster and intent
    flows: int = 200  # requested of each agent
    exec_seconds: float = 10.0
    output: int = 1024 * 1024  # characters of an agent's answer that are parsed
    pods: int = 200  # read of one side in one cluster
    targets: int = 4  # that one Job tries, each in a container of its own
    job_seconds: int = 30  # a Job that has not ended by then is ended (activeDeadlineSeconds)
    job_ttl: int = 60  # time after its end when Kubernetes deletes a Job that a run left
    poll: float = 0.5
