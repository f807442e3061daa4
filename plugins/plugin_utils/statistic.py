# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The statistic ``mesh_result`` as a run publishes it: the whole result, unless the process of the run publishes it in another way.

The operator does so: the statuses of thousands of items do not fit into one event of ansible-runner (docs/decisions/0065).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Publish = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""What is published of a result: ``publish(result, variables of the task)``."""

_publish: list[Publish] = []


def publish_by(publish: Publish) -> None:
    """Have this process, and those that it forks, publish results in another way."""
    _publish[:] = [publish]


def statistic_of(result: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is published of a result."""
    return _publish[0](result, variables) if _publish else result
