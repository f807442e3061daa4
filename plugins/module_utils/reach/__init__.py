# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reach: which workloads may communicate on which ports by the policies of all clusters, now and after a plan. Pure.

May import: base, findings, items, mesh, plan, policies, services.
"""
