# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Results for people and programs: plan as text and Markdown, JUnit, eligibility, mesh_result, all codes.

May import: base, checks, findings, mesh.
"""
