# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Certificates and keys, parsed, compared and issued.

May import: facts.
"""
