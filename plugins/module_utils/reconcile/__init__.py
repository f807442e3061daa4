# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of all kinds of items in one run: parse, observe the scene, plan, status.

May import: base, exposure, findings, items, leases, mesh, observe, plan, policies, probe, services.
"""
