# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Connectivity intents: parsing, compilation into Cilium policies, their impact, status; and an evaluator of policies.

May import: base, findings, items, mesh, plan, services.
"""
