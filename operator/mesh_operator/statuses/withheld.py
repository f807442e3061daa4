# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Log of what statuses withhold from tenants: why an address that a tenant chose was not reached (docs/decisions/0046)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.withheld import NewReasons

from ..base.keys import UnitKey
from ..base.log import log


class WithheldLog:
    """Log of the reasons, one line for each that the last result of the mesh did not have. Used by one thread for each mesh."""

    def __init__(self) -> None:
        self._reasons = NewReasons[UnitKey]()

    def take(self, key: UnitKey, result: Mapping[str, Any] | None) -> None:
        """Log what is new in a ``mesh_result``; None: the run had none, which says nothing."""
        for reason in self._reasons.take(key, result, time.monotonic()):
            log("not_reached", workspace=key.workspace, namespace=key.namespace, name=key.name, reason=reason)
