# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Replicas of the operator and a real Lease: processes that are killed, that stop as told, and that lose the API server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.one_server import OneServer

LEASE, RENEW, RETRY = 3, 2.0, 0.5
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/mesh-operator"
SLOW = 2.0  # seconds that a loaded machine may take

REPLICA = f"""
import signal, sys, threading, time
from tests.collection_path import link
link()
from mesh_operator.api import Connections, Timeouts
from mesh_operator.leader import Election

def say(word):
    print(word, time.monotonic(), flush=True)

def work():
    say("leads")
    stop.wait()
    say("ends")

def stop_work():
    say("lost")
    stop.set()

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
api = Connections("the management plane", sys.argv[1], "--mgmt-kubeconfig", timeouts=Timeouts(connect={RETRY}, read={RETRY})).own()
election = Election(api, "default", "mesh-operator", "replica", lease={LEASE}, renew={RENEW}, retry={RETRY})
kept = election.lead(work, stop_work, stop)
sys.exit(0 if kept else 1)
"""


class Replica:
    """A process that takes part in the election, and what it said when (monotonic seconds, which all processes share)."""

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

    def wait_for(self, word: str, seconds: float) -> float:
        until(lambda: word in self.said, seconds, f"a replica that says {word}")
        return self.said[word]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, moment = line.split()
            self.said[word] = float(moment)


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.02)


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

        def transitions() -> int:
            return int(server.api.get(LEASE_PATH)["spec"]["leaseTransitions"])  # type: ignore[index]

        first = start()
        first.wait_for("leads", 10)
        second = start()
        time.sleep(LEASE + 1)
        assert second.said == {}, "it waits for as long as the first one renews"
        assert transitions() == 1

        first.process.kill()
        killed = time.monotonic()
        leads = second.wait_for("leads", LEASE + RETRY + SLOW)
        assert leads - killed > LEASE - RETRY - 0.5, "the dead one might have been at work until then"

        third = start()
        time.sleep(1)
        second.process.terminate()
        assert third.wait_for("leads", RETRY + SLOW) - second.wait_for("ends", SLOW) < LEASE - 1, "it need not wait for the Lease to end"
        assert second.process.wait(5) == 0
        assert "lost" not in second.said
        assert transitions() == 3

        server.close()
        cut = time.monotonic()
        assert third.wait_for("lost", RENEW + SLOW) - cut < LEASE, "before another one could start"
        assert third.process.wait(5) == 1
