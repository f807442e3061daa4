# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The engine of the collection, in packages by layer (docs/architecture.md).

This module util is private: its names can change in any release. The public interface is the modules, roles, playbooks, filters, the
inventory plugin and mesh_result.
"""

from __future__ import annotations
