# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Workloads on many clusters by Karmada: translation, placement, revisions, rollouts and status. All is pure but observe.py.

May import: base, findings, items, mesh, observe, plan.
"""
