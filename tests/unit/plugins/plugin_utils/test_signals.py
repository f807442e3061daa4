# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Signals that end a run: everything is given back first, then they do what they would have done."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import signals
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.signals import SIGNALS, Stopped, stopped_by_signals


@pytest.fixture
def happened() -> Iterator[list[str]]:
    """What happened, in order; signals are noted by the handlers that were there before."""
    found: list[str] = []
    before = {number: signal.signal(number, lambda number, _frame: found.append(signal.Signals(number).name)) for number in SIGNALS}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_what_the_block_holds_is_given_back_before_the_signal_takes_effect(number: signal.Signals, happened: list[str]) -> None:
    with suppress(Stopped), stopped_by_signals():
        try:
            signal.raise_signal(number)
            happened.append("the run goes on")
        finally:
            signal.raise_signal(signal.SIGINT)  # an impatient user
            happened.append("given back")
    assert happened == ["given back", number.name]
    assert signal.alarm(0) == 0
    signal.raise_signal(number)
    assert happened[2:] == [number.name], "the handlers are those from before"


def test_code_that_swallows_the_signal_does_not_lose_it(happened: list[str]) -> None:
    with stopped_by_signals(), suppress(BaseException):
        signal.raise_signal(signal.SIGTERM)
    assert happened == ["SIGTERM"]


def test_a_block_without_a_signal_is_as_it_was(happened: list[str]) -> None:
    with stopped_by_signals():
        happened.append("the run")
    thread = threading.Thread(target=lambda: stopped_by_signals().__enter__())
    thread.start()
    thread.join()
    signal.raise_signal(signal.SIGINT)
    assert happened == ["the run", "SIGINT"]


def test_a_process_that_cannot_give_back_in_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "GRACE", 1)
    child = os.fork()
    if child == 0:
        try:
            with stopped_by_signals():
                try:
                    signal.raise_signal(signal.SIGTERM)
                finally:
                    while True:
                        time.sleep(1)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGALRM
