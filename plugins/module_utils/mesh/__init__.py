# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that describe a mesh and its clusters, and pure rules about them: facts, versions, trust, endpoints, certificates, ownership.

May import: base.
"""
