# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters as members of Karmada: joining, renewal of tokens, status and leaving.

Pure, but for the reading in ``observe`` and ``contents`` and the requests of ``tokens``.

May import: base, findings, fleet, kubeconfig, mesh, observe, plan.
"""
