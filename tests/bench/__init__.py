# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``make bench``: what connect costs, next to an empty play. Prints figures and never fails because of one."""
