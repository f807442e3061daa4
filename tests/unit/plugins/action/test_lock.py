# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an action does with the lock of a mesh: observe again when another run came between, write nothing while one is at work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import LockHeld, LockLost
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.lock import Terms
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline import link_progress
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import mesh_action
from tests.testing.free_lock import FreeLock
from tests.unit.plugins.action.conftest import World, mesh

BOTH = mesh("c1", "c2")


class Scripted(FreeLock):
    """A lock before which another run comes: ``answers`` are those of ``take``, the last one repeats."""

    answers: tuple[bool | Exception, ...] = (True,)
    settled: Exception | None = None
    taken = 0
    released = 0
    terms_seen: tuple[Terms, ...] = ()

    def take(
        self, clusters: Mapping[str, Any], states: Mapping[str, Any], stay: Iterable[str], *, write: bool, leaving: Collection[str] = ()
    ) -> bool:
        kind = type(self)
        kind.terms_seen = (*kind.terms_seen, self.terms)
        answer = kind.answers[min(kind.taken, len(kind.answers) - 1)]
        kind.taken += 1
        if isinstance(answer, Exception):
            raise answer
        super().take(clusters, states, stay, write=write, leaving=leaving)
        return answer

    def settle(self) -> None:
        if self.settled is not None:
            raise self.settled

    def release(self) -> dict[str, int]:
        type(self).released += 1
        return dict.fromkeys(self.held, 1)


def scripted(world: World, monkeypatch: pytest.MonkeyPatch, *answers: bool | Exception, settled: Exception | None = None) -> type[Scripted]:
    """Give the actions a lock of their own class, which keeps what was asked of it."""
    kind = type("ScriptedHere", (Scripted,), {"answers": answers, "settled": settled})
    monkeypatch.setattr(mesh_action, "real_ports", lambda show: replace(world.ports(show), lock=kind))
    return kind


def test_what_another_run_wrote_meanwhile_is_observed_and_the_plan_is_shown_once(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = make_world()
    plain = world.run("mesh_connect", mesh=BOTH, wait=False, check=True)
    shown = list(world.output)
    world.output.clear()
    lock = scripted(world, monkeypatch, False, True)
    done = world.run("mesh_connect", mesh=BOTH, wait=False)
    assert "failed" not in done and done["changed"], done
    written = [line for line in world.output if line.startswith("Writing ")]
    assert [line for line in world.output if line not in written] == shown and len(written) == 1 and done["plan"] == plain["plan"]
    assert done["requests"] == {host: 2 * count + 1 for host, count in plain["requests"].items()}
    assert (lock.taken, lock.released) == (2, 1)


@pytest.mark.parametrize("action", ["mesh_connect", "mesh_adopt"])
def test_while_another_run_is_at_work_nothing_is_written_and_the_finding_names_it(
    make_world: Any, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    world: World = make_world()
    lock = scripted(world, monkeypatch, LockHeld("Another run is at work on mesh edge-mesh-eu: connect by max@laptop.", cluster="c1"))
    refused = world.run(action, mesh=BOTH)
    assert refused["failed"] and refused["msg"].startswith("CM-LOCK-01: c1: Another run is at work"), refused
    assert (refused["changed"], world.writes, lock.released) == (False, 0, 1)
    assert [(f["code"], f["severity"], f["cluster"]) for f in refused["findings"]] == [("CM-LOCK-01", "blocking", "c1")]


def test_check_mode_and_plans_need_no_lock(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = make_world()
    lock = scripted(world, monkeypatch, LockHeld("Another run is at work."))
    for action, check in (("mesh_connect", True), ("mesh_plan", False), ("mesh_verify", False), ("mesh_adopt", True)):
        assert "failed" not in world.run(action, mesh=BOTH, check=check), action
    assert lock.taken == 0


def test_a_status_that_another_run_made_outdated_is_an_error(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = make_world()
    assert "failed" not in world.run("mesh_connect", mesh=BOTH)
    scripted(world, monkeypatch, True, settled=LockLost("Another run had the lock while this one measured it.", cluster="c2"))
    again = world.run("mesh_connect", mesh=BOTH)
    assert again["failed"] and [f["code"] for f in again["findings"]] == ["CM-LOCK-02"], again


def test_a_wait_for_links_ends_when_another_run_may_have_taken_them_away(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = make_world()
    assert "failed" not in world.run("mesh_connect", mesh=BOTH)
    world.ready = False
    lost = LockLost("Another run had the lock of mesh edge-mesh-eu while this one measured it.", cluster="c2")
    scripted(world, monkeypatch, True, settled=lost)
    monkeypatch.setattr(link_progress, "GUARDED", 0.0)
    again = world.run("mesh_connect", mesh=BOTH, wait_timeout=600)
    assert again["failed"] and [f["code"] for f in again["findings"]] == ["CM-LOCK-02"], again


def test_the_options_of_the_lock_arrive_and_say_what_the_run_does(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = make_world()
    lock = scripted(world, monkeypatch, True)
    world.run("mesh_connect", mesh=BOTH, wait=False, lock_timeout=7, lock_duration=60, lock_holder="AWX job 7")
    world.run("mesh_connect", mesh=BOTH, state="absent", wait=False)
    first, second = lock.terms_seen
    assert (first.action, first.timeout, first.duration, first.holder) == ("connect", 7, 60, "AWX job 7")
    assert (second.action, second.timeout, second.duration, second.holder) == ("disconnect", 0, 30, "")


@pytest.mark.parametrize(("option", "value"), [("lock_timeout", -1), ("lock_duration", 4), ("lock_duration", 3601)])
def test_an_option_out_of_its_range_is_refused_before_the_first_request(make_world: Any, option: str, value: int) -> None:
    world: World = make_world()
    arguments: dict[str, Any] = {option: value}
    refused = world.run("mesh_connect", mesh=BOTH, **arguments)
    assert refused["failed"] and f"{option} is {value}" in refused["msg"] and not world.contacted
