# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``make bench``: what planning and connecting cost. Prints figures and targets, and never fails because of one."""
