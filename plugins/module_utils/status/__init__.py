# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of links, meshes and fabrics as measured, and the wait until links are ready. Pure but for the injected clock.

May import: base, etcd, findings, mesh.
"""
