# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Planning the links of a mesh: keys, users, host aliases, load balancers, repair, drift.

May import: base, findings, leases, mesh, plan.
"""
