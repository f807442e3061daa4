# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rehearsal of losses: what happens to services, exposures, leases and certificates when members or links are gone. Pure.

May import: base, exposure, items, leases, mesh, services.
"""
