# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Would Cilium let a flow through? A small evaluator of its selectors and its default deny. Pure; it asks no cluster.

What it cannot know (names of DNS, layer 7, services, node labels, other sources of policies) it answers with unknown, never with a guess.
"""
