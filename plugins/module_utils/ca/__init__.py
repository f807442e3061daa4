# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Trust over time: reports of CA lifetimes, renewal, and the roll of a CA in proven stages.

May import: base, findings, mesh, observe, plan, status.
"""
