# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One replica of the operator as a process: its connections, probes, signals, and the lead that it waits for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Event
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Timeouts

from .base.api import Connections
from .base.log import log
from .base.serve import Metrics, serve
from .base.settings import Settings
from .operator import STOPPING, Operator
from .runs.confined.confinement import hide_memory
from .schedule.leader import Election

LEASES: Final = {"mesh": ("mesh-operator",), "fleet": ("fleet-operator",), "all": ("mesh-operator", "fleet-operator")}
"""Leases that a replica needs, by profile: kinds have one leader each, whichever profiles replicas have."""
RETRY: Final = 2.0  # seconds between tries for the lead, and the timeout of each


def _lead(elections: Sequence[Election], work: Callable[[], None], stop: Event) -> bool:
    """Do the work while all Leases are held. Returns False if one was lost."""
    if not elections:
        work()
        return True
    kept = True

    def inner() -> None:
        nonlocal kept
        kept = _lead(elections[1:], work, stop)

    return elections[0].lead(inner, stop.set, stop) and kept


def run(settings: Settings) -> int:
    """Run the operator until SIGTERM or SIGINT, or until the lead is lost.

    Returns the exit status 0, or 1 after a loss: another replica leads then.
    """
    hide_memory()  # of the credentials, from runs and dry runs, which may have the same user
    stop, metrics = Event(), Metrics()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    plane = ("the management plane", settings.mgmt_kubeconfig, "--mgmt-kubeconfig")
    known = (("kcp", settings.kcp_kubeconfig, "--kcp-kubeconfig") if settings.source == "kcp" else plane, plane)
    with ExitStack() as opened:
        kcp, mgmt = (opened.enter_context(Connections(*one)) for one in known)
        fleet = karmada = None
        if settings.fleet_kcp_kubeconfig and settings.profile == "all":
            fleet = opened.enter_context(Connections("kcp", settings.fleet_kcp_kubeconfig, "--fleet-kcp-kubeconfig"))
        if settings.profile != "mesh":
            karmada = opened.enter_context(Connections("Karmada", settings.karmada_kubeconfig, "--karmada-kubeconfig"))
        operator = Operator(settings, kcp, mgmt, metrics, stop, fleet, karmada)
        servers = serve(settings.health_addr, metrics, alive=operator.alive, ready=operator.ready, metrics_address=settings.metrics_addr)
        try:
            if not settings.leader_elect:
                operator.work()
                return 0
            place = settings.namespace or settings.mgmt_namespace
            quick = Timeouts(connect=RETRY, read=RETRY)
            with Connections(*known[1], connections=2, timeouts=quick) as lease:
                elections = [Election(lease.own(), place, name, settings.node_id, retry=RETRY) for name in LEASES[settings.profile]]
                return 0 if _lead(elections, operator.work, stop) else 1
        finally:
            for server in servers:
                server.shutdown()
            if operator.hangs():  # it would keep a process without the lead, which could still write
                log("workers_hang", seconds=STOPPING)
                os._exit(1)
