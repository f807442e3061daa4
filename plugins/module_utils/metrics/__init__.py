# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Metrics: the catalogue of all of them, the state of members and links over time, and the text formats that hold them. Pure.

May import: base, findings, mesh.
"""
