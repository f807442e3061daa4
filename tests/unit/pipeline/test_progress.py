# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a waiting run says, without flooding anybody."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.connect import Progress
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Sentence, Shown
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import LinkState


class Terminal:
    """A clock that only sleeping moves, and what was shown."""

    def __init__(self, links: int = 2) -> None:
        self.now = 100.0
        self.lines: list[str] = []
        ports = replace(real_ports(self._show), clock=lambda: self.now, sleep=self._sleep)
        self.progress = Progress(ports=ports, links=links, timeout=300.0)

    def _show(self, shown: Shown) -> None:
        assert isinstance(shown, Sentence)
        self.lines.append(shown.text)

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
