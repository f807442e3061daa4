# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Vocabulary of the items of a mesh (global services, connectivity intents, exposed services): models, ownership, scene.

May import: findings, mesh, plan.
"""
