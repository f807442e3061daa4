# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The pause of the garbage collector: what was created during it is not visited when it ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.gc_pause import collector_paused, has_frozen_values


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    """Have the collector on, and nothing frozen, as in a run."""
    was_enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.unfreeze()
    gc.enable()
    has_frozen_values.cache_clear()
    yield
    has_frozen_values.cache_clear()
    gc.unfreeze()
    if frozen:
        gc.freeze()
    if not was_enabled:
        gc.disable()


def passes() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_neither_the_pause_nor_its_end_visits_what_was_created() -> None:
    with collector_paused():
        before = passes()
        kept = [[number] for number in range(100_000)]
    assert passes() == before
    young = {id(value) for generation in (0, 1) for value in gc.get_objects(generation=generation)}
    assert not any(id(value) in young for value in kept)
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_what_the_caller_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collector_paused():
        pass
    assert gc.get_freeze_count() == frozen > 0
    assert gc.isenabled()


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
