# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which cluster is whose, and its kubeconfig, which stays sealed until a confined process opens it.

May import: base, source.
"""
