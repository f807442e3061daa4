# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Forecast of an upgrade of Cilium in all members: order of the hops, what each changes, and what has to be done before and after. Pure.

May import: base, findings, items, mesh, plan, policies, reach, services.
"""
