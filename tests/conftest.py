# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What every test needs: the checkout importable as the collection, and property tests that do not mind a loaded machine."""

from __future__ import annotations

import gc

from tests.collection_path import link
from tests.testing import properties

link()
properties.register()


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight: it stays to the end, and every full pass would walk it."""
    gc.collect()
    gc.freeze()
