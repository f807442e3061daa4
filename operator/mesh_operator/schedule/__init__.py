# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: the queue, shares of workspaces, how long turns take, their early end, and the leader.

May import: base.
"""
