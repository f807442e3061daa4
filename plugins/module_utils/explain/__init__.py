# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Explanation of why one workload reaches another or not, hop by hop, from facts that were read.

May import: base, items, mesh, observe, policies, services.
"""
