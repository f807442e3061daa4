# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where peers reach the mesh etcd of a cluster, and the files by which they do.

May import: binding, facts, versions.
"""
