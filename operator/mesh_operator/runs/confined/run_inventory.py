# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugin of Ansible for the runs of the operator: hosts and their variables as JSON, in which no text is a template.

Ansible evaluates only texts that are marked as trusted, and marks those of an inventory plugin if that says so (``trusted_by_default``,
plugins/inventory/__init__.py). Its own ``yaml`` trusts what it reads, and gives keys such as ``__ansible_unsafe`` a meaning.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.inventory import BaseInventoryPlugin

DOCUMENTATION = """
    name: run_inventory
    short_description: Hosts of one run of the operator
    description: Reads a file of JSON, a mapping from the name of a host to its variables. No text in it is a template.
    options: {}
"""


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # ansible-core has no types
    """Reader of a mapping from the name of a host to its variables."""

    NAME = "run_inventory"
    trusted_by_default = False

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Add the hosts of a file.

        :raises ValueError: when it is not JSON.
        """
        super().parse(inventory, loader, path, cache)
        hosts: dict[str, dict[str, Any]] = json.loads(Path(path).read_bytes())
        for host, variables in hosts.items():
            inventory.add_host(host)
            for name, value in {"ansible_connection": "local", **variables}.items():
                inventory.set_variable(host, name, value)
