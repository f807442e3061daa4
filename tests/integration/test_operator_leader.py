# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Replicas of the operator and a real Lease: processes that are killed, that stop as told, and that lose the API server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.collection_path import CHECKOUT
from tests.lab.patience import scaled
from tests.testing.one_server import OneServer
from tests.testing.waiting import wait_for

Object = dict[str, Any]
LEASE, RENEW, RETRY = 6, 3.0, 1.0
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/mesh-operator"
SLOW = 2.0  # seconds that this may take beside

REPLICA = f"""
import signal, sys, threading, time
from tests.collection_path import link
link()
from mesh_operator.base.api import Connections, Timeouts
from mesh_operator.schedule.leader import Election

def say(word):
    print(word, time.time(), flush=True)

def work():
    say("leads")
    stop.wait()
    say("ends")

def stop_work():
    say("lost")
    stop.set()

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
say("waits")
api = Connections("the management plane", sys.argv[1], "--mgmt-kubeconfig", timeouts=Timeouts(connect={RETRY}, read={RETRY})).own()
election = Election(api, "default", "mesh-operator", "replica", lease={LEASE}, renew={RENEW}, retry={RETRY})
kept = election.lead(work, stop_work, stop)
sys.exit(0 if kept else 1)
"""


class Replica:
    """A process that takes part in the election, and what it said when (seconds since 1970, as the Lease has them)."""

    def __init__(self, kubeconfig: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", REPLICA, str(kubeconfig)],
            cwd=CHECKOUT,
            env={"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'operator'}", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: dict[str, float] = {}
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, word: str) -> float:
        wait_for(lambda: word in self.said, what=f"a replica says {word!r}", hopeless=self._ended, every=0.02)
        return self.said[word]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def _ended(self) -> str:
        return "it ended" if not self._reader.is_alive() else ""

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, moment = line.split()
            self.said[word] = float(moment)


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[OneServer]:
    with OneServer() as running:
        yield running


def test_one_leads_and_another_one_takes_over_from_a_killed_a_stopped_and_a_cut_off_leader(server: OneServer) -> None:
    with ExitStack() as stack:

        def start() -> Replica:
            replica = Replica(server.kubeconfig)
            stack.callback(replica.close)
            return replica

        def lease() -> Object:
            return dict((server.api.get(LEASE_PATH) or {})["spec"])

        def renewed() -> float:
            return datetime.fromisoformat(lease()["renewTime"]).timestamp()

        first = start()
        first.wait_for("leads")
        second = start()
        waits = second.wait_for("waits")
        wait_for(renewed, lambda at: at > waits + LEASE + 1, what="the first one renews for longer than the Lease lasts")
        assert "leads" not in second.said, "it waits for as long as the first one renews"
        assert lease()["leaseTransitions"] == 1

        first.process.kill()
        first.process.wait()
        killed, last = time.time(), renewed()
        leads = second.wait_for("leads")
        assert leads > last + LEASE, "the dead one might have been at work until then"
        assert leads < killed + scaled(LEASE + RETRY + SLOW)

        third = start()
        ready = third.wait_for("waits")
        second.process.terminate()
        given = second.wait_for("ends")
        assert third.wait_for("leads") - max(given, ready) < scaled(RETRY + SLOW), "it need not wait for the Lease to end"
        assert second.process.wait(scaled(5)) == 0
        assert "lost" not in second.said
        assert lease()["leaseTransitions"] == 3

        server.close()
        cut = time.time()
        assert third.wait_for("lost") - cut < LEASE, "before another one could start"
        assert third.process.wait(scaled(5)) == 1
