# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Evaluator of Cilium's selectors and default deny: whether Cilium would let a flow through. Pure; it reads no cluster.

What it cannot know (DNS names, layer 7, services, node labels, other sources of policies) it answers with unknown, never with a
guess.
"""
