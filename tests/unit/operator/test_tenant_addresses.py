# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Name servers that do not answer hold up no turn for long, and not the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from mesh_operator.credentials.tenant_addresses import AGAIN, KEPT, NETWORKS, DeniedNetworks
from tests.lab.patience import scaled
from tests.testing.waiting import wait_for

SILENT: Final = "silent.example.com"
LONG: Final = 1000.0  # seconds, which no test waits


class NameServer:
    """Resolver whose answers for one name do not come until ``answers`` is set."""

    def __init__(self) -> None:
        self.answers, self.asked = threading.Event(), list[str]()
        self.address = "203.0.113.7"

    def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        if name == SILENT:
            self.answers.wait()
        return [self.address if name == SILENT else "198.51.100.9"]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    made = NameServer()
    yield made
    made.answers.set()


def test_a_silent_name_server_holds_the_turns_of_all_tenants_together_for_the_patience_of_one_lookup(dns: NameServer) -> None:
    denied = DeniedNetworks((), lambda: (f"{SILENT}:6443", "kcp.example.com:443"), dns, patience=0.5)
    began = time.monotonic()
    with ThreadPoolExecutor(16) as workers:
        found = list(workers.map(lambda _: denied(), range(64)))
    assert time.monotonic() - began < scaled(4.0), "one after the other they would wait for 32 seconds"
    assert all({*NETWORKS, "198.51.100.9/32"} <= set(ranges) for ranges in found), "what answers is denied all the same"
    assert dns.asked.count(SILENT) == 1, "one lookup of a name at a time"
    dns.answers.set()
    wait_for(lambda: "203.0.113.7/32" in denied(), what="the late answer counts", every=0.01)


def test_the_first_turns_wait_for_an_answer_that_comes_in_time(dns: NameServer) -> None:
    denied = DeniedNetworks((), lambda: (f"{SILENT}:6443",), dns, patience=LONG)
    with ThreadPoolExecutor(4) as workers:
        waiting = [workers.submit(denied) for _ in range(4)]
        wait_for(lambda: dns.asked, what="the name is looked up", every=0.01)
        assert not any(one.done() for one in waiting)
        dns.answers.set()
        assert all("203.0.113.7/32" in one.result(scaled(10.0)) for one in waiting)


def test_a_name_server_that_falls_silent_changes_nothing_of_what_is_known(dns: NameServer) -> None:
    now = [0.0]
    denied = DeniedNetworks((), lambda: (f"{SILENT}:6443",), dns, lambda: now[0], patience=LONG)
    dns.answers.set()
    assert "203.0.113.7/32" in denied()
    dns.answers.clear()
    dns.address = "203.0.113.8"
    for now[0] in (AGAIN, 2 * AGAIN, KEPT - 1):
        assert "203.0.113.7/32" in denied(), "at once: this clock stands still for a caller that waits"
    dns.answers.set()
    wait_for(lambda: "203.0.113.8/32" in denied(), what="it answers again", every=0.01)
    assert dns.asked == [SILENT] * 2


def test_a_lookup_that_never_ends_does_not_keep_the_process() -> None:
    program = (
        "import threading\n"
        "from mesh_operator.credentials.tenant_addresses import DeniedNetworks\n"
        "print(len(DeniedNetworks((), lambda: ('silent.example.com:443',), lambda _: threading.Event().wait(), patience=0.1)()) > 0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=scaled(30.0), check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
