# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A pause for Python's cyclic garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """While many small values are made that all stay and form no cycles; also as a decorator.

    The collector looks at all living values again whenever their number has grown by a quarter. For the plan of 255 clusters, half a
    million values, that is a third of the time, and it never finds anything. Several threads may pause it: the first that ends ends it.
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()
