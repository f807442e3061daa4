# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rights that the functions of the collection need in a cluster, and the RBAC objects that give them.

May import: base, findings, leases, mesh, plan.
"""
