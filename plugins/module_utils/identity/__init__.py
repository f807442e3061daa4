# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Deciding, planning and verifying names and ids of clusters.

May import: apply, base, findings, leases, links, mesh, observe, plan.
"""
