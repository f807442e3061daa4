# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings: their type, the catalogue of their codes, and their common wording.

May import: mesh.
"""
