# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Meshes: from their custom resources to a request, and from a result to their statuses.

May import: base, credentials, runs, schedule, source, statuses.
"""
