# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Leases of cluster names and ids: the registry, its quorum protocol, tombstones of clusters that left.

May import: base, findings, mesh, plan.
"""
