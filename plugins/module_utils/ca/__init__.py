# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The CAs of a mesh: what each link depends on, one CA for all, and a new CA without a dropped link."""
