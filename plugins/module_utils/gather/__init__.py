# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Archive for a bug report: what is in it, what is removed from it, and how it is packed. Pure: values in, bytes out.

May import: base, leases, mesh.
"""
