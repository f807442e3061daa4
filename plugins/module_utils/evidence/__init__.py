# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The adapter of probes: the evidence that clusters give, which is pods, flows that agents recorded, and Jobs with their ends.

May import: base, items, kube, mesh, observe, probe.
"""
