# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The state of a mesh in one sentence, and what keeps it from being connected in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.redact import one_line
from ..base.tables import cell
from ..mesh.link_stage import LinkStage

LINKS_NAMED: Final = 3
ERROR_LIMIT: Final = 120


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


def links_not_ready(status: Mapping[str, Any]) -> str:
    """Return one sentence on the links that are not ready, for the message of a failure: link, stage, last error."""
    late = [link for link in status.get("links", ()) if not link["ready"] and link.get("stage") != LinkStage.NOT_ASKED]
    texts = [_named(link) + (f" ({one_line(link['error'], ERROR_LIMIT)})" if link["error"] else "") for link in late[:LINKS_NAMED]]
    more = f"; and {len(late) - LINKS_NAMED} more" if len(late) > LINKS_NAMED else ""
    return f"{'; '.join(texts)}{more}." if texts else ""


def _named(link: Mapping[str, Any]) -> str:
    return f"{cell(link['cluster'])} -> {cell(link['peer'])}: {link['stage']}"
