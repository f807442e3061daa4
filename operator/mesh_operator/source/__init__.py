# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Custom resources, in kcp or in an ordinary cluster: endpoints, watches, the store with its bounds, and what is written back.

May import: base.
"""
