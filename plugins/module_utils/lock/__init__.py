# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lock of a mesh: one run at a time writes to its members. An object of kind Lease in each member names the run that holds it.

A lock is not a lease of ``leases``, which is the record that a cluster holds a name and an id. docs/decisions/0040 has the protocol.

May import: base, kube, leases, mesh.
"""
