# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the clusters hold now and did not hold before, and whose it says it is. Pure; values are as tests.integration.everything finds
them, by CLUSTER/KIND/NAMESPACE/NAME."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

WORKSPACE: Final = "edge-connect.eu/source-workspace"
Everything = Mapping[str, Mapping[str, Any]]


def left(before: Everything, after: Everything) -> list[str]:
    """A line for each object that is new, gone or another one; of one that is another one what differs: names, no values."""
    found = [f"{path} is new" for path in after.keys() - before.keys()] + [f"{path} is gone" for path in before.keys() - after.keys()]
    for path in before.keys() & after.keys():
        if before[path] != after[path]:
            found.append(f"{path} differs in {', '.join(_differences(before[path], after[path]))}")
    return sorted(found)


def workspaces(found: Everything) -> Counter[str]:
    """How many objects say of which workspace they are."""
    labels = (entry["metadata"].get("labels") or {} for entry in found.values())
    return Counter(str(entry[WORKSPACE]) for entry in labels if WORKSPACE in entry)


def _differences(before: Any, after: Any, place: str = "") -> list[str]:
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return [place]
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return [found for key in keys for found in _differences(before.get(key), after.get(key), f"{place}.{key}".lstrip("."))]
