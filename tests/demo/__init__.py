# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``make demo``: the main job of the collection, on two real control planes of the lab."""
