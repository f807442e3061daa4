# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a binding asks for: its values, the parser of the variable ``cilium_mesh``, and the rows of kinds.

May import: no other room.
"""
