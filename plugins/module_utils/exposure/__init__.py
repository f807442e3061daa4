# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exposed services: parsing, placement, addresses, gateways, enforcement, status.

May import: base, findings, items, mesh, plan, policies, services.
"""
