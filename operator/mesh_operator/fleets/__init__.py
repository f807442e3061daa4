# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fleets: from their custom resources to runs, and from results to statuses and answers.

May import: base, credentials, runs, schedule, source, statuses.
"""
