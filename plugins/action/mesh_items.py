# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_items: reconciles the global services, connectivity intents and exposed services of a mesh."""

from __future__ import annotations

from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..plugin_utils.items_action import ItemsAction


class ActionModule(ItemsAction):
    """Action mesh_items: reconciles the global services, connectivity intents and exposed services of a mesh."""

    KINDS = tuple(ItemKind)
