# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Confined processes: limits, a fork server, and questions and answers. Nothing here knows of meshes; decision 0044 says why it exists."""
