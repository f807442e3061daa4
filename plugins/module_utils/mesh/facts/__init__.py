# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is read from a cluster, as values without behaviour and without a private key.

May import: no other room.
"""
