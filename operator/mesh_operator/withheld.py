# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Log of what statuses withhold from tenants: why an address that a tenant chose was not reached (docs/decisions/0046)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from .keys import MeshKey
from .log import log

MOST: Final = 50  # lines about one mesh; a mesh of 255 members has 64,770 links


class WithheldLog:
    """Log of the reasons, one line for each that the last result of the mesh did not have. Used by one thread for each mesh."""

    def __init__(self) -> None:
        self._logged: dict[MeshKey, frozenset[tuple[str, str]]] = {}

    def take(self, key: MeshKey, result: Mapping[str, Any] | None) -> None:
        """Log what is new in a ``mesh_result``, whose texts are not trusted; None: the run had none, which says nothing."""
        if result is None:
            return
        rows = [[one_line(row.get(part)) for part in ("cluster", "peer", "reason")] for row in rows_of(result, "withheld")[:MOST]]
        found = frozenset((f"{cluster} to {peer}" if peer else cluster, reason) for cluster, peer, reason in rows if reason)
        for where, reason in sorted(found - self._logged.pop(key, frozenset())):
            log("not_reached", workspace=key.workspace, namespace=key.namespace, name=key.name, reason=f"{where}: {reason}")
        if found:
            self._logged[key] = found
