# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that describe a mesh and its clusters, and pure rules about them, in rooms.

facts, binding, versions, x509, endpoints, ownership and trust. What stands beside the rooms needs several of them.

May import: base.
"""
