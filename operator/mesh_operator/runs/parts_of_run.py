# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The result of a run, in parts: the statuses of objects, a line each in a file in the folder of the run, and what is left of it.

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

from ..statuses.heads import head_of_fleet, head_of_mesh
from ..statuses.item_statuses import FLEET_OBJECTS, items_of, objects_of, statuses_of_items
from .confined.messages import PART
from .item_parts import ITEMS_FILE

_PREVIOUS: Final = "cilium_mesh_previous_status"


def publish(result: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head of the result of a mesh or of a fleet, and write its parts."""
    mesh, previous, objects = (plain(variables.get(name)) for name in ("cilium_mesh", _PREVIOUS, FLEET_OBJECTS))
    now = datetime.now(UTC)
    if isinstance(objects, list):
        parts = statuses_of_items(result, objects_of(objects), now, head_of_fleet)
    elif isinstance(mesh, Mapping):
        parts = statuses_of_items(result, items_of(mesh, previous if isinstance(previous, Mapping) else {}), now, head_of_mesh)
    else:
        return result
    with Path(os.environ["TMPDIR"], ITEMS_FILE).open("w", encoding="ascii") as file:
        while True:
            try:
                part = next(parts)
            except StopIteration as ended:
                head: dict[str, Any] = ended.value
                return head
            file.write(json.dumps({PART: part}, allow_nan=False) + "\n")
