# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pause of Python's cyclic garbage collector."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@functools.cache
def has_frozen_values() -> bool:
    """Return whether the process had frozen values when it first paused the collector. To count them takes milliseconds."""
    return gc.get_freeze_count() > 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while many small values are created that all stay and form no cycles.

    Usable as a context manager and as a decorator. The collector visits all living values again whenever their number has grown by a
    quarter. For the plan of 255 clusters, half a million values, that is a third of the time, and it never finds anything. Several threads
    may pause the collector at once; the first of them to finish resumes it. What was created joins the values that stay: else the collector
    would visit all of it once when it resumes, which takes as long as a quarter of that plan.
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            if not has_frozen_values():  # else they stay frozen
                gc.freeze()
                gc.unfreeze()  # which puts them into the oldest generation (docs.python.org/3/library/gc.html)
            gc.enable()
