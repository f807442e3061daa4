# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The result of a run of a mesh, in parts: the statuses of items, a line each in a file in the folder of the run, and what is left of it.

The task that publishes the result does this, in the confined child of the run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import plain

from ..statuses.item_statuses import items_of, statuses_of_items
from .confined.messages import PART
from .item_parts import ITEMS_FILE

_PREVIOUS: Final = "cilium_mesh_previous_status"


def publish(result: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of the result of a mesh, and write its parts. One of a fleet, which has no such variables, is returned as it is."""
    mesh, previous = (plain(variables.get(name)) for name in ("cilium_mesh", _PREVIOUS))
    if not isinstance(mesh, Mapping):
        return result
    items = items_of(mesh, previous if isinstance(previous, Mapping) else {})
    parts = statuses_of_items(result, items, datetime.now(UTC))
    with Path(os.environ["TMPDIR"], ITEMS_FILE).open("w", encoding="ascii") as file:
        while True:
            try:
                part = next(parts)
            except StopIteration as ended:
                head: dict[str, Any] = ended.value
                return head
            file.write(json.dumps({PART: part}, allow_nan=False) + "\n")
