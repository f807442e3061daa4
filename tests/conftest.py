# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What every test needs: the checkout importable as the collection, and property tests that do not mind a loaded machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.collection_path import link

link()

# On a loaded machine a draw may take a second; how long something takes is a matter for the benchmark, not for a test.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")
