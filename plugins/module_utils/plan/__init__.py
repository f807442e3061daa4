# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan as a value: steps, recipes of Secret values, hash, stored form, comparison of two plans.

May import: base, findings, mesh.
"""
