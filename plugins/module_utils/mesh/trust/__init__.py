# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How the clusters of a link come to trust each other, and the CAs for that.

May import: binding, endpoints, facts, x509.
"""
