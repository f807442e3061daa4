# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Global services: parsing, assignment, annotations or MCS objects, failover, status.

May import: base, findings, items, mesh, plan.
"""
