# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The state of a mesh in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.tables import cell
from ..mesh.link_stage import LinkStage

LINKS_NAMED: Final = 3


def verdict(name: str, status: Mapping[str, Any]) -> str:
    """Return ``edge-mesh-eu: Connected (2/2 clusters, 2/2 links ready)``. ``status`` is ``status.binding`` of a result."""
    every = status.get("meshStatus", ())
    clusters = [row for row in every if row.get("asked", True)]
    links = [link for link in status.get("links", ()) if link.get("stage") != LinkStage.NOT_ASKED]
    left_out = [cell(str(row.get("clusterName"))) for row in every if not row.get("asked", True)]
    more = f"; not asked: {', '.join(left_out)}" if left_out else ""
    connected = sum(bool(row.get("connected")) for row in clusters)
    ready = sum(bool(link.get("ready")) for link in links)
    return f"{cell(name)}: {status.get('phase')} ({connected}/{len(clusters)} clusters, {ready}/{len(links)} links ready{more})"
