# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Processes that work for a tenant: dry runs and playbooks, each confined.

May import: base, credentials, statuses.
"""
