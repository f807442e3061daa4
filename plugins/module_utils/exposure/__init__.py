# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""ExposedService: one port of one Service, with a stable address outside the mesh."""
