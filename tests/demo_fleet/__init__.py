# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The demo of the fleet side: ``python -m tests.demo_fleet``."""
