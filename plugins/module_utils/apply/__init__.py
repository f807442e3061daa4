# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Carrying out a plan: writes in waves, values of Secrets made at the time of the write, diffs, rollouts.

May import: base, ca, kube, leases, mesh, observe, plan.
"""
