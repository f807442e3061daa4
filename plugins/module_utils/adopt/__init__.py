# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Adoption of a mesh that Helm or the cilium CLI made, and its hand-back.

May import: base, findings, leases, links, mesh, plan.
"""
