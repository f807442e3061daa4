# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options of the runs, with their defaults. A test holds that the options of the actions have the same defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

PARALLEL = 10  # clusters that are contacted at a time
MEASURED_AT_ONCE = 24  # by a run that only measures links: it sends few requests to each, and waits for them most of the time


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that every run has: how many clusters are contacted at a time, how many may fail, and the terms of the lock.

    None: any number of failures; no waiting for the lock, and ``lock.state.DURATION``.
    """

    parallel: int = PARALLEL
    max_failures: int | None = None
    lock_timeout: int | None = None  # seconds
    lock_duration: int | None = None  # seconds
    lock_holder: str | None = None  # who runs it; None: user and host

    @classmethod
    def of(cls, params: Mapping[str, Any], **more: Any) -> Self:
        """Return the options from an action's parameters; ``more`` overrides them, and options in neither have their default."""
        given = {field.name: params[field.name] for field in fields(cls) if field.name in params} | more
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class ConnectOptions(Options):
    """Options for checking, planning, writing and measuring links. Times are in seconds where the name has no unit."""

    purpose: str = "connect"  # or disconnect
    clusters: tuple[str, ...] = ()  # the clusters to disconnect; () all
    accept: tuple[str, ...] = ()
    trust: str = "auto"
    node_addresses: str = "InternalIP"
    certificate_days: int = 365
    renew_before_days: int = 30
    take_back: tuple[str, ...] = ()
    repair: bool = False
    wait: bool = True
    wait_timeout: int = 300
    proof: str = "auto"
    previous_status: Mapping[str, Any] | None = None  # mesh_result.status of an earlier run


@dataclass(frozen=True, kw_only=True)
class ItemsOptions(Options):
    """Options for planning, writing and measuring items."""

    state: str = "present"  # or absent
    require_connected: bool = True
    binding_status: Mapping[str, Any] | None = None
    previous_status: Mapping[str, Any] | None = None  # mesh_result.status of an earlier run
    former: tuple[str, ...] = ()  # former members
    probe_image: str = ""
    approve_refused: tuple[str, ...] = ()  # items that an approved plan may leave out
    accept_incomplete: tuple[str, ...] = ()  # items that may end in phase Error, Degraded or Pending; or all


@dataclass(frozen=True, kw_only=True)
class IdentityOptions(Options):
    """Options for deciding on and assigning cluster names and ids."""

    identity_policy: str = "verify"  # or assign
    quarantine_hours: float = 24.0
    wait: bool = True
    wait_timeout: int = 600


@dataclass(frozen=True, kw_only=True)
class FleetOptions(Options):
    """Options for writing and measuring the workloads of a fleet. Times are in seconds."""

    state: str = "present"  # or absent
    hash: str = ""  # of the plan that was approved; "": any
    wait: bool = True
    wait_timeout: int = 600


@dataclass(frozen=True, kw_only=True)
class MembersOptions(Options):
    """Options for making clusters members of Karmada. Times are in seconds where the name has no unit."""

    state: str = "present"  # or absent
    clusters: tuple[str, ...] = ()  # () all
    token_hours: int = 8760
    renew_before_hours: int = 720
    wait: bool = True
    wait_timeout: int = 300
    deadline: int = 3600
    abandon: tuple[str, ...] = ()
