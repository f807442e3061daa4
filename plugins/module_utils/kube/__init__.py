# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Client of one Kubernetes API server: credentials, requests, exec and port-forward, and its errors.

May import: base, kubeconfig.
"""
