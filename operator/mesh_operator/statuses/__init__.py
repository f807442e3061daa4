# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What statuses of all kinds have in common: rows of a result as a status, findings, and what is withheld.

May import: base, source.
"""
