# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading the etcd of a mesh endpoint: the client, the records that peers publish, the heartbeat, the access of a link.

May import: base, mesh.
"""
