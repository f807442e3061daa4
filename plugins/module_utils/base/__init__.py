# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ground that every other package stands on: errors, redaction, YAML, JSON fields, conditions, tables.

May import: nothing of this collection.
"""
