# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What every room knows: kinds, keys, settings, the log, metrics, and connections to API servers.

May import: no other room.
"""
