# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Envelope of a mesh: how large it is, the limits of Cilium and Kubernetes, what is left, and what one more cluster would take. Pure.

May import: base, mesh.
"""
