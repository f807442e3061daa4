# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a waiting run says, without flooding anybody."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.connect import Progress
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown, Waiting
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import LinkState


class Terminal:
    """A clock that only sleeping moves, and what was shown."""

    def __init__(self, links: int = 2) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        self.states: list[str] = []
        ports = replace(real_ports(self._show), clock=lambda: self.now, sleep=self._sleep)
        self.progress = Progress(ports=ports, links=links, timeout=300.0)

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
