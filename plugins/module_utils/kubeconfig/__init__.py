# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs: what their fields are, how several files become one, and which entries a context chooses, as kubectl has it.

May import: base.
"""
