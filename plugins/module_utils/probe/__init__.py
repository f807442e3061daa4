# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Proof of connectivity intents: flows from Hubble or a probe Job, and their verdict.

May import: base, findings, items, mesh, policies.
"""
