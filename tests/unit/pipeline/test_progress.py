# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a run says while it writes or waits: enough to see that it lives, and not more."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils import pipeline
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.tally import Tally
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.link_progress import LinkProgress
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.progress import EVERY, QUIET, counted, writing
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown, Waiting
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import LinkState


class Terminal:
    """A clock that only sleeping moves, and what was shown."""

    def __init__(self, links: int = 2) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.states: list[str] = []
        self.ports = replace(real_ports(self._show), clock=lambda: self.now, sleep=self._sleep)
        self.progress = LinkProgress(ports=self.ports, links=links, timeout=300.0)

    def _show(self, shown: Shown) -> None:
        assert isinstance(shown, Waiting)
        self.states.append(shown.state)
        self.lines += [shown.news] if shown.news else []

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def enters(self, stage: LinkStage, error: str = "") -> None:
        self.progress.entered(LinkState(cluster="c1", peer="c2", stage=stage, error=error))


def test_a_link_is_shown_when_it_enters_a_stage_with_its_last_error() -> None:
    terminal = Terminal()
    terminal.enters(LinkStage.DIALLING, "connection refused")
    terminal.progress.sleep(3)
    terminal.enters(LinkStage.READY)
    assert terminal.lines == [
        "    0.0 s of 300 s  c1 -> c2: dialling (connection refused)",
        "    3.0 s of 300 s  c1 -> c2: ready",
    ]


def test_the_line_of_a_terminal_says_how_many_are_ready_and_which_is_furthest_behind() -> None:
    terminal = Terminal(links=3)
    for cluster, stage in (("c1", LinkStage.READY), ("c2", LinkStage.SYNCHRONISING), ("c3", LinkStage.DIALLING)):
        terminal.progress.entered(LinkState(cluster=cluster, peer="c4", stage=stage))
    terminal.progress.sleep(2)
    assert terminal.states[-1] == "    0.0 s of 300 s  1 of 3 links ready, c3 -> c4: dialling"
    for cluster in ("c2", "c3"):
        terminal.progress.entered(LinkState(cluster=cluster, peer="c4", stage=LinkStage.READY))
    assert terminal.states[-1] == "    2.0 s of 300 s  3 of 3 links ready"


def test_a_link_that_is_ready_from_the_start_is_no_news() -> None:
    terminal = Terminal()
    terminal.enters(LinkStage.READY)
    assert terminal.lines == []


def test_a_long_wait_gives_a_sign_of_life_every_twenty_seconds() -> None:
    terminal = Terminal()
    terminal.enters(LinkStage.DIALLING)
    for _ in range(45):
        terminal.progress.sleep(1)
    assert terminal.lines[1:] == ["   20.0 s of 300 s  waiting: 0 of 2 links ready", "   40.0 s of 300 s  waiting: 0 of 2 links ready"]


def test_in_a_large_mesh_only_the_number_of_ready_links_is_reported() -> None:
    terminal = Terminal(links=2450)
    terminal.enters(LinkStage.DIALLING)
    terminal.enters(LinkStage.READY)
    terminal.progress.sleep(21)
    terminal.progress.sleep(1)
    assert terminal.lines == ["   21.0 s of 300 s  waiting: 1 of 2450 links ready"]


def written(seconds: Sequence[float], total: int = 1000) -> Terminal:
    """Return what is shown of writes that report after each of these pauses; the last report says that all is written."""
    terminal = Terminal()
    progress = writing(terminal.ports)
    for number, pause in enumerate(seconds, 1):
        terminal.now += pause
        progress(Tally(total * number // len(seconds), total, "c1 is at Service production/shop" if number < len(seconds) else ""))
    return terminal


@given(st.lists(st.floats(0, 30), min_size=1, max_size=200))
def test_writes_show_nothing_while_they_are_short_and_a_log_has_few_lines(pauses: list[float]) -> None:
    terminal = written(pauses)
    assert len(terminal.lines) <= sum(pauses) / EVERY
    assert bool(terminal.states) == (terminal.now - 100.0 >= QUIET)


def test_a_thousand_steps_give_a_log_three_lines_a_minute() -> None:
    assert written([0.5] * 120).lines == [
        "   20.0 s  333 of 1000 steps written, c1 is at Service production/shop",
        "   40.0 s  666 of 1000 steps written, c1 is at Service production/shop",
        "   60.0 s  1000 of 1000 steps written",
    ]


def test_the_line_of_a_terminal_counts_what_is_written_from_the_third_second_on() -> None:
    assert written([0.5] * 5).states == [
        "    2.0 s  800 of 1000 steps written, c1 is at Service production/shop",
        "    2.5 s  1000 of 1000 steps written",
    ]


def test_a_wait_with_an_end_says_how_long_it_may_take() -> None:
    terminal = Terminal()
    progress = counted(terminal.ports, "probe", "done", 180.0)
    terminal.now += 12
    progress(Tally(0, 1, "web waits for its Job in c1"))
    assert terminal.states == ["   12.0 s of 180 s  0 of 1 probe done, web waits for its Job in c1"]


def test_text_of_a_cluster_cannot_move_the_cursor() -> None:
    terminal = Terminal()
    progress = writing(terminal.ports)
    terminal.now += EVERY
    progress(Tally(0, 1, "c1 is at Service a/\x1b[2Jb\nc"))
    assert all(character.isprintable() for shown in (*terminal.states, *terminal.lines) for character in shown)


def _applies() -> list[tuple[str, ast.Call]]:
    found = []
    for file in sorted(Path(str(pipeline.__file__)).parent.glob("*.py")):
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        found += [(file.name, call) for call in calls if ast.unparse(call.func).endswith("ports.apply")]
    return found


@pytest.mark.parametrize(("file", "call"), _applies())
def test_every_run_that_writes_shows_how_far_it_is(file: str, call: ast.Call) -> None:
    assert "progress" in {keyword.arg for keyword in call.keywords}, f"{file}, line {call.lineno}"


def test_the_enumeration_finds_the_runs_that_write() -> None:
    assert {file for file, _call in _applies()} >= {"run.py", "fleet.py", "members.py", "rbac.py"}
