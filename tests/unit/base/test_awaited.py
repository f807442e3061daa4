# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Threads are awaited by a thread that stays awake."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.awaited import awaited


def test_the_thread_that_waits_ticks_until_all_are_done_and_once_then() -> None:
    first, second = futures = (Future[str](), Future[str]())
    seen: list[tuple[int, threading.Thread]] = []

    def tick() -> None:
        seen.append((sum(future.done() for future in futures), threading.current_thread()))
        if len(seen) == 2:
            second.set_result("b")
        if len(seen) == 3:
            first.set_result("a")

    assert awaited(futures, tick, every=0.0) == ["a", "b"]
    assert seen == [(done, threading.current_thread()) for done in (0, 0, 1, 2)]


def test_what_a_thread_raised_is_raised_when_all_are_done() -> None:
    first, second = futures = (Future[str](), Future[str]())
    first.set_exception(ValueError("first"))
    with pytest.raises(ValueError, match="first"):
        awaited(futures, lambda: None if second.done() else second.set_result("b"), every=0.0)
    assert second.done()


def test_without_any_future_nothing_is_awaited() -> None:
    assert awaited((), lambda: pytest.fail("There is nothing to wait for."), every=0.0) == []
