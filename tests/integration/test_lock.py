# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Two runs at once on real API servers: one works, the other is refused or waits, and no two claim what cannot both be true."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from tests.integration.held_lock import holder
from tests.integration.labs import LOCKS, OTHER_LOCKS
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.rights import grant
from tests.integration.shop import INTENT, SERVICE, furnish
from tests.testing.killed_playbook import run_until_killed
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

pytestmark = pytest.mark.lab(LOCKS)

WRITING: Final[dict[str, dict[str, Any]]] = {
    "connect": {},
    "disconnect": {},
    "mesh": {},
    "services": {},
    "policies": {},
    "identity": {"cluster_identity_policy": "assign"},
    "ca": {"ca_sync_state": "renewed"},
    "adopt": {},
    "hand_back": {},
}
"""Playbooks that write, with the variables by which they do."""
OF_HELM: Final = {"CM-OWN-01", "CM-OWN-02"}  # what a run meets after hand_back
ALWAYS: Final = (("connect", "connect"), ("connect", "disconnect"), ("disconnect", "mesh"))
PAIRS: Final = [
    pytest.param(
        *pair,
        # Half of them on a lab of their own, so that two workers have something to do.
        marks=[pytest.mark.lab((LOCKS, OTHER_LOCKS)[number % 2]), *(() if pair in ALWAYS else (pytest.mark.full,))],
    )
    for number, pair in enumerate(combinations_with_replacement(sorted(WRITING), 2))
]


@dataclass(frozen=True)
class Ended:
    """A run, and when it ended."""

    playbook: str
    run: PlaybookRun
    at: float


def whole(lab: MeshLab) -> dict[str, Any]:
    """Return a mesh with items of two kinds."""
    return {**lab.mesh(), "globalServices": [SERVICE], "connectivityIntents": [INTENT]}


@contextmanager
def at_work(lab: MeshLab, playbook: str, **variables: Any) -> Iterator[Future[PlaybookRun]]:
    """Run a playbook aside; the block begins when it holds the lock."""
    with ThreadPoolExecutor(1) as aside:
        running = aside.submit(lab.play, playbook, **variables)
        wait_for(lambda: running.done() or holder(lab, "c1"), what=f"{playbook} holds the lock", every=0.02)
        assert not running.done(), running.result().output
        yield running


def test_who_comes_second_is_refused_or_waits_and_nothing_of_the_lock_is_left_in_the_end(lab: MeshLab) -> None:
    lab.lab.cut("c1", "c2")  # the first run waits for its links until they are healed, however slow the others are
    try:
        with at_work(lab, "connect", cilium_mesh_lock_holder="AWX job 4711", mesh_connect_wait_timeout=3600) as first:
            beside = lab.play("disconnect")
            assert not first.done(), first.result().output
            lab.lab.heal("c1", "c2")
            waited = lab.play("connect", cilium_mesh_lock_timeout=600)
            done = first.result()
    finally:
        lab.lab.heal("c1", "c2")
    assert done.rc == 0 and done.changed, done.output
    assert beside.rc != 0 and beside.finding_codes() == ["CM-LOCK-01"] and not beside.result["changed"], beside.output
    assert "connect by AWX job 4711, process " in beside.output and "delete lease cilium-mesh-" in beside.output
    assert waited.rc == 0 and waited.changed == 0, waited.output
    assert [holder(lab, name) for name in lab.names] == ["", ""]
    assert lab.play("disconnect").rc == 0
    owner = parse(lab.mesh(), lab.names).binding.owner
    for name in lab.names:
        assert lab.api(name).get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/cilium-mesh-{owner}") is None


def test_a_run_that_was_killed_blocks_no_longer_than_its_lock_lasts(lab: MeshLab) -> None:
    variables = {"cilium_mesh": lab.mesh(), "cilium_mesh_lock_duration": 10}
    assert run_until_killed("connect", inventory=lab.inventory(), variables=variables, moment=lambda: bool(holder(lab, "c2")))
    killed = time.monotonic()
    refused = lab.play("connect")
    assert refused.rc != 0 and refused.finding_codes() == ["CM-LOCK-01"], refused.output
    after = lab.play("connect", cilium_mesh_lock_timeout=300, mesh_connect_wait=False)
    assert after.rc == 0, after.output
    assert time.monotonic() - killed > 10
    assert lab.play("connect").rc == 0


def test_without_the_right_to_the_lock_nothing_is_written_and_the_rule_is_named(lab: MeshLab, tmp_path: Path) -> None:
    before = lab.snapshot()
    run = lab.play("connect", hosts=grant(lab, tmp_path, without="leases"))
    assert run.rc != 0 and "CM-API-03" in run.finding_codes(), run.output
    assert "leases" in run.output and "Grant patch and create on leases" in run.output and not run.result["changed"]
    assert {k: v for k, v in lab.snapshot().items() if "cilium-mesh-" in k} == {k: v for k, v in before.items() if "cilium-mesh-" in k}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_runs_at_once_never_both_claim_what_cannot_both_be_true(lab: MeshLab, first: str, second: str) -> None:
    """Each succeeds or is refused, one of them succeeds, and one that succeeded finds nothing to do: the one that wrote last.

    That is not always the one that ended last, since a run gives its lock back before it publishes its result.
    """
    furnish(lab)
    if "connect" not in (first, second):
        assert lab.play("connect").rc == 0

    def play(playbook: str) -> Ended:
        run = lab.play(playbook, mesh=whole(lab), **WRITING[playbook])
        return Ended(playbook, run, time.monotonic())

    with ThreadPoolExecutor(2) as pool:
        ended = sorted(pool.map(play, (first, second)), key=lambda entry: entry.at)
    for entry in ended:
        codes = set(entry.run.finding_codes())
        refused = codes & ({"CM-LOCK-01", "CM-LOCK-02"} | (OF_HELM if "hand_back" in (first, second) else set()))
        assert entry.run.rc == 0 or refused or is_too_early(entry), entry.run.output
    good = [entry for entry in ended if entry.run.rc == 0]
    assert good or any(map(is_too_early, ended)), "\n".join(entry.run.output for entry in ended)
    assert not good or any(is_done(lab, entry.playbook) for entry in reversed(good)), "\n".join(entry.run.output for entry in ended)
    assert [holder(lab, name) for name in lab.names] == ["", ""]


def is_done(lab: MeshLab, playbook: str) -> bool:
    """Return whether a playbook finds nothing to do."""
    run = lab.play(playbook, mesh=whole(lab), arguments=["--check"], **WRITING[playbook])
    return run.changed == 0 and not run.result["plan"]["steps"]


def is_too_early(entry: Ended) -> bool:
    """Return whether items wait because the mesh was not connected when they were observed."""
    return entry.playbook in ("services", "policies", "mesh") and "waiting for" in entry.run.output
